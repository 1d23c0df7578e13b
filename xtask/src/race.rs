//! `race`: the long form of the race test of the file system on disk.

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "race",
    summary: "replaces names by links during 100,000 file operations",
    help: "\
Builds windlass-store and windlass-tools in release mode and runs their race tests: threads swap directories
for links to the outside while files are read, written, listed, searched and deleted below them. Nothing
outside may be touched or seen. `cargo xtask test` does the same with a few thousand operations.

Usage: cargo xtask race [operations]

Examples:
  cargo xtask race
  cargo xtask race 1000000
",
    run,
};

/// Default number of operations.
const OPERATIONS: u64 = 100_000;
/// The environment variable with the number for the test.
const VARIABLE: &str = "WINDLASS_RACE_OPERATIONS";

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let operations = operations(arguments)?;
    let mut cargo = command::cargo();
    cargo
        .args([
            "test",
            "--release",
            "-p",
            "windlass-store",
            "-p",
            "windlass-tools",
        ])
        .args(["--test", "it"])
        .args(["--", "race::"])
        .env(VARIABLE, operations.to_string());
    command::run(cargo)?;
    println!("{operations} operations, nothing outside was touched");
    Ok(())
}

fn operations(arguments: &[String]) -> Result<u64, XtaskError> {
    match arguments {
        [] => Ok(OPERATIONS),
        [count] => count
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| XtaskError::Usage(format!("`{count}` is not a number of operations"))),
        [_, second, ..] => Err(XtaskError::Usage(format!(
            "`race` takes one argument, but got `{second}` too; see `cargo xtask race --help`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_operations_is_parsed_or_refused() {
        let read = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            operations(&arguments).ok()
        };
        for (line, count) in [
            ("", Some(OPERATIONS)),
            ("7", Some(7)),
            ("0", None),
            ("-1", None),
            ("many", None),
            ("1 2", None),
        ] {
            assert_eq!(read(line), count, "{line}");
        }
    }
}
