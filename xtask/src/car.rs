//! `car`: unchanged third-party clients against the daemon.
//!
//! The package `car-runtime` is installed from the Python package index into virtual environments under `target`; it is
//! not shipped. The client is `scripts/car_client.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::daemon::{self, SpawnedDaemon};
use crate::error::XtaskError;
use crate::python;
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "car",
    summary: "runs unchanged clients of the run protocol against the daemon",
    help: "\
Builds the daemon, installs the Python package car-runtime in an old and a new version
into virtual environments under target/car, and records runs with each: without tokens, with the
server's token, and bound to an agent if the version supports it. Needs python3 and its package index; if
it is not available, the command reports that and succeeds.

Usage: cargo xtask car
",
    run,
};

const OLD: &str = "0.22.0";
const NEW: &str = "0.58.0";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    daemon::build()?;
    check(&mut Tally::default())
}

/// Runs every client against the built daemon, or reports why it is skipped.
pub(crate) fn check(tally: &mut Tally) -> Result<(), XtaskError> {
    let (old, new) = match (install(OLD), install(NEW)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(XtaskError::Missing(why)), _) | (_, Err(XtaskError::Missing(why))) => {
            tally.skip(&format!("cargo xtask car: {why}"));
            return Ok(());
        }
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
    };

    let open = SpawnedDaemon::start(&root_of("open"), &["--insecure"])?;
    drive(&open, &old, OLD, &[])?;
    drive(&open, &new, NEW, &[])?;
    drop(open);
    let token = "a-token-for-clients";
    let guarded = SpawnedDaemon::start(&root_of("guarded"), &["--token", token])?;
    drive(&guarded, &old, OLD, &[("CAR_AUTH_TOKEN", token)])?;
    let agent = agent_token(&guarded, "agent-A")?;
    let bound = [("CAR_AGENT_ID", "agent-A"), ("CAR_AGENT_TOKEN", &agent)];
    drive(&guarded, &new, NEW, &bound)
}

fn root_of(name: &str) -> PathBuf {
    command::root().join("target").join("car").join(name)
}

/// Creates a virtual environment with that version if it is missing, and returns its interpreter.
fn install(version: &str) -> Result<PathBuf, XtaskError> {
    let package = format!("car-runtime=={version}");
    python::environment(&root_of(version), &package, "car_runtime")
}

/// Creates a token for an agent.
fn agent_token(daemon: &SpawnedDaemon, agent: &str) -> Result<String, XtaskError> {
    let mut create = Command::new(daemon::binary());
    let scope = format!("agent:{agent}");
    create
        .args(["token", "create", "--scope", &scope, "--data"])
        .arg(daemon.home.join("data"));
    Ok(command::read(create)?.trim().to_owned())
}

/// Runs a client with these variables.
fn drive(
    daemon: &SpawnedDaemon,
    python: &Path,
    version: &str,
    variables: &[(&str, &str)],
) -> Result<(), XtaskError> {
    let mut client = Command::new(python);
    let script = command::root().join("scripts").join("car_client.py");
    client
        .arg(script)
        .arg(version)
        .current_dir(&daemon.home)
        .env("HOME", &daemon.home)
        .env("XDG_RUNTIME_DIR", &daemon.home)
        .env("CAR_DAEMON_URL", format!("ws://{}", daemon.address))
        .env("CAR_NO_VERSION_WARNING", "1")
        .env_remove("CAR_AGENT_ID");
    client.envs(variables.iter().copied());
    command::run(client)
}
