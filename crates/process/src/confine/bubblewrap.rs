//! A sandbox of namespaces, created by the program `bwrap`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use super::SandboxBounds;
use crate::network::Network;

/// Possible locations of the program; the library does not read `PATH`.
const PROGRAM_PATHS: &[&str] = &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// Paths of `/run` that are visible in the sandbox: name resolution, and the programs of systems that install them there. Everything else in `/run`
/// is sockets of services that could act on behalf of a confined command.
const VISIBLE_IN_RUN: &[&str] = &[
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
];

/// Directories that the sandbox replaces with its own.
const REPLACED: &[&str] = &["/dev", "/proc", "/run", "/tmp"];

/// Returns the program if it is installed and can create a sandbox on this host. The result is cached.
pub(super) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<&'static Path>> = OnceLock::new();
    *PROGRAM.get_or_init(|| {
        let mut paths = PROGRAM_PATHS.iter().map(Path::new);
        paths.find(|path| path.exists() && can_run(path))
    })
}

/// Returns the program to start. If none was found, returns the usual path, so that the start fails and nothing runs unconfined.
pub(super) fn program_or_usual() -> &'static Path {
    program().unwrap_or(Path::new(PROGRAM_PATHS[0]))
}

/// Returns whether the program is setuid or setgid, and so runs with other rights than this process.
#[cfg(target_os = "linux")]
pub(super) fn needs_privileges() -> bool {
    use std::os::unix::fs::PermissionsExt;

    let metadata = program_or_usual().metadata();
    metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
}

