//! The daemon as a process of its own, so that its CPU time and memory can be told from the client's.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Error, Result};
use crate::machine;

/// A daemon that listens. Dropping it kills it.
pub struct Daemon {
    child: Child,
    pub address: String,
    /// From its start as a process to the line that says where it listens.
    pub start: Duration,
}

impl Daemon {
    /// Starts a daemon on a data directory, with the simulator as its model.
    pub fn start(binary: &Path, home: &Path) -> Result<Self> {
        Self::start_with(binary, home, &[])
    }

    /// Starts a daemon with more arguments.
    pub fn start_with(binary: &Path, home: &Path, arguments: &[&str]) -> Result<Self> {
        Self::serve(binary, home, &[&["--insecure"], arguments].concat())
    }

    /// Starts a daemon that asks for a token.
    pub fn start_guarded(binary: &Path, home: &Path, token: &str) -> Result<Self> {
        Self::serve(binary, home, &["--auth-token", token])
    }

    fn serve(binary: &Path, home: &Path, arguments: &[&str]) -> Result<Self> {
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--port", "0", "--model", "sim"])
            .args(arguments)
            .current_dir(home)
            .env_clear()
            .env("WINDLASS_DATA", home.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the daemon has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let start = started.elapsed();
        let daemon = |address: &str| Self {
            child,
            address: address.to_owned(),
            start,
        };
        let (_, address) = line
            .trim_end()
            .rsplit_once("listening on http://")
            .ok_or_else(|| format!("the daemon did not start; it said {line:?}"))?;
        Ok(daemon(address))
    }

    pub fn cpu_time(&self) -> Duration {
        machine::cpu_time_of(self.child.id())
    }

    pub fn resident_bytes(&self) -> u64 {
        machine::resident_bytes_of(self.child.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds the binary beside this program, as optimised as this program is.
pub fn build() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let directory = own.parent().ok_or("this program has no directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "windlass"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    if !build.status()?.success() {
        return Err(Error::from("`windlass` could not be built"));
    }
    Ok(directory.join("windlass"))
}
