//! `crash`: kills a working runtime many times.

use std::process::Command;

use crate::command;
use crate::daemon;
use crate::failure::Failure;
use crate::plan::Step;
use crate::word::Word;

pub(crate) const WORD: Word = Word {
    name: "crash",
    summary: "kills a working runtime 2,000 times and checks what it left",
    help: "\
Builds the package windlass-crash in release mode and runs it: a child process works on sessions on disk and is ended
with SIGKILL at random moments and at named points; after each death the journal and the effects of tools are checked.
`cargo xtask test` does the same 200 times. The seed is printed, so that a failure can be repeated.

With `feed` 64 writers are killed together, 200 times, while three readers follow the feed over all streams from their cursors.

With `backends` the daemon is killed 100 times while an agent of others carries a turn, by the debug build. Nothing of the agent's processes
is left, every turn completes, and nothing is told twice without a notice. `cargo xtask test` does the same 10 times, and
`cargo xtask backends` kills it 5 times under the real Claude Code.

Usage: cargo xtask crash [feed|backends] [--kills N] [--seed S]

Examples:
  cargo xtask crash
  cargo xtask crash --kills 100 --seed 7
  cargo xtask crash feed
  cargo xtask crash backends --kills 20
",
    run,
};

/// The step of `cargo xtask test`, with the programs that were built for the tests.
pub(crate) const BACKENDS: Step = Step::Own("cargo xtask crash backends --kills 10", |tally| {
    let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
    crash.args(["backends", "--kills", "10"]);
    command::run_tests(crash, tally)
});

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    if arguments.first().is_some_and(|word| word == "backends") {
        daemon::build()?;
        cargo.args(["run", "-p", "windlass-crash", "--"]);
        cargo.args(arguments);
        return command::run(cargo);
    }
    cargo.args(["run", "--release", "-p", "windlass-crash", "--"]);
    cargo.args(arguments);
    if !arguments.iter().any(|argument| argument == "--kills") {
        let is_feed = arguments.first().is_some_and(|word| word == "feed");
        cargo.args(["--kills", if is_feed { "200" } else { "2000" }]);
    }
    command::run(cargo)
}
