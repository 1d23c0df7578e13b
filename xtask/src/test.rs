//! `test`: everything CI checks.

use crate::car;
use crate::failure::Failure;
use crate::fake_models;
use crate::plan::{self, OnFailure, Step};
use crate::slim;
use crate::verify::{FORMAT, LINTS, TESTS, TOOLCHAIN};
use crate::word::{Word, no_arguments};

pub(crate) const WORD: Word = Word {
    name: "test",
    summary: "everything CI checks",
    help: "\
Checks format, lints, the runtime without its default features and with `tools` and `typed-tools`, the store with SQLite,
documentation and the dependency budget, runs all tests, examples included, lets clients that others wrote record runs on the
daemon, and the model drivers speak to an independent fake where there is one. On a fresh machine it first adds rustfmt and clippy through rustup.
Every step runs, also after one that failed. The last line on stdout is the sum of the test results:
`N passed, N failed`. The exit status is 0 only when every step succeeded.

Usage: cargo xtask test

Examples:
  cargo xtask test
  cargo xtask test | tail -n 1    the sum alone; progress goes to stderr
",
    run,
};

const STEPS: &[Step] = &[
    TOOLCHAIN,
    FORMAT,
    LINTS,
    Step::Cargo(&[
        "clippy",
        "-p",
        "windlass-runtime",
        "--no-default-features",
        "--all-targets",
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
    ]),
    Step::Cargo(&[
        "clippy",
        "-p",
        "windlass-runtime",
        "--features",
        "tools,typed-tools",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]),
    Step::Tests(&[
        "test",
        "-p",
        "windlass-runtime",
        "--features",
        "tools,typed-tools",
        "--no-fail-fast",
    ]),
    Step::Cargo(&[
        "clippy",
        "-p",
        "windlass-store",
        "--features",
        "sqlite",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]),
    Step::Tests(&[
        "test",
        "-p",
        "windlass-store",
        "--features",
        "sqlite",
        "--no-fail-fast",
        "--",
        "sqlite::",
    ]),
    Step::CargoWith(
        ("RUSTDOCFLAGS", "-D warnings"),
        &["doc", "--workspace", "--no-deps"],
    ),
    Step::Own("cargo xtask slim", slim::check),
    TESTS,
    Step::Own("cargo xtask car", car::check),
    Step::OwnTests("cargo xtask fake-models", fake_models::check),
];

fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(WORD.name, arguments)?;
    plan::run(STEPS, OnFailure::GoOn)
}
