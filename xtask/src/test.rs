//! `test`: everything CI checks.

use crate::api;
use crate::backends;
use crate::car;
use crate::crash;
use crate::failure::Failure;
use crate::fake_models;
use crate::map;
use crate::plan::{self, OnFailure, Step};
use crate::setup;
use crate::slim;
use crate::verify::{FORMAT, LIMITS, LINTS, TESTS, TOOLCHAIN};
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "test",
    summary: "everything CI checks",
    help: "\
Checks format, lints, the runtime without its default features and the dependency budget, runs all tests, examples
included, lets clients that others wrote record runs on the daemon, the model drivers speak to an independent fake where there is
one, and Claude Code and Codex carry turns where npm can install them. On a fresh machine it first adds rustfmt and clippy through rustup; system packages are installed (see `setup`) only where
the variable CI is `true`. Every step runs, also after one that failed. What this machine cannot run is named on lines that begin with
SKIPPED. The last line on stdout is the sum of the test results: `N passed, N failed`, and `, N skipped` if anything was. The exit
status is 0 only when every step succeeded.

Usage: cargo xtask test

Examples:
  cargo xtask test
  cargo xtask test | tail -n 1    the sum alone; progress goes to stderr
",
    run,
};

const STEPS: &[Step] = &[
    Step::Own("system packages", setup::in_ci),
    TOOLCHAIN,
    FORMAT,
    LINTS,
    Step::Cargo(&[
        "clippy",
        "-p",
        "windlass-runtime",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ]),
    Step::Tests(&[
        "test",
        "-p",
        "windlass-runtime",
        "--no-default-features",
        "--no-fail-fast",
        "--lib",
    ]),
    Step::Own("cargo xtask slim", |_| slim::check()),
    Step::Own("cargo xtask map", |_| map::check()),
    LIMITS,
    TESTS,
    // The daemon that these drive was built with the tests.
    Step::Own("cargo xtask car", car::check),
    Step::Own("cargo xtask api", api::check),
    Step::Own("cargo xtask fake-models", fake_models::check),
    crash::BACKENDS,
    crash::UNDO,
    crash::FLEET,
    crash::CONFIG,
    crash::TASKS,
    backends::QUICK,
];

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    plan::run(STEPS, OnFailure::GoOn)
}
