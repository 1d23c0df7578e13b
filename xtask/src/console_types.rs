//! `console-types`: the types of the web console's modules.

use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};
use crate::tally::Tally;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "console-types",
    summary: "checks the types of the web console's modules with tsc",
    help: "\
Checks the JSDoc types of crates/console/assets with the TypeScript compiler, if `tsc` is in PATH. The console needs no compiler: its
modules are served as they are.

Usage: cargo xtask console-types
",
    run,
};

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    check(&mut Tally::default())
}

/// Runs the compiler, or reports why the check is skipped.
pub(crate) fn check(tally: &mut Tally) -> Result<(), XtaskError> {
    let mut probe = Command::new("tsc");
    probe.arg("--version");
    if !command::works(probe) {
        tally.skip("types of the web console: tsc is not installed");
        return Ok(());
    }
    let mut compiler = Command::new("tsc");
    compiler
        .args(["-p", "crates/console"])
        .current_dir(command::root());
    command::run(compiler)
}
