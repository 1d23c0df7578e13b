//! Programs from the Python package index, in virtual environments of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::failure::Failure;

/// Tells whether there is a Python at all.
pub(crate) fn is_there() -> bool {
    let mut python = Command::new("python3");
    python.arg("--version");
    command::works(python)
}

/// Makes a virtual environment with a package, unless it is there, and returns its interpreter. What the machine lacks for
/// that (Python, its `venv`, a way to the package index) is [`Failure::Missing`].
pub(crate) fn environment(
    directory: &Path,
    package: &str,
    module: &str,
) -> Result<PathBuf, Failure> {
    let python = directory.join("bin").join("python");
    let mut probe = Command::new(&python);
    probe.args(["-c", &format!("import {module}")]);
    if command::works(probe) {
        return Ok(python);
    }
    if !is_there() {
        return Err(Failure::Missing("there is no python3".to_owned()));
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(directory);
    command::run_quietly(make)
        .map_err(|_| Failure::Missing("python3 cannot make a virtual environment".to_owned()))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", package]);
    command::run_quietly(install)
        .map_err(|_| Failure::Missing(format!("pip cannot install {package}")))?;
    Ok(python)
}
