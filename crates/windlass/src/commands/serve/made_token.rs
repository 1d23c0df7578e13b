//! The token that clients show: given, read from a file, or made.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use uuid::Uuid;

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
    let path = directory.join("token");
    // A file of another making may be open to others: it is replaced, not written into.
    let fresh = directory.join(format!(".token-{}", Uuid::new_v4().as_simple()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .with_context(cannot)?;
    file.write_all(token.as_bytes()).with_context(cannot)?;
    file.sync_all().with_context(cannot)?;
    fs::rename(&fresh, &path).with_context(cannot)?;
    Ok((token, path))
}
