//! `api`: generated requests, from the API's own description.
//!
//! The package `schemathesis` is installed from the Python package index into a virtual environment under `target`; it is not shipped.

use std::process::Command;

use crate::command;
use crate::daemon::{self, Daemon};
use crate::failure::Failure;
use crate::python;
use crate::tally::Tally;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "api",
    summary: "throws made-up requests at the daemon and checks the answers against its description",
    help: "\
Builds the daemon, installs schemathesis into a virtual environment under target/api, and lets it make requests
from the daemon's own OpenAPI document: no answer may be a 5xx, have a status or media type that is not described, or
a body outside of its schema. Event streams, which do not end, are left out. Needs python3 and its package index; where
there is none, this says so and succeeds. `test` does it with 20 examples for each operation.

Usage: cargo xtask api [--examples N]

Examples:
  cargo xtask api                   500 examples for each operation
  cargo xtask api --examples 5000
",
    run,
};

const PACKAGE: &str = "schemathesis==4.32.5";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

fn run(arguments: &[String]) -> Result<(), Failure> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let examples = match arguments.as_slice() {
        [] => Some(500),
        ["--examples", count] => count.parse().ok(),
        _ => None,
    };
    let wrong = || {
        let given = arguments.join(" ");
        Failure::Usage(format!(
            "`api` takes `--examples N`, but got `{given}`; see `cargo xtask api --help`"
        ))
    };
    let examples = examples.ok_or_else(wrong)?;
    daemon::build()?;
    examine(examples, &mut Tally::default())
}

/// A short run against the daemon that is built, for every change.
pub(crate) fn check(tally: &mut Tally) -> Result<(), Failure> {
    examine(20, tally)
}

fn examine(examples: u32, tally: &mut Tally) -> Result<(), Failure> {
    let root = command::root().join("target").join("api");
    let python = match python::environment(&root.join("venv"), PACKAGE, "schemathesis") {
        Err(Failure::Missing(why)) => {
            tally.skip(&format!("cargo xtask api: {why}"));
            return Ok(());
        }
        found => found?,
    };
    let daemon = Daemon::start(&root.join("home"), &["--insecure"])?;
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
        // With more than one worker it trips over itself now and then.
        .args(["--request-timeout", "30", "--workers", "1"])
        .current_dir(&daemon.home);
    command::run(run)
}
