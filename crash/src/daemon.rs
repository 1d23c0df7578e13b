//! The daemon as a process that is killed repeatedly.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use windlass_testkit::TOKEN;
pub(crate) use windlass_testkit::{ApiReply, Client, Daemon, Home};

/// Creates a home with an empty workspace and configuration.
pub(crate) fn home(daemon: &Path) -> Result<Home, String> {
    let home =
        Home::with_binary(daemon).map_err(|error| format!("no home can be made: {error}"))?;
    configure(&home, "")?;
    Ok(home)
}

/// Writes the configuration, which every daemon of the home is started with.
pub(crate) fn configure(home: &Home, config: &str) -> Result<(), String> {
    fs::write(home.config_file(), config).map_err(|error| error.to_string())
}

/// Starts a daemon and returns when it listens.
pub(crate) fn start(home: &Home) -> Result<Daemon, String> {
    let mut command = home.serve();
    command
        .args(["--token", TOKEN, "--config"])
        .arg(home.config_file())
        // Fake agents and their tools are found as in the caller's shell.
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TMPDIR"));
    Daemon::spawn(command.stderr(Stdio::null()))
}

/// Returns when a process was started, in clock ticks since boot; `None` for a process that is gone or a zombie.
pub(crate) fn started_at(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name in parentheses may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}