/// Runs an empty command, because containers and some distributions forbid the namespaces that a sandbox needs.
fn can_run(program: &Path) -> bool {
    let bounds = SandboxBounds::writable("/tmp");
    let status = Command::new(program)
        .args(arguments(&bounds))
        .args(["--", "/bin/sh", "-c", ":"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Returns the arguments that describe a sandbox. Order matters: a later mount covers an earlier one.
pub(super) fn arguments(bounds: &SandboxBounds) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add(["--die-with-parent", "--new-session", "--unshare-all"]);
    if bounds.network == Network::Inherit {
        arguments.add(["--share-net"]);
    }
    arguments.add(["--cap-drop", "ALL"]);
    let is_root_directory = bounds.root == Path::new("/");
    let mount = if bounds.is_writable {
        "--bind"
    } else {
        "--ro-bind"
    };
    let root_mount = if is_root_directory {
        mount
    } else {
        "--ro-bind"
    };
    arguments.add([root_mount, "/", "/"]);
    // If the host runs as root, the kernel treats the command as root too, and it could change settings in `/proc`.
    arguments.add(["--proc", "/proc", "--remount-ro", "/proc"]);
    arguments.add(["--dev", "/dev", "--tmpfs", "/tmp"]);
    if Path::new("/run").is_dir() {
        arguments.add(["--tmpfs", "/run"]);
        for path in VISIBLE_IN_RUN {
            arguments.add(["--ro-bind-try", path, path]);
        }
    }
    // A read-only root is already visible, unless the sandbox replaces the directory it is in.
    if !is_root_directory && (bounds.is_writable || is_replaced(&bounds.root)) {
        arguments.bind(mount, &bounds.root);
    }
    let covers = covers_of(bounds);
    for step in &covers {
        match step {
            Cover::Pinned(directory) if is_writable_outside_root(bounds, directory) => {
                arguments.bind("--bind", directory);
            }
            Cover::Pinned(directory) => arguments.bind(mount, directory),
            Cover::Writable(path) => arguments.bind("--bind", path),
            Cover::ReadOnly(path) => arguments.bind("--ro-bind", path),
            Cover::Hidden(path) => arguments.hide(path),
        }
    }
    // Remount last: mount points below a hidden directory must be created while it is still writable.
    let hidden = covers.iter().filter_map(Cover::hidden_directory);
    let hidden = hidden.filter(|path| bounds.private_home.as_deref() != Some(path));
    hidden.for_each(|path| arguments.path("--remount-ro", path));
    arguments.path("--chdir", &bounds.cwd);
    arguments.0
}

/// Writes the program's variables to an open file that bubblewrap reads.
#[cfg(target_os = "linux")]
pub(super) fn variables(variables: &BTreeMap<OsString, OsString>) -> io::Result<OwnedFd> {
    let mut text = Vec::new();
    for (name, value) in variables {
        for word in [OsStr::new("--setenv"), name, value] {
            text.extend_from_slice(word.as_bytes());
            text.push(0);
        }
    }
    super::system_calls::memory_file("variables", &text)
}

/// Namespaces exist only on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn variables(_variables: &BTreeMap<OsString, OsString>) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes the system call filter to an open file that bubblewrap reads.
#[cfg(target_os = "linux")]
pub(super) fn system_calls(network: Network) -> io::Result<OwnedFd> {
    super::system_calls::in_namespaces(network)
}

/// Namespaces exist only on Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn system_calls(_network: Network) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether the sandbox contains none of the host's files at a path.
fn is_replaced(path: &Path) -> bool {
    REPLACED.iter().any(|replaced| path.starts_with(replaced))
}

/// Returns whether a path is in a writable directory outside the root.
fn is_writable_outside_root(bounds: &SandboxBounds, path: &Path) -> bool {
    let mut outside = bounds.also_writable.iter();
    outside.any(|directory| path.starts_with(directory))
}

/// A mount over the host's files. The order of the variants is the mount order at the same path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Cover {
    /// A writable path outside the root, or the root itself.
    Writable(PathBuf),
    /// A path that is readable although it is below a hidden one.
    ReadOnly(PathBuf),
    /// A directory mounted over itself: a mount point cannot be renamed, so the hidden paths below it do not move.
    Pinned(PathBuf),
    Hidden(PathBuf),
}

impl Cover {
    fn path(&self) -> &Path {
        match self {
            Self::Writable(path)
            | Self::ReadOnly(path)
            | Self::Pinned(path)
            | Self::Hidden(path) => path,
        }
    }

    fn hidden_directory(&self) -> Option<&Path> {
        match self {
            Self::Hidden(path) if path.is_dir() => Some(path),
            Self::Hidden(_) | Self::Writable(_) | Self::ReadOnly(_) | Self::Pinned(_) => None,
        }
    }
}

/// Returns the mounts over the host's files, parents first.
fn covers_of(bounds: &SandboxBounds) -> Vec<Cover> {
    // A directory that is empty in the sandbox hides its contents, except for paths that are mounted there.
    let is_mountable = |cover: &Cover| {
        let path = cover.path();
        matches!(cover, Cover::ReadOnly(_))
            || path.starts_with(&bounds.root) && bounds.root != Path::new("/")
            || is_writable_outside_root(bounds, path)
            || bounds.private_home.as_deref() == Some(path)
            || !is_replaced(path)
    };
    let is_listed =
        |path| bounds.also_writable.contains(path) || bounds.also_readable.contains(path);
    let hidden = bounds
        .hidden
        .places()
        .iter()
        .filter(|path| !is_listed(path));
    let mut all: Vec<_> = (hidden.cloned().map(Cover::Hidden))
        .chain(bounds.pinned.iter().cloned().map(Cover::Pinned))
        .chain(bounds.also_writable.iter().cloned().map(Cover::Writable))
        .chain(bounds.also_readable.iter().cloned().map(Cover::ReadOnly))
        .chain(root_below_cover(bounds))
        .filter(is_mountable)
        .collect();
    all.sort_by(|one, other| one.path().cmp(other.path()).then_with(|| one.cmp(other)));
    let mut covers = Covers::default();
    for cover in all {
        let is_below_hidden = covers.hides(cover.path());
        let root = bounds.is_writable.then_some(&bounds.root);
        let mut writable = root.into_iter().chain(&bounds.also_writable);
        let within = writable.find(|above| cover.path().starts_with(above));
        let is_needed = match &cover {
            Cover::Writable(_) => true,
            Cover::ReadOnly(path) => is_below_hidden || is_replaced(path) && within.is_none(),
            Cover::Pinned(_) | Cover::Hidden(_) => !is_below_hidden,
        };
        if !is_needed {
            continue;
        }
        if let (false, Some(above)) = (is_below_hidden, within) {
            covers.pin_above(cover.path(), above);
        }
        match cover {
            Cover::Pinned(path) => covers.pin(&path),
            cover => covers.0.push(cover),
        }
    }
    covers.0
}

/// Returns a cover for the root if another cover applies to one of its parents.
fn root_below_cover(bounds: &SandboxBounds) -> Option<Cover> {
    let mut covered = bounds.hidden.places().iter().chain(&bounds.also_readable);
    let is_below = covered.any(|above| bounds.root.starts_with(above));
    let root = bounds.root.clone();
    is_below.then_some(if bounds.is_writable {
        Cover::Writable(root)
    } else {
        Cover::ReadOnly(root)
    })
}

#[derive(Default)]
struct Covers(Vec<Cover>);

impl Covers {
    /// Returns whether the nearest cover above a path hides it.
    fn hides(&self, path: &Path) -> bool {
        let above = self.0.iter().filter(|cover| path.starts_with(cover.path()));
        let nearest = above.max_by_key(|cover| cover.path().components().count());
        matches!(nearest, Some(Cover::Hidden(_)))
    }

    /// Mounts each directory between a path and the root over itself, so that none can be renamed.
    fn pin_above(&mut self, path: &Path, root: &Path) {
        let mut above: Vec<_> = (path.ancestors().skip(1))
            .take_while(|above| above.starts_with(root) && *above != root)
            .collect();
        above.reverse();
        above.into_iter().for_each(|above| self.pin(above));
    }

    fn pin(&mut self, path: &Path) {
        let is_pinned = |cover: &Cover| matches!(cover, Cover::Pinned(pinned) if pinned == path);
        if !self.0.iter().any(is_pinned) {
            self.0.push(Cover::Pinned(path.to_owned()));
        }
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, arguments: [&str; N]) {
        self.0.extend(arguments.map(OsString::from));
    }

    fn path(&mut self, option: &str, path: &Path) {
        self.0.extend([option.into(), path.into()]);
    }

    /// Mounts a path of the host at the same path.
    fn bind(&mut self, mount: &str, path: &Path) {
        self.path(mount, path);
        self.0.push(path.into());
    }

    /// Covers a directory with an empty one, and a file with `/dev/null`.
    fn hide(&mut self, path: &Path) {
        if path.is_dir() {
            self.path("--tmpfs", path);
        } else {
            self.path("--ro-bind", Path::new("/dev/null"));
            self.0.push(path.into());
        }
    }
}
