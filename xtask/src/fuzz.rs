//! `fuzz`: starts the fuzzer.

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "fuzz",
    summary: "runs the fuzzer of the turn machine and the parsers",
    help: "\
Builds the package windlass-fuzz in release mode and runs it. The arguments are passed on as they
are; without a target every target runs. A run that finds something prints the command that repeats it.

Usage: cargo xtask fuzz [target] [--seconds N | --iterations N] [--seed S] [--first I]

Examples:
  cargo xtask fuzz
  cargo xtask fuzz turn_machine --seconds 60
  cargo xtask fuzz turn_machine --iterations 10000 --seed 7
",
    run,
};

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let mut cargo = command::cargo();
    cargo
        .args(["run", "--release", "-p", "windlass-fuzz", "--"])
        .args(arguments);
    command::run(cargo)
}
