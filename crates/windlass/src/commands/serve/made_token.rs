//! The token that clients show: given, read from a file, or made.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use uuid::Uuid;

use super::private_file;

/// Reads a token from a file.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the token file {}", path.display()))?;
    match text.trim() {
        "" => bail!("the token file {} is empty", path.display()),
        token => Ok(token.to_owned()),
    }
}

/// Makes a token and keeps it in a file that only its owner can read.
pub(super) fn make(directory: &Path) -> anyhow::Result<(String, PathBuf)> {
    let cannot = || format!("cannot keep a token in {}", directory.display());
    let token = format!(
        "{}{}",
        Uuid::new_v4().as_simple(),
        Uuid::new_v4().as_simple()
    );
    let path = private_file::put(directory, "token", &token).with_context(cannot)?;
    Ok((token, path))
}
