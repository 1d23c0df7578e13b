//! The daemon as a separate process, so that its CPU time and memory are measured without the client's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Error, Result};
use crate::machine;

/// A listening daemon and its start time. Dropping it kills the process.
pub struct DaemonProcess {
    process: windlass_testkit::Daemon,
    pub address: String,
    /// From the start of the process to the line with its address.
    pub start: Duration,
}

impl DaemonProcess {
    /// Starts a daemon on a data directory, with the simulator as its model.
    pub fn start(binary: &Path, home: &Path) -> Result<Self> {
        Self::start_with(binary, home, &[])
    }

    /// Starts a daemon with more arguments.
    pub fn start_with(binary: &Path, home: &Path, arguments: &[&str]) -> Result<Self> {
        Self::serve(binary, home, &[&["--insecure"], arguments].concat())
    }

    /// Starts a daemon that requires a token.
    pub fn start_guarded(binary: &Path, home: &Path, token: &str) -> Result<Self> {
        Self::serve(binary, home, &["--auth-token", token])
    }

    fn serve(binary: &Path, home: &Path, arguments: &[&str]) -> Result<Self> {
        let started = Instant::now();
        let mut command = Command::new(binary);
        command
            .args(["serve", "--port", "0", "--model", "sim"])
            .args(arguments)
            .current_dir(home)
            .env_clear()
            .env("WINDLASS_DATA", home.join("data"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let process = windlass_testkit::Daemon::spawn(&mut command)?;
        Ok(Self {
            start: started.elapsed(),
            address: process.client.address.clone(),
            process,
        })
    }

    pub fn cpu_time(&self) -> Duration {
        machine::cpu_time_of(self.process.pid())
    }

    pub fn resident_bytes(&self) -> u64 {
        machine::resident_bytes_of(self.process.pid())
    }
}

/// Builds the binary with this program's profile.
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
