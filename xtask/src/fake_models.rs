//! `fake-models`: the model drivers against a fake that was not written with them.

use std::path::PathBuf;

use crate::command;
use crate::failure::Failure;
use crate::python;
use crate::tally::Tally;
use crate::verify::FEATURES;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "fake-models",
    summary: "runs the model drivers against an independent fake, where there is one",
    help: "\
Starts a fake of the four model APIs and runs the tests of the drivers against it: text, tools, errors. The
fake is a Python script that lives outside of the repository, so that it does not share our mistakes. The
variable WINDLASS_FAKE_MODELS names it; when it is unset, ../shared/tools/fake_models.py beside the
workspace is taken. Where there is no script or no python3, this says so and succeeds.

Usage: cargo xtask fake-models

Examples:
  cargo xtask fake-models
  WINDLASS_FAKE_MODELS=/path/to/fake_models.py cargo xtask fake-models
",
    run,
};

/// What the tests read the script's path from.
const VARIABLE: &str = "WINDLASS_FAKE_MODELS";
/// Default path of the script, from the root of the workspace.
const DEFAULT: &str = "../shared/tools/fake_models.py";

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    check(&mut Tally::default())
}

/// Runs the tests that need the script, or says why they are passed over.
pub(crate) fn check(tally: &mut Tally) -> Result<(), Failure> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let script = named.map_or_else(|| command::root().join(DEFAULT), PathBuf::from);
    // Made absolute here, because the tests start in the folder of their package.
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
