//! Programs from the Python package index, each in a virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::XtaskError;

/// Returns whether Python is installed.
pub(crate) fn is_there() -> bool {
    let mut python = Command::new("python3");
    python.arg("--version");
    command::works(python)
}

/// Creates a virtual environment with a package if it is missing, and returns its interpreter. A missing dependency
/// (Python, its `venv`, access to the package index) is [`Failure::Missing`].
pub(crate) fn environment(
    directory: &Path,
    package: &str,
    module: &str,
) -> Result<PathBuf, XtaskError> {
    let python = directory.join("bin").join("python");
    let mut probe = Command::new(&python);
    probe.args(["-c", &format!("import {module}")]);
    if command::works(probe) {
        return Ok(python);
    }
    if !is_there() {
        return Err(XtaskError::Missing("there is no python3".to_owned()));
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(directory);
    command::run_quietly(make)
        .map_err(|_| XtaskError::Missing("python3 cannot make a virtual environment".to_owned()))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", package]);
    command::run_quietly(install)
        .map_err(|_| XtaskError::Missing(format!("pip cannot install {package}")))?;
    Ok(python)
}
