//! The project's development tasks: `cargo xtask <subcommand>`.
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
mod error;
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
mod subcommand;
mod tally;
mod terminal;
mod test;
mod toolchain;
mod verify;
mod words;

use std::process::ExitCode;

use crate::error::XtaskError;
use crate::subcommand::Subcommand;

/// The subcommands in the order of the help.
const SUBCOMMANDS: &[Subcommand] = &[
    test::SUBCOMMAND,
    verify::SUBCOMMAND,
    setup::SUBCOMMAND,
    slim::SUBCOMMAND,
    map::SUBCOMMAND,
    lines::SUBCOMMAND,
    words::SUBCOMMAND,
    fuzz::SUBCOMMAND,
    crash::SUBCOMMAND,
    soak::SUBCOMMAND,
    hostile::SUBCOMMAND,
    backends::SUBCOMMAND,
    mcp::SUBCOMMAND,
    race::SUBCOMMAND,
    environments::SUBCOMMAND,
    fake_models::SUBCOMMAND,
    accept::SUBCOMMAND,
    car::SUBCOMMAND,
    api::SUBCOMMAND,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match subcommand::dispatch(SUBCOMMANDS, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            failure.exit_code()
        }
    }
}

fn report(failure: &XtaskError) {
    // A reported failure is not printed again, so that the summary stays the last line.
    if !matches!(failure, XtaskError::Shown) {
        eprintln!("{}: {failure}", terminal::red("error"));
    }
}
