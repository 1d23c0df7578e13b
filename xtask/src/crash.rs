//! `crash`: kills a working runtime many times.

use crate::command;
use crate::failure::Failure;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "crash",
    summary: "kills a working runtime 2,000 times and checks what it left",
    help: "\
Builds the package windlass-crash in release mode and runs it: a child process works on sessions on disk and is ended
with SIGKILL at random moments and at named points; after each death the journal and the effects of tools are checked.
`cargo xtask test` does the same 200 times. The seed is printed, so that a failure can be repeated.

Usage: cargo xtask crash [--kills N] [--seed S]

Examples:
  cargo xtask crash
  cargo xtask crash --kills 100 --seed 7
",
    run,
};

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--"]);
    if !arguments.iter().any(|argument| argument == "--kills") {
        cargo.args(["--kills", "2000"]);
    }
    cargo.args(arguments);
    command::run(cargo)
}
