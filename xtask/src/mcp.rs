//! `mcp`: the client against real third-party MCP servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::failure::Failure;
use crate::plan::{self, OnFailure, Step};
use crate::tally::Tally;
use crate::verify::FEATURES;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "mcp",
    summary: "installs real MCP servers and calls their tools",
    help: "\
Installs the servers `everything` and `filesystem` from npm and `time` from PyPI into target/mcp, in the versions that were tried, and runs
the tests that need them: lists, calls, progress, images and resources, by pipes in the sandbox of commands and over HTTP on loopback.
What cannot be had is named on a line that begins with SKIPPED, and the others run. A checkout below /tmp cannot do this: a sandbox has
its own /tmp, and the servers would not be in it.

Usage: cargo xtask mcp
",
    run,
};

const STEP: Step = Step::Own("cargo xtask mcp", check);

const NODE: [&str; 2] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
const PYTHON: &str = "mcp-server-time==2026.10.19";

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    plan::run(&[STEP], OnFailure::Stop)
}

/// Runs the tests of the servers that can be had, and says why not of the others.
fn check(tally: &mut Tally) -> Result<(), Failure> {
    let place = command::root().join("target").join("mcp");
    if place.starts_with("/tmp") {
        tally.skip("cargo xtask mcp: the checkout is below /tmp, of which a sandbox has its own");
        return Ok(());
    }
    let mut cargo = command::cargo();
    // As all tests are built, so that nothing is built for this alone.
    cargo
        .args(["test", "--workspace"])
        .args(FEATURES)
        .args(["--test", "it", "--", "--ignored"]);
    let mut any = false;
    let installed = [
        (
            "WINDLASS_MCP_NODE",
            from_npm(&place.join("node")),
            ["mcp_real::reference_server", "mcp_real::file_server"].as_slice(),
        ),
        (
            "WINDLASS_MCP_PYTHON",
            from_pypi(&place.join("python")),
            ["mcp_real::python_server"].as_slice(),
        ),
    ];
    for (variable, place, tests) in installed {
        match place {
            Err(why) => tally.skip(&format!("cargo xtask mcp: {why}")),
            Ok(place) => {
                any = true;
                cargo.env(variable, place).args(tests);
            }
        }
    }
    if any {
        command::run_tests(cargo, tally)
    } else {
        Ok(())
    }
}

fn from_npm(place: &Path) -> Result<PathBuf, String> {
    let is_there = NODE.iter().all(|package| {
        let (name, version) = package.rsplit_once('@').unwrap_or_default();
        let about = place.join("node_modules").join(name).join("package.json");
        let about = std::fs::read_to_string(about).unwrap_or_default();
        about.contains(&format!("\"version\": \"{version}\""))
    });
    if !is_there {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(place)
            .args(NODE);
        carry_out(npm)?;
    }
    Ok(place.to_owned())
}

fn from_pypi(place: &Path) -> Result<PathBuf, String> {
    if !place.join("bin/mcp-server-time").exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(place);
        carry_out(venv)?;
        let mut pip = Command::new(place.join("bin/pip"));
        pip.args(["install", "--quiet", PYTHON]);
        carry_out(pip)?;
    }
    Ok(place.to_owned())
}

fn carry_out(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.output();
    let said = said.map_err(|error| format!("{name} cannot be run: {error}"))?;
    if said.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said.stderr);
    let last = said.trim().lines().next_back().unwrap_or("nothing");
    Err(format!(
        "{name} could not install what is needed; it says: {last}"
    ))
}
