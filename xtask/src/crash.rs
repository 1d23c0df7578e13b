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

With `feed` 64 writers are killed together, 200 times, while three readers follow the feed over all streams from their cursors.

Usage: cargo xtask crash [feed] [--kills N] [--seed S]

Examples:
  cargo xtask crash
  cargo xtask crash --kills 100 --seed 7
  cargo xtask crash feed
",
    run,
};

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--release", "-p", "windlass-crash", "--"]);
    cargo.args(arguments);
    if !arguments.iter().any(|argument| argument == "--kills") {
        let is_feed = arguments.first().is_some_and(|word| word == "feed");
        cargo.args(["--kills", if is_feed { "200" } else { "2000" }]);
    }
    command::run(cargo)
}
