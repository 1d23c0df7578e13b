//! `mcp`: the client against real third-party MCP servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::plan::{self, OnFailure, PlanStep};
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;
use crate::verify::FEATURES;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
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

const STEP: PlanStep = PlanStep::Own("cargo xtask mcp", check);

const NODE: [&str; 2] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
const PYTHON: &str = "mcp-server-time==2026.10.19";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    plan::run(&[STEP], OnFailure::Stop)
}

/// Runs the tests of the available servers, and reports why the others are skipped.
fn check(tally: &mut Tally) -> Result<(), XtaskError> {
    let place = command::root().join("target").join("mcp");
    if place.starts_with("/tmp") {
        tally.skip("cargo xtask mcp: the checkout is below /tmp, of which a sandbox has its own");
        return Ok(());
    }
    let mut cargo = command::cargo();
    // The same features as for all tests, so that nothing is rebuilt.
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
        install(npm)?;
    }
    Ok(place.to_owned())
}

fn from_pypi(place: &Path) -> Result<PathBuf, String> {
    if !place.join("bin/mcp-server-time").exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(place);
        install(venv)?;
        let mut pip = Command::new(place.join("bin/pip"));
        pip.args(["install", "--quiet", PYTHON]);
        install(pip)?;
    }
    Ok(place.to_owned())
}

fn install(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.trim().lines().next_back().unwrap_or("nothing");
    Err(format!("{name} failed to install the servers: {last}"))
}
