//! Small files that only their owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Puts a text into a file of a directory; it is there whole, or not at all. A file that is there already may be open to
/// others, so it is replaced and not written into.
pub(crate) fn put(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let fresh = directory.join(format!(".{name}-{}", Uuid::new_v4().as_simple()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let path = directory.join(name);
    fs::rename(&fresh, &path)?;
    Ok(path)
}
