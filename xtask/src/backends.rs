//! `backends`: the real agents of others, against a fake model.

use std::path::PathBuf;
use std::process::Command;

use crate::command;
use crate::failure::Failure;
use crate::tally::Tally;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "backends",
    summary: "installs Claude Code and lets it carry turns of the daemon against a fake model",
    help: "\
Installs Claude Code from npm into target/backends (so the checkout must not be below /tmp, of which a sandbox has its own), in the version that was tried, and runs the tests that need it: a turn with text, a
tool that was allowed, a second turn, and a kill of the daemon in the middle. The model is a fake on loopback, and no account is needed. Where there
is no npm, or the package cannot be had, this says so and succeeds.

Usage: cargo xtask backends
",
    run,
};

/// The package for this machine, which needs no Node to run.
const PACKAGE: &str = "@anthropic-ai/claude-code-linux-x64";
const VERSION: &str = "2.1.325";

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    check(&mut Tally::default())
}

/// Runs the tests with the real program, or says why not.
fn check(tally: &mut Tally) -> Result<(), Failure> {
    let program = match install() {
        Ok(program) => program,
        Err(why) => {
            tally.skip(&format!("cargo xtask backends: {why}"));
            return Ok(());
        }
    };
    let mut cargo = command::cargo();
    // As all tests are built, so that nothing is built for this alone.
    cargo
        .args([
            "test",
            "--workspace",
            "--features",
            "windlass-runtime/typed-tools",
        ])
        .args(["--test", "it", "--", "--ignored", "real_agents"])
        .env("WINDLASS_CLAUDE", program);
    command::run_tests(cargo, tally)
}

/// Installs the program, unless it is there.
fn install() -> Result<PathBuf, String> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err("the package that was tried is for Linux on x86-64".to_owned());
    }
    let place = command::root().join("target").join("backends");
    if place.starts_with("/tmp") {
        return Err("the checkout is below /tmp, of which a sandbox has its own".to_owned());
    }
    let program = place.join("node_modules").join(PACKAGE).join("claude");
    let is_there = |version: &str| {
        let asked = Command::new(&program).arg("--version").output();
        asked.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(version))
    };
    if is_there(VERSION) {
        return Ok(program);
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--force", "--prefix"])
        .arg(&place)
        .arg(format!("{PACKAGE}@{VERSION}"));
    let installed = npm
        .output()
        .map_err(|error| format!("npm cannot be run: {error}"))?;
    if !installed.status.success() || !is_there(VERSION) {
        let said = String::from_utf8_lossy(&installed.stderr);
        let last = said.trim().lines().next_back().unwrap_or("it says nothing");
        return Err(format!("npm could not install {PACKAGE} {VERSION}: {last}"));
    }
    Ok(program)
}
