//! `api`: generated requests, from the API's own description.
//!
//! The package `schemathesis` is installed from the Python package index into a virtual environment under `target`; it is not shipped.

use std::process::Command;

use crate::command;
use crate::daemon::{self, SpawnedDaemon};
use crate::error::XtaskError;
use crate::python;
use crate::subcommand::XtaskCommand;
use crate::tally::Tally;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "api",
    summary: "sends generated requests to the daemon and checks the responses against its description",
    help: "\
Builds the daemon, installs schemathesis into a virtual environment under target/api, and runs it
with the daemon's OpenAPI document: no response may be a 5xx, have an undocumented status or media type, or
a body that violates its schema. Event streams are excluded. Needs python3 and its package index; if
it is not available, the command reports that and succeeds. `test` does it with 20 examples for each operation.

Usage: cargo xtask api [--examples N]

Examples:
  cargo xtask api                   500 examples for each operation
  cargo xtask api --examples 5000
",
    run,
};

const PACKAGE: &str = "schemathesis==4.32.5";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let examples = match arguments.as_slice() {
        [] => Some(500),
        ["--examples", count] => count.parse().ok(),
        _ => None,
    };
    let wrong = || {
        let given = arguments.join(" ");
        XtaskError::Usage(format!(
            "`api` takes `--examples N`, but got `{given}`; see `cargo xtask api --help`"
        ))
    };
    let examples = examples.ok_or_else(wrong)?;
    daemon::build()?;
    examine(examples, &mut Tally::default())
}

/// A short run against the built daemon, for every change.
pub(crate) fn check(tally: &mut Tally) -> Result<(), XtaskError> {
    examine(20, tally)
}

fn examine(examples: u32, tally: &mut Tally) -> Result<(), XtaskError> {
    let root = command::root().join("target").join("api");
    let python = match python::environment(&root.join("venv"), PACKAGE, "schemathesis") {
        Err(XtaskError::Missing(why)) => {
            tally.skip(&format!("cargo xtask api: {why}"));
            return Ok(());
        }
        found => found?,
    };
    let daemon = SpawnedDaemon::start(&root.join("home"), &["--insecure"])?;
    let mut run = Command::new(python.with_file_name("schemathesis"));
    run.arg("run")
        .arg(format!("http://{}/v1/openapi.json", daemon.address))
        .args([
            "--checks",
            CHECKS,
            "--exclude-path-regex",
            "/(events|stream)$",
        ])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", &examples.to_string()])
        // Its workers sometimes conflict, so there is only one.
        .args(["--request-timeout", "30", "--workers", "1"])
        .current_dir(&daemon.home);
    command::run(run)
}
