//! The daemon as a process of its own, for programs that others wrote.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command;
use crate::failure::Failure;

/// A daemon on data of its own. Dropping it ends it.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) home: PathBuf,
    pub(crate) address: String,
}

/// Builds the binary.
pub(crate) fn build() -> Result<(), Failure> {
    let mut build = command::cargo();
    build.args(["build", "-p", "windlass"]);
    command::run(build)
}

/// Where the binary is when it is built.
pub(crate) fn binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| command::root().join("target"));
    target.join("debug").join("windlass")
}

impl Daemon {
    /// Starts a daemon in an empty home.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Result<Self, Failure> {
        // What an earlier run left would be in the lists.
        let _ = std::fs::remove_dir_all(home);
        let io = |doing: &str, source| Failure::Io {
            doing: doing.to_owned(),
            source,
        };
        std::fs::create_dir_all(home).map_err(|error| io("make a home", error))?;
        let mut child = Command::new(binary())
            .args(["serve", "--port", "0", "--model", "sim", "--data"])
            .arg(home.join("data"))
            .args(arguments)
            .current_dir(home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io("start the daemon", error))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.as_mut() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| io("read the daemon's address", error))?;
        }
        let address = line.trim().rsplit_once("http://");
        Ok(Self {
            child,
            home: home.to_owned(),
            address: address.map_or(String::new(), |(_, address)| address.to_owned()),
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
