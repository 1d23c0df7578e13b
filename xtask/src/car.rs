//! `car`: clients that others wrote, unchanged, against the daemon.
//!
//! The package `car-runtime` is installed from the Python package index into virtual environments under `target`; it is
//! not shipped. What it does is in `scripts/car_client.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::daemon::{self, Daemon};
use crate::failure::Failure;
use crate::python;
use crate::tally::Tally;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "car",
    summary: "drives unchanged clients of the run protocol against the daemon",
    help: "\
Builds the daemon, installs the Python package car-runtime in its oldest and its newest version of interest
into virtual environments under target/car, and lets each record runs on the daemon: without tokens, with the
server's token, and bound to an agent where the version can do that. Needs python3 and its package index; where
there is none, this says so and succeeds.

Usage: cargo xtask car
",
    run,
};

const OLD: &str = "0.22.0";
const NEW: &str = "0.58.0";

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    daemon::build()?;
    check(&mut Tally::default())
}

/// Runs every client against the daemon that is built, or says why not.
pub(crate) fn check(tally: &mut Tally) -> Result<(), Failure> {
    let (old, new) = match (install(OLD), install(NEW)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(Failure::Missing(why)), _) | (_, Err(Failure::Missing(why))) => {
            tally.skip(&format!("cargo xtask car: {why}"));
            return Ok(());
        }
        (Err(failure), _) | (_, Err(failure)) => return Err(failure),
    };

    let open = Daemon::start(&root_of("open"), &["--insecure"])?;
    drive(&open, &old, OLD, &[])?;
    drive(&open, &new, NEW, &[])?;
    drop(open);
    let token = "a-token-for-clients";
    let guarded = Daemon::start(&root_of("guarded"), &["--token", token])?;
    drive(&guarded, &old, OLD, &[("CAR_AUTH_TOKEN", token)])?;
    let agent = agent_token(&guarded, "agent-A")?;
    let bound = [("CAR_AGENT_ID", "agent-A"), ("CAR_AGENT_TOKEN", &agent)];
    drive(&guarded, &new, NEW, &bound)
}

fn root_of(name: &str) -> PathBuf {
    command::root().join("target").join("car").join(name)
}

/// Makes a virtual environment with that version, unless it is there, and returns its interpreter.
fn install(version: &str) -> Result<PathBuf, Failure> {
    let package = format!("car-runtime=={version}");
    python::environment(&root_of(version), &package, "car_runtime")
}

/// Makes a token for an agent.
fn agent_token(daemon: &Daemon, agent: &str) -> Result<String, Failure> {
    let mut create = Command::new(daemon::binary());
    let scope = format!("agent:{agent}");
    create
        .args(["token", "create", "--scope", &scope, "--data"])
        .arg(daemon.home.join("data"));
    Ok(command::read(create)?.trim().to_owned())
}

/// Lets a client do its work, with these variables.
fn drive(
    daemon: &Daemon,
    python: &Path,
    version: &str,
    variables: &[(&str, &str)],
) -> Result<(), Failure> {
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
