//! `test`: everything CI checks.

use crate::api;
use crate::backends;
use crate::car;
use crate::console_types;
use crate::crash;
use crate::error::XtaskError;
use crate::fake_models;
use crate::map;
use crate::plan::{self, OnFailure, PlanStep};
use crate::setup;
use crate::slim;
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::verify::{FORMAT, LIMITS, LINTS, TESTS, TOOLCHAIN, WORDS};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "test",
    summary: "everything CI checks",
    help: "\
Checks format, lints, the runtime without its default features and the dependency budget, runs all tests, examples
included, and tests the daemon with third-party clients, the model drivers with an independent fake if there is one, and turns of Claude
Code and Codex if npm can install them. It adds rustfmt and clippy through rustup if they are missing; system packages (see `setup`) are
installed only if the variable CI is `true`. Every step runs, also after a failed one. Parts that this machine cannot run are reported on
lines that start with SKIPPED. The last line on stdout is the sum of the test results: `N passed, N failed`, and `, N skipped` if anything
was. The exit status is 0 only if every step succeeded.

Usage: cargo xtask test

Examples:
  cargo xtask test
  cargo xtask test | tail -n 1    the sum alone; progress goes to stderr
",
    run,
};

const STEPS: &[PlanStep] = &[
    PlanStep::Own("system packages", setup::in_ci),
    TOOLCHAIN,
    FORMAT,
    LINTS,
    PlanStep::Cargo(&[
        "clippy",
        "-p",
        "windlass-runtime",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ]),
    PlanStep::Tests(&[
        "test",
        "-p",
        "windlass-runtime",
        "--no-default-features",
        "--no-fail-fast",
        "--lib",
    ]),
    PlanStep::Own("cargo xtask slim", |_| slim::check()),
    PlanStep::Own("cargo xtask map", |_| map::check()),
    PlanStep::Own("cargo xtask console-types", console_types::check),
    LIMITS,
    WORDS,
    TESTS,
    // These use the daemon of the test build.
    PlanStep::Own("cargo xtask car", car::check),
    PlanStep::Own("cargo xtask api", api::check),
    PlanStep::Own("cargo xtask fake-models", fake_models::check),
    crash::BACKENDS,
    crash::UNDO,
    crash::FLEET,
    crash::CONFIG,
    crash::TASKS,
    backends::QUICK,
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    plan::run(STEPS, OnFailure::GoOn)
}
