//! The project's chores, one word each: `cargo xtask <word>`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line talks to a person; the lint is for the libraries"
)]

mod accept;
mod api;
mod backends;
mod car;
mod command;
mod crash;
mod daemon;
mod environments;
mod failure;
mod fake_models;
mod fuzz;
mod hostile;
mod lines;
mod map;
mod mcp;
mod plan;
mod python;
mod race;
mod setup;
mod slim;
mod soak;
mod tally;
mod terminal;
mod test;
mod toolchain;
mod verify;
mod word;
mod words;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::word::Word;

/// Every word, in the order in which the help lists them.
const WORDS: &[Word] = &[
    test::WORD,
    verify::WORD,
    setup::WORD,
    slim::WORD,
    map::WORD,
    lines::WORD,
    words::WORD,
    fuzz::WORD,
    crash::WORD,
    soak::WORD,
    hostile::WORD,
    backends::WORD,
    mcp::WORD,
    race::WORD,
    environments::WORD,
    fake_models::WORD,
    accept::WORD,
    car::WORD,
    api::WORD,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match word::dispatch(WORDS, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            failure.exit_code()
        }
    }
}

fn report(failure: &Failure) {
    // What was already shown is not said again: the summary stays the last line.
    if !matches!(failure, Failure::Shown) {
        eprintln!("{}: {failure}", terminal::red("error"));
    }
}
