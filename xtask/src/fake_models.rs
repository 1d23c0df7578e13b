//! `fake-models`: the model drivers against a fake that was not written with them.

use std::path::PathBuf;
use std::process::Command;

use crate::command;
use crate::failure::Failure;
use crate::tally::Tally;
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
/// Where the script is when nobody says, from the root of the workspace.
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
        println!(
            "skipped: there is no {}; {VARIABLE} can name another script",
            script.display()
        );
        return Ok(());
    };
    let mut python = Command::new("python3");
    python.arg("--version");
    if !command::works(python) {
        println!("skipped: {} needs python3", script.display());
        return Ok(());
    }
    let mut cargo = command::cargo();
    cargo
        .args(["test", "-p", "windlass-models", "--test", "it"])
        .args(["fake_models::", "--", "--ignored"])
        .env(VARIABLE, script);
    command::run_tests(cargo, tally)
}
