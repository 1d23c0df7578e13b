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
mod console_types;
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
use crate::subcommand::XtaskCommand;

/// The subcommands in the order of the help.
const COMMANDS: &[XtaskCommand] = &[
    test::COMMAND,
    verify::COMMAND,
    setup::COMMAND,
    slim::COMMAND,
    map::COMMAND,
    lines::COMMAND,
    words::COMMAND,
    fuzz::COMMAND,
    crash::COMMAND,
    soak::COMMAND,
    hostile::COMMAND,
    backends::COMMAND,
    mcp::COMMAND,
    race::COMMAND,
    environments::COMMAND,
    fake_models::COMMAND,
    accept::COMMAND,
    car::COMMAND,
    api::COMMAND,
    console_types::COMMAND,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match subcommand::dispatch(COMMANDS, &arguments) {
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
