//! `verify`: the quick loop before a commit.

use crate::failure::Failure;
use crate::plan::{self, OnFailure, Step};
use crate::toolchain;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "verify",
    summary: "format, lints and tests: the quick loop before a commit",
    help: "\
Checks format and lints and runs all tests of the workspace. Stops at the first step that fails.
The last line is the sum of the test results: `N passed, N failed`.

Usage: cargo xtask verify

Examples:
  cargo xtask verify && git commit
  cargo fmt --all && cargo xtask verify
",
    run,
};

/// The tools of the steps after it.
pub(crate) const TOOLCHAIN: Step = Step::Own("rustfmt and clippy", toolchain::complete);

/// The format of every file.
pub(crate) const FORMAT: Step = Step::Cargo(&["fmt", "--all", "--check"]);

/// The lints of every target with default features.
pub(crate) const LINTS: Step = Step::Cargo(&[
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
]);

/// Every unit, integration and doc test. One broken test must not hide the results of the rest.
pub(crate) const TESTS: Step = Step::Tests(&["test", "--workspace", "--no-fail-fast"]);

const STEPS: &[Step] = &[TOOLCHAIN, FORMAT, LINTS, TESTS];

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    plan::run(STEPS, OnFailure::Stop)
}
