//! Where the daemon keeps what it must not forget.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Returns the directory that was named, else the user's own.
pub(crate) fn directory(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(|| {
        let state = set("XDG_STATE_HOME").map(PathBuf::from);
        let home = || set("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let state = state.or_else(home).unwrap_or_else(std::env::temp_dir);
        state.join("windlass")
    })
}

/// Returns the directory of somebody who names none on the command line.
pub(crate) fn usual() -> PathBuf {
    directory(set("WINDLASS_DATA").map(PathBuf::from))
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Makes the directory if it is not there; nobody else may look into one that is made.
pub(crate) fn make(directory: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make the data directory {}", directory.display()))
}
