//! `verify`: the quick loop before a commit.

use crate::failure::Failure;
use crate::lines;
use crate::plan::{self, OnFailure, Step};
use crate::toolchain;
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "verify",
    summary: "format, lints and tests: the quick loop before a commit",
    help: "\
Checks format, sizes of files, lints and documentation and runs all tests of the workspace. Stops at the first step that fails.
The last line is the sum of the test results: `N passed, N failed`, and `, N skipped` if anything was.

Usage: cargo xtask verify

Examples:
  cargo xtask verify && git commit
  cargo fmt --all && cargo xtask verify
",
    run,
};

/// The tools of the steps after it.
pub(crate) const TOOLCHAIN: Step = Step::Own("rustfmt and clippy", |_| toolchain::complete());

/// The format of every file.
pub(crate) const FORMAT: Step = Step::Cargo(&["fmt", "--all", "--check"]);

/// Switches on what no default has; the rest is on because some member of the workspace needs it. Lints, tests and the
/// daemon of the later checks share one set, so that the workspace is compiled once for each kind of check.
pub(crate) const FEATURES: [&str; 2] = ["--features", "windlass-runtime/typed-tools"];

/// The lints of every target.
pub(crate) const LINTS: Step = Step::Cargo(&[
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
pub(crate) const TESTS: Step = Step::Tests(&[
    "test",
    "--workspace",
    FEATURES[0],
    FEATURES[1],
    "--no-fail-fast",
]);

/// What the documentation links to is there.
const PAGES: Step = Step::CargoWith(
    ("RUSTDOCFLAGS", "-D warnings"),
    &["doc", "--workspace", "--no-deps"],
);

/// The sizes of files and folders.
pub(crate) const LIMITS: Step = Step::Own("cargo xtask lines", |_| lines::check());

const STEPS: &[Step] = &[TOOLCHAIN, FORMAT, LIMITS, LINTS, PAGES, TESTS];

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    plan::run(STEPS, OnFailure::Stop)
}
