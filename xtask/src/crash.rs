//! `crash`: kills a working runtime many times.

use std::process::Command;

use crate::command;
use crate::daemon;
use crate::error::XtaskError;
use crate::plan::PlanStep;
use crate::subcommand::XtaskCommand;
use crate::tally::Tally;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "crash",
    summary: "kills a working runtime 2,000 times and checks its data",
    help: "\
Builds the package windlass-crash in release mode and runs it: a child process works on sessions on disk and is ended
with SIGKILL at random moments and at named points; after each death the journal and the effects of tools are checked.
`cargo xtask test` does the same 60 times. The seed is printed, so that a failure can be repeated.

With `feed` 64 writers are killed together, 200 times, while three readers follow the feed over all streams from their cursors.

With `backends` the debug build of the daemon is killed 100 times while an external agent executes a turn. No process of the agent
is left, every turn completes, and no prompt is sent twice without a notice. `cargo xtask test` does the same 10 times, and
`cargo xtask backends` kills it 5 times under the real Claude Code.

With `undo` the debug build of the daemon is killed 200 times while a scripted model edits a file, runs a command in the sandbox and asks a question, and
while that is undone. Every turn ends once, no command runs twice, files and conversation are restored together, and external edits
remain. `cargo xtask test` does the same 10 times.

With `fleet` the debug build of the daemon is killed 50 times while 8 workers execute a run of 200 tasks, half of them with an external
agent, and workers are interrupted and restarted. Every task ends once, attempts are counted according to the rule, and every repetition is
recorded. `cargo xtask test` does the same with 24 tasks and 6 kills.

With `config` the debug build of the daemon is killed 100 times and restarted while a backend, a model, a directory and the token file are
removed and restored at random. A job with a missing dependency is held, no job ends while its turn is open, and once everything is restored each job completes
once. `cargo xtask test` does the same 8 times.

With `children` a debug build is killed 200 times while twenty subagents of one turn share a budget of one
dollar. The usage never exceeds it by more than the reservation of one call, and the sums of the journal and the read model agree.

With `tasks` the release build of the daemon is killed 200 times while three tokens queue 10,000 tasks and 8 workers execute them. None is lost or
duplicated, each ends once with one turn per attempt, and no token is served much better than another. `cargo xtask test` does the
same with 60 tasks and 5 kills, with the debug build.

Usage: cargo xtask crash [feed|backends|undo|children|config] [--kills N] [--seed S]
       cargo xtask crash tasks|fleet [--tasks N] [--workers N] [--kills N] [--seed S]

Examples:
  cargo xtask crash
  cargo xtask crash --kills 100 --seed 7
  cargo xtask crash feed
  cargo xtask crash backends --kills 20
  cargo xtask crash undo --kills 20 --seed 7
  cargo xtask crash fleet --tasks 200 --workers 8 --kills 50
  cargo xtask crash children --kills 50
  cargo xtask crash config --kills 100
  cargo xtask crash tasks --tasks 10000 --workers 8 --kills 200
",
    run,
};

/// Steps of `cargo xtask test`, with the binaries of its test build.
pub(crate) const BACKENDS: PlanStep =
    PlanStep::Own("cargo xtask crash backends --kills 10", |tally| {
        kill_ten_times("backends", tally)
    });
pub(crate) const UNDO: PlanStep = PlanStep::Own("cargo xtask crash undo --kills 10", |tally| {
    kill_ten_times("undo", tally)
});

pub(crate) const FLEET: PlanStep =
    PlanStep::Own("cargo xtask crash fleet --tasks 24 --kills 6", |tally| {
        let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
        crash.args(["fleet", "--tasks", "24", "--kills", "6"]);
        command::run_tests(crash, tally)
    });
pub(crate) const CONFIG: PlanStep = PlanStep::Own("cargo xtask crash config --kills 8", |tally| {
    let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
    crash.args(["config", "--kills", "8"]);
    command::run_tests(crash, tally)
});
pub(crate) const TASKS: PlanStep = PlanStep::Own(
    "cargo xtask crash tasks --tasks 60 --workers 4 --kills 5",
    |tally| {
        let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
        crash.args(["tasks", "--tasks", "60", "--workers", "4", "--kills", "5"]);
        command::run_tests(crash, tally)
    },
);

fn kill_ten_times(word: &str, tally: &mut Tally) -> Result<(), XtaskError> {
    let mut crash = Command::new(daemon::binary().with_file_name("windlass-crash"));
    crash.args([word, "--kills", "10"]);
    command::run_tests(crash, tally)
}

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let mut cargo = command::cargo();
    let kills_daemon = ["backends", "config", "fleet", "undo"];
    if arguments
        .first()
        .is_some_and(|word| kills_daemon.contains(&word.as_str()))
    {
        daemon::build()?;
        cargo.args(["run", "-p", "windlass-crash", "--"]);
        cargo.args(arguments);
        return command::run(cargo);
    }
    if arguments.first().is_some_and(|word| word == "children") {
        cargo.args(["run", "-p", "windlass-crash", "--"]);
        cargo.args(arguments);
        return command::run(cargo);
    }
    if arguments.first().is_some_and(|word| word == "tasks") {
        let mut build = command::cargo();
        build.args(["build", "--release", "-p", "windlass"]);
        command::run(build)?;
        cargo.args(["run", "--release", "-p", "windlass-crash", "--"]);
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
