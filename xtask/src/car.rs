//! `car`: clients that others wrote, unchanged, against the daemon.
//!
//! The package `car-runtime` is installed from the Python package index into virtual environments under `target`; it is
//! not shipped. What it does is in `scripts/car_client.py`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command;
use crate::failure::Failure;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "car",
    summary: "drives unchanged clients of the run protocol against the daemon",
    help: "\
Builds the daemon, installs the Python package car-runtime in its oldest and its newest version of interest
into virtual environments under target/car, and lets each record runs on the daemon: without tokens, with the
server's token, and bound to an agent where the version can do that. Needs python3; where there is none, this
says so and succeeds.

Usage: cargo xtask car
",
    run,
};

const OLD: &str = "0.22.0";
const NEW: &str = "0.58.0";

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    check()
}

/// Runs every client.
pub(crate) fn check() -> Result<(), Failure> {
    let mut python = Command::new("python3");
    python.arg("--version");
    if !command::works(python) {
        println!("skipped: there is no python3");
        return Ok(());
    }
    let mut build = command::cargo();
    build.args(["build", "-p", "windlass"]);
    command::run(build)?;
    let old = install(OLD)?;
    let new = install(NEW)?;

    let open = Daemon::start("open", &["--insecure"])?;
    open.drive(&old, OLD, &[])?;
    open.drive(&new, NEW, &[])?;
    drop(open);
    let token = "a-token-for-clients";
    let guarded = Daemon::start("guarded", &["--token", token])?;
    guarded.drive(&old, OLD, &[("CAR_AUTH_TOKEN", token)])?;
    let agent = guarded.agent_token("agent-A")?;
    let bound = [("CAR_AGENT_ID", "agent-A"), ("CAR_AGENT_TOKEN", &agent)];
    guarded.drive(&new, NEW, &bound)
}

fn root_of(name: &str) -> PathBuf {
    command::root().join("target").join("car").join(name)
}

/// Makes a virtual environment with that version, unless it is there, and returns its interpreter.
fn install(version: &str) -> Result<PathBuf, Failure> {
    let directory = root_of(version);
    let python = directory.join("bin").join("python");
    let mut probe = Command::new(&python);
    probe.args(["-c", "import car_runtime"]);
    if command::works(probe) {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(&directory);
    command::run(make)?;
    let mut install = Command::new(&python);
    let package = format!("car-runtime=={version}");
    install.args(["-m", "pip", "install", "--quiet", &package]);
    command::run(install)?;
    Ok(python)
}

/// A daemon on data of its own. Dropping it ends it.
struct Daemon {
    child: Child,
    home: PathBuf,
    url: String,
}

impl Daemon {
    fn start(name: &str, arguments: &[&str]) -> Result<Self, Failure> {
        let home = root_of(name);
        // What an earlier run left would be in the lists.
        let _ = std::fs::remove_dir_all(&home);
        let io = |doing: &str, source| Failure::Io {
            doing: doing.to_owned(),
            source,
        };
        std::fs::create_dir_all(&home).map_err(|error| io("make a home", error))?;
        let mut child = Command::new(binary())
            .args(["serve", "--port", "0", "--model", "sim", "--data"])
            .arg(home.join("data"))
            .args(arguments)
            .current_dir(&home)
            .env_remove("CAR_AGENT_ID")
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
        let url = address.map_or(String::new(), |(_, address)| format!("ws://{address}"));
        Ok(Self { child, home, url })
    }

    /// Makes a token for an agent.
    fn agent_token(&self, agent: &str) -> Result<String, Failure> {
        let mut create = Command::new(binary());
        create
            .args([
                "token",
                "create",
                "--scope",
                &format!("agent:{agent}"),
                "--data",
            ])
            .arg(self.home.join("data"));
        Ok(command::read(create)?.trim().to_owned())
    }

    /// Lets a client do its work, with these variables.
    fn drive(
        &self,
        python: &Path,
        version: &str,
        variables: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let mut client = Command::new(python);
        let script = command::root().join("scripts").join("car_client.py");
        client
            .arg(script)
            .arg(version)
            .current_dir(&self.home)
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", &self.home)
            .env("CAR_DAEMON_URL", &self.url)
            .env("CAR_NO_VERSION_WARNING", "1");
        client.envs(variables.iter().copied());
        command::run(client)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| command::root().join("target"));
    target.join("debug").join("windlass")
}
