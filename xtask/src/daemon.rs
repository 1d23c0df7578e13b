//! The daemon as a separate process, for third-party programs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command;
use crate::error::XtaskError;

/// A daemon with its own data. Dropping it stops the process.
pub(crate) struct SpawnedDaemon {
    child: Child,
    pub(crate) home: PathBuf,
    pub(crate) address: String,
}

/// Builds the `windlass` binary.
pub(crate) fn build() -> Result<(), XtaskError> {
    let mut build = command::cargo();
    build.args(["build", "-p", "windlass"]);
    command::run(build)
}

/// Returns the path of the built binary.
pub(crate) fn binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| command::root().join("target"));
    target.join("debug").join("windlass")
}

impl SpawnedDaemon {
    /// Starts a daemon in an empty home.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Result<Self, XtaskError> {
        // Data of an earlier run would appear in lists.
        let _ = std::fs::remove_dir_all(home);
        let io = |doing: &str, source| XtaskError::Io {
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

impl Drop for SpawnedDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
