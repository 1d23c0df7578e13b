//! `soak`: runs a runtime for a long time and measures its resources.

use crate::command;
use crate::failure::Failure;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "soak",
    summary: "lets sessions come and go for 30 minutes and watches memory, log and disk",
    help: "\
Builds the package windlass-crash in release mode and runs its soak: random sessions come, have turns of all kinds, rest
and go on a store in a temporary directory, with retention. Resident set, write-ahead log and disk are sampled; each must
level off: the median of the last third is at most 1.15 times that of the middle third. `cargo xtask test` does the same
for 45 seconds. The seed is printed.

Usage: cargo xtask soak [--seconds N] [--seed S]

Examples:
  cargo xtask soak
  cargo xtask soak --seconds 45 --seed 7
",
    run,
};

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--", "soak"]);
    cargo.args(arguments);
    command::run(cargo)
}
