//! The parts of the Rust toolchain that the checks need and a minimal install lacks.

use std::process::Command;

use crate::command;
use crate::failure::Failure;

/// Each cargo word and the rustup component that brings it.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs what is missing; touches nothing when all is there.
pub(crate) fn complete() -> Result<(), Failure> {
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
