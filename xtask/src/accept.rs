//! `accept`: the acceptance check of the embedding API, which is stored separately from the code that it checks.

use std::path::PathBuf;
use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "accept",
    summary: "runs the acceptance check of the embedding API, where there is one",
    help: "\
Runs the program that the variable WINDLASS_ACCEPTANCE names, with the root of the workspace as its
argument. The check lives outside of the repository, so that the code cannot bend what judges it.
If the variable is unset or names no file, the command reports that and succeeds.

Usage: cargo xtask accept

Examples:
  WINDLASS_ACCEPTANCE=/path/to/run cargo xtask accept
",
    run,
};

const VARIABLE: &str = "WINDLASS_ACCEPTANCE";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    let Some(program) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        println!("skipped: {VARIABLE} is not set");
        return Ok(());
    };
    let program = PathBuf::from(program);
    // Resolved here, because the check runs in the workspace and not in the caller's directory.
    let Ok(program) = program.canonicalize() else {
        println!(
            "skipped: {VARIABLE} names {}, which is not there",
            program.display()
        );
        return Ok(());
    };
    let mut check = Command::new(program);
    check.arg(".").current_dir(command::root());
    command::run(check)
}
