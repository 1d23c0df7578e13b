//! `crash`: kills a working runtime many times.

use std::process::Command;

use crate::command;
use crate::daemon;
use crate::failure::Failure;
use crate::plan::Step;
use crate::tally::Tally;
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

With `undo` the daemon, by the debug build, is killed 200 times while a scripted model edits a file, runs a command in the sandbox and asks, and
while that is taken back. Every turn ends once, no command runs twice, files and conversation come back together, and edits of others
stay. `cargo xtask test` does the same 10 times.

Usage: cargo xtask crash [feed|backends|undo] [--kills N] [--seed S]

Examples:
  cargo xtask crash
  cargo xtask crash --kills 100 --seed 7
  cargo xtask crash feed
  cargo xtask crash backends --kills 20
  cargo xtask crash undo --kills 20 --seed 7
",
    run,
};

/// Steps of `cargo xtask test`, with the programs that were built for the tests.
pub(crate) const BACKENDS: Step = Step::Own("cargo xtask crash backends --kills 10", |tally| {
    kill_ten_times("backends", tally)
});
pub(crate) const UNDO: Step = Step::Own("cargo xtask crash undo --kills 10", |tally| {
    kill_ten_times("undo", tally)
});

fn kill_ten_times(word: &str, tally: &mut Tally) -> Result<(), Failure> {
    let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
    crash.args([word, "--kills", "10"]);
    command::run_tests(crash, tally)
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut cargo = command::cargo();
    let kills_daemon = ["backends", "undo"];
    if arguments
        .first()
        .is_some_and(|word| kills_daemon.contains(&word.as_str()))
    {
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
