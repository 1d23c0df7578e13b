//! `verify`: the quick loop before a commit.

use crate::error::XtaskError;
use crate::lines;
use crate::plan::{self, OnFailure, PlanStep};
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::toolchain;
use crate::words;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "verify",
    summary: "format, lints and tests: the quick loop before a commit",
    help: "\
Checks format, sizes of files, phrases, lints and documentation and runs all tests of the workspace. Stops at the first step that fails.
The last line is the sum of the test results: `N passed, N failed`, and `, N skipped` if anything was.

Usage: cargo xtask verify

Examples:
  cargo xtask verify && git commit
  cargo fmt --all && cargo xtask verify
",
    run,
};

/// The tools of the later steps.
pub(crate) const TOOLCHAIN: PlanStep =
    PlanStep::Own("rustfmt and clippy", |_| toolchain::complete());

/// The format of every file.
pub(crate) const FORMAT: PlanStep = PlanStep::Cargo(&["fmt", "--all", "--check"]);

/// Features that are off by default and not enabled by another workspace member. Lints, tests and the
/// daemon of the later checks share them, so that the workspace is compiled once per kind of check.
pub(crate) const FEATURES: [&str; 2] = ["--features", "windlass-runtime/typed-tools"];

/// Clippy on every target.
pub(crate) const LINTS: PlanStep = PlanStep::Cargo(&[
    "clippy",
    "--workspace",
    "--all-targets",
    FEATURES[0],
    FEATURES[1],
    "--",
    "-D",
    "warnings",
]);

/// Every unit, integration and doc test. One broken test must not hide the results of the rest.
pub(crate) const TESTS: PlanStep = PlanStep::Tests(&[
    "test",
    "--workspace",
    FEATURES[0],
    FEATURES[1],
    "--no-fail-fast",
]);

/// The links of the documentation.
const PAGES: PlanStep = PlanStep::CargoWith(
    ("RUSTDOCFLAGS", "-D warnings"),
    &["doc", "--workspace", "--no-deps"],
);

/// The sizes of files and folders.
pub(crate) const LIMITS: PlanStep = PlanStep::Own("cargo xtask lines", |_| lines::check());

/// Phrases and type names that a new reader does not understand.
pub(crate) const WORDS: PlanStep = PlanStep::Own("cargo xtask words", |_| words::check());

const STEPS: &[PlanStep] = &[TOOLCHAIN, FORMAT, LIMITS, WORDS, LINTS, PAGES, TESTS];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    plan::run(STEPS, OnFailure::Stop)
}
