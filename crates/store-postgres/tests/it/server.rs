//! A PostgreSQL server of the tests.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use windlass_testkit::skipped;

/// Starts a server in the directory `$1`, and stops it at the end of the input, which is also the end of the test process.
/// The other arguments are the prefix of commands that changes to a user other than root.
const SCRIPT: &str = r#"
dir=$1; shift
initdb() { "$@" initdb -D "$dir/data" -U windlass -A trust -E UTF8 --locale=C >"$dir/log" 2>&1; }
start() { "$@" pg_ctl -D "$dir/data" -w -l "$dir/server" -o "-k $dir -c listen_addresses= -c max_connections=300" start >>"$dir/log" 2>&1; }
stop() { "$@" pg_ctl -D "$dir/data" -m "$mode" stop >>"$dir/log" 2>&1; }
cd "$dir" && initdb "$@" && start "$@" && echo ready || { cat "$dir/log" "$dir/server" >&2; rm -rf "$dir"; exit 1; }
while read -r mode; do
    stop "$@"
    start "$@" || cat "$dir/log" "$dir/server" >&2
    echo ready
done
mode=immediate
stop "$@"
rm -rf "$dir"
"#;

/// A running server. It ends with the test process or when dropped.
pub(crate) struct Server {
    directory: PathBuf,
    child: Child,
    output: Option<BufReader<std::process::ChildStdout>>,
}

impl Server {
    /// Starts a server; `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let programs = programs()?;
        // The script removes it: another user owns the files.
        let directory = TempDir::new().unwrap().keep();
        let prefix = other_user(&directory);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(&directory)
            .args(prefix)
            .env("PATH", format!("{}:{path}", programs.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().map(BufReader::new);
        let mut server = Self {
            directory,
            child,
            output,
        };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let mut line = String::new();
        let output = self.output.as_mut().unwrap();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the server did not start");
    }

    /// Stops the server as a crash does, and starts it again.
    pub(crate) fn crash(&mut self) {
        use std::io::Write;
        let mut input = self.child.stdin.as_ref().unwrap();
        input.write_all(b"immediate\n").unwrap();
        self.wait();
    }

    pub(crate) fn url(&self) -> String {
        let directory = self.directory.display();
        format!("postgres:///postgres?host={directory}&user=windlass")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Returns the server that the tests share, or reports that the test is skipped.
pub(crate) fn shared(test: &str) -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(Server::start).as_ref();
    if server.is_none() {
        skipped(test, "PostgreSQL is not installed");
    }
    server
}

/// Returns the directory of the server's programs. Debian does not add it to `PATH`.
fn programs() -> Option<PathBuf> {
    let in_path = std::env::var("PATH").unwrap_or_default();
    let in_path = in_path.split(':').map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let debian = debian.flatten().map(|version| version.path().join("bin"));
    let has_all = |directory: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|name| directory.join(name).is_file())
    };
    debian.chain(in_path).find(has_all)
}

/// Gives the directory to a user other than root, as which the server refuses to run; returns how to run commands as that user.
fn other_user(directory: &Path) -> Vec<String> {
    const OTHER_UID: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    chown(directory, Some(OTHER_UID), Some(OTHER_UID)).unwrap();
    let user = format!("--reuid={OTHER_UID}");
    let group = format!("--regid={OTHER_UID}");
    ["setpriv", &user, &group, "--clear-groups"]
        .map(str::to_owned)
        .into()
}
