//! Components of the Rust toolchain that the checks need and a minimal installation lacks.

use std::process::Command;

use crate::command;
use crate::error::XtaskError;

/// Each cargo subcommand and its rustup component.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs missing components.
pub(crate) fn complete() -> Result<(), XtaskError> {
    let missing: Vec<_> = COMPONENTS
        .iter()
        .filter(|(word, _)| !has(word))
        .map(|(_, component)| *component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("installing {}", missing.join(", "));
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add"]).args(missing);
    command::run(rustup)
}

fn has(word: &str) -> bool {
    let mut cargo = command::cargo();
    cargo.args([word, "--version"]);
    command::works(cargo)
}
