//! `windlass-fuzz`: throws seeded random bytes at the targets until the time or the count is used up.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program: help goes to stdout, progress and findings to stderr"
)]

mod child;
mod options;
mod watch;

use std::process::ExitCode;

use options::{HELP, Request};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match options::parse(&arguments) {
        Ok(Request::Help) => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Ok(Request::Watch(options)) => watch::run(&options),
        Ok(Request::Child(options)) => child::run(options),
        Err(wrong) => {
            eprintln!("error: {wrong}\nTry `windlass-fuzz --help`.");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: the fuzzer cannot work: {error}");
        ExitCode::from(2)
    })
}
