//! A sandbox of namespaces, created by the program `bwrap`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
#[cfg(target_os = "linux")]
use std::{
    ffi::OsStr,
    fs::File,
    io::{Seek, Write},
    os::unix::ffi::OsStrExt,
};

#[cfg(target_os = "linux")]
use rustix::fs::{MemfdFlags, memfd_create};

use super::SandboxBounds;
use crate::network::Network;

/// Possible locations of the program; the library does not read `PATH`.
const PLACES: &[&str] = &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// Paths of `/run` that are visible in the sandbox: name resolution, and the programs of systems that install them there. Everything else in `/run`
/// is sockets of services that could act on behalf of a confined command.
const SHOWN_OF_RUN: &[&str] = &[
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
];

/// Directories that the sandbox replaces with its own.
const EMPTY: &[&str] = &["/dev", "/proc", "/run", "/tmp"];

/// Returns the program if it is installed and can create a sandbox on this host. The result is cached.
pub(super) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<&'static Path>> = OnceLock::new();
    *PROGRAM.get_or_init(|| {
        let places = PLACES.iter().map(Path::new);
        places
            .into_iter()
            .find(|place| place.exists() && can_run(place))
    })
}

/// Returns the program to start. If none was found, returns the usual path, so that the start fails and nothing runs unconfined.
pub(super) fn program_or_usual() -> &'static Path {
    program().unwrap_or(Path::new(PLACES[0]))
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
    let bounds = SandboxBounds::of("/tmp");
    let tried = Command::new(program)
        .args(arguments(&bounds))
        .args(["--", "/bin/sh", "-c", ":"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Returns the arguments that describe a sandbox. Order matters: a later mount covers an earlier one.
pub(super) fn arguments(bounds: &SandboxBounds) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add(["--die-with-parent", "--new-session", "--unshare-all"]);
    if bounds.network == Network::Inherit {
        arguments.add(["--share-net"]);
    }
    arguments.add(["--cap-drop", "ALL"]);
    let is_everything = bounds.root == Path::new("/");
    let how = if bounds.is_writable {
        "--bind"
    } else {
        "--ro-bind"
    };
    let first = if is_everything { how } else { "--ro-bind" };
    arguments.add([first, "/", "/"]);
    // If the host runs as root, the kernel treats the command as root too, and it could change settings in `/proc`.
    arguments.add(["--proc", "/proc", "--remount-ro", "/proc"]);
    arguments.add(["--dev", "/dev", "--tmpfs", "/tmp"]);
    if Path::new("/run").is_dir() {
        arguments.add(["--tmpfs", "/run"]);
        for shown in SHOWN_OF_RUN {
            arguments.add(["--ro-bind-try", shown, shown]);
        }
    }
    // A read-only root is already visible, unless the sandbox replaces the directory it is in.
    if !is_everything && (bounds.is_writable || is_empty(&bounds.root)) {
        arguments.bind(how, &bounds.root);
    }
    let covers = covering(bounds);
    for step in &covers {
        match step {
            Cover::Held(directory) if is_beside(bounds, directory) => {
                arguments.bind("--bind", directory);
            }
            Cover::Held(directory) => arguments.bind(how, directory),
            Cover::Shown(path) => arguments.bind("--bind", path),
            Cover::Seen(path) => arguments.bind("--ro-bind", path),
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
    let mut file = File::from(memfd_create("variables", MemfdFlags::CLOEXEC)?);
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file.into())
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
fn is_empty(path: &Path) -> bool {
    EMPTY.iter().any(|empty| path.starts_with(empty))
}

/// Returns whether a path is in a writable directory outside the root.
fn is_beside(bounds: &SandboxBounds, path: &Path) -> bool {
    let mut beside = bounds.also_writable.iter();
    beside.any(|directory| path.starts_with(directory))
}

/// A mount over the host's files. The order of the variants is the mount order at the same path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Cover {
    /// A writable path outside the root, or the root itself.
    Shown(PathBuf),
    /// A path that is readable although it is below a hidden one.
    Seen(PathBuf),
    /// A directory mounted over itself: a mount point cannot be renamed, so the hidden paths below it stay where they are.
    Held(PathBuf),
    Hidden(PathBuf),
}

impl Cover {
    fn path(&self) -> &Path {
        match self {
            Self::Shown(path) | Self::Seen(path) | Self::Held(path) | Self::Hidden(path) => path,
        }
    }

    fn hidden_directory(&self) -> Option<&Path> {
        match self {
            Self::Hidden(path) if path.is_dir() => Some(path),
            Self::Hidden(_) | Self::Shown(_) | Self::Seen(_) | Self::Held(_) => None,
        }
    }
}

/// Returns the mounts over the host's files, parents first.
fn covering(bounds: &SandboxBounds) -> Vec<Cover> {
    // A directory that is empty in the sandbox hides its contents, except for paths that are mounted there.
    let is_shown = |cover: &Cover| {
        let path = cover.path();
        matches!(cover, Cover::Seen(_))
            || path.starts_with(&bounds.root) && bounds.root != Path::new("/")
            || is_beside(bounds, path)
            || bounds.private_home.as_deref() == Some(path)
            || !is_empty(path)
    };
    let places = bounds.hidden.places().iter();
    let is_named = |path| bounds.also_writable.contains(path) || bounds.also_seen.contains(path);
    let hidden = places.filter(|path| !is_named(path));
    let hidden = hidden.cloned().map(Cover::Hidden);
    let held = bounds.held.iter().cloned().map(Cover::Held);
    let shown = bounds.also_writable.iter().cloned().map(Cover::Shown);
    let seen = bounds.also_seen.iter().cloned().map(Cover::Seen);
    let mut all: Vec<_> = hidden
        .chain(held)
        .chain(shown)
        .chain(seen)
        .chain(root_below_cover(bounds))
        .filter(is_shown)
        .collect();
    all.sort_by(|one, other| one.path().cmp(other.path()).then_with(|| one.cmp(other)));
    let mut covers = Covers::default();
    for cover in all {
        let is_below_hidden = covers.hides(cover.path());
        let beside = bounds.also_writable.iter();
        let root = bounds.is_writable.then_some(&bounds.root);
        let mut within = root
            .into_iter()
            .chain(beside)
            .filter(|above| cover.path().starts_with(above));
        let within = within.next();
        let is_needed = match &cover {
            Cover::Shown(_) => true,
            Cover::Seen(path) => is_below_hidden || is_empty(path) && within.is_none(),
            Cover::Held(_) | Cover::Hidden(_) => !is_below_hidden,
        };
        if !is_needed {
            continue;
        }
        if let (false, Some(above)) = (is_below_hidden, within) {
            covers.hold_above(cover.path(), above);
        }
        match cover {
            Cover::Held(path) => covers.hold(&path),
            cover => covers.0.push(cover),
        }
    }
    covers.0
}

/// Returns a cover for the root if another cover applies to one of its parents.
fn root_below_cover(bounds: &SandboxBounds) -> Option<Cover> {
    let mut laid = bounds.hidden.places().iter().chain(&bounds.also_seen);
    let is_below = laid.any(|above| bounds.root.starts_with(above));
    let root = bounds.root.clone();
    is_below.then_some(if bounds.is_writable {
        Cover::Shown(root)
    } else {
        Cover::Seen(root)
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
    fn hold_above(&mut self, path: &Path, root: &Path) {
        let above = path.ancestors().skip(1);
        let mut above: Vec<_> = above
            .take_while(|above| above.starts_with(root) && *above != root)
            .collect();
        above.reverse();
        above.into_iter().for_each(|above| self.hold(above));
    }

    fn hold(&mut self, path: &Path) {
        let is_held = |cover: &Cover| matches!(cover, Cover::Held(held) if held == path);
        if !self.0.iter().any(is_held) {
            self.0.push(Cover::Held(path.to_owned()));
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
    fn bind(&mut self, how: &str, path: &Path) {
        self.path(how, path);
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
