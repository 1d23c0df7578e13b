//! `soak`: runs a runtime for a long time and measures its resources.

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "soak",
    summary: "creates and deletes sessions for 30 minutes and checks memory, log and disk",
    help: "\
Builds the package windlass-crash in release mode and runs its soak test: random sessions are created, run turns of all kinds, stay idle
and are deleted, on a store with retention in a temporary directory. Resident set, write-ahead log and disk are sampled; each must
level off: the median of the last third is at most 1.15 times that of the middle third. `cargo xtask test` does the same
for 45 seconds. The seed is printed.

Usage: cargo xtask soak [--seconds N] [--seed S]

Examples:
  cargo xtask soak
  cargo xtask soak --seconds 45 --seed 7
",
    run,
};

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--", "soak"]);
    cargo.args(arguments);
    command::run(cargo)
}
