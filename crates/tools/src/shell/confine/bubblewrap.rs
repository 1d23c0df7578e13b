//! A sandbox of namespaces, made by the program `bwrap`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::Bounds;
use crate::environments::Network;

/// Where the program may be; the library does not read `PATH`.
const PLACES: &[&str] = &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"];
/// What of `/run` is shown again: name resolution, and the programs of a system that keeps them there. The rest is
/// sockets of services that would do for a command what it must not do itself.
const SHOWN_OF_RUN: &[&str] = &[
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
];

/// Returns the program, if it is installed and can make a sandbox here. It is tried once.
pub(super) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<&'static Path>> = OnceLock::new();
    *PROGRAM.get_or_init(|| {
        let places = PLACES.iter().map(Path::new);
        places
            .into_iter()
            .find(|place| place.exists() && can_run(place))
    })
}

/// Returns the program to start, also where it was not found: then starting it fails, and nothing runs unconfined.
pub(super) fn program_or_usual() -> &'static Path {
    program().unwrap_or(Path::new(PLACES[0]))
}

/// Tries an empty command: containers and some distributions forbid the namespaces that a sandbox is made of.
fn can_run(program: &Path) -> bool {
    let bounds = Bounds {
        root: PathBuf::from("/tmp"),
        cwd: PathBuf::from("/tmp"),
        is_writable: true,
        hidden: Vec::new(),
        network: Network::None,
        scratch: None,
    };
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

/// Returns the arguments that describe a sandbox. They count in their order: what comes later covers what came before.
pub(super) fn arguments(bounds: &Bounds) -> Vec<OsString> {
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
    // Where the host is root, so is the command to the kernel: settings in `/proc` would be its to change.
    arguments.add(["--proc", "/proc", "--remount-ro", "/proc"]);
    arguments.add(["--dev", "/dev", "--tmpfs", "/tmp"]);
    if Path::new("/run").is_dir() {
        arguments.add(["--tmpfs", "/run"]);
        for shown in SHOWN_OF_RUN {
            arguments.add(["--ro-bind-try", shown, shown]);
        }
    }
    // What is hidden inside of the root comes after it, and a root inside of what is hidden as well.
    let (inside, outside): (Vec<_>, Vec<_>) = bounds
        .hidden
        .iter()
        .partition(|hidden| hidden.starts_with(&bounds.root));
    outside
        .into_iter()
        .for_each(|hidden| arguments.hide(hidden));
    if !is_everything {
        arguments.path(how, &bounds.root);
        arguments.0.push(bounds.root.clone().into());
    }
    inside.into_iter().for_each(|hidden| arguments.hide(hidden));
    arguments.path("--chdir", &bounds.cwd);
    arguments.0
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

    /// Covers a directory with an empty one, and a file with nothing.
    fn hide(&mut self, path: &Path) {
        if path.is_dir() {
            self.path("--tmpfs", path);
        } else {
            self.path("--ro-bind", Path::new("/dev/null"));
            self.0.push(path.into());
        }
    }
}
