//! `fake-models`: the model drivers against an independent fake.

use std::path::PathBuf;

use crate::command;
use crate::error::XtaskError;
use crate::python;
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;
use crate::verify::FEATURES;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "fake-models",
    summary: "runs the model drivers against an independent fake, where there is one",
    help: "\
Starts a fake of the four model APIs and runs the tests of the drivers against it: text, tools, errors. The
fake is a Python script that lives outside of the repository, so that it does not share our mistakes. The
variable WINDLASS_FAKE_MODELS names it; when it is unset, ../shared/tools/fake_models.py beside the
workspace is taken. Without a script or python3, the command reports that and succeeds.

Usage: cargo xtask fake-models

Examples:
  cargo xtask fake-models
  WINDLASS_FAKE_MODELS=/path/to/fake_models.py cargo xtask fake-models
",
    run,
};

/// The environment variable with the path of the script.
const VARIABLE: &str = "WINDLASS_FAKE_MODELS";
/// Default path of the script, from the root of the workspace.
const DEFAULT: &str = "../shared/tools/fake_models.py";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    check(&mut Tally::default())
}

/// Runs the tests that need the script, or reports why they are skipped.
pub(crate) fn check(tally: &mut Tally) -> Result<(), XtaskError> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let script = named.map_or_else(|| command::root().join(DEFAULT), PathBuf::from);
    // Resolved here, because the tests start in the directory of their package.
    let Ok(script) = script.canonicalize() else {
        tally.skip(&format!(
            "cargo xtask fake-models: there is no {DEFAULT} beside the workspace, and {VARIABLE} names no other script"
        ));
        return Ok(());
    };
    if !python::is_there() {
        tally.skip("cargo xtask fake-models: there is no python3");
        return Ok(());
    }
    let mut cargo = command::cargo();
    cargo
        .args(["test", "--workspace", "--test", "it"])
        .args(FEATURES)
        .args(["fake_models::", "--", "--ignored"])
        .env(VARIABLE, script);
    command::run_tests(cargo, tally)
}
