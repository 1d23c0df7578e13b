//! Permissions of the files of a store: only their owner may read them, regardless of the process's umask.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// The rights of a file of a store.
pub(crate) const OF_FILES: u32 = 0o600;
/// The rights of its directory.
const OF_DIRECTORY: u32 = 0o700;
/// A directory with this bit is shared on purpose, as `/tmp` is.
const STICKY: u32 = 0o1000;
/// The permission bits of group and others.
const OF_OTHERS: u32 = 0o077;

/// Creates the directory and its missing parents.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(OF_DIRECTORY);
    builder.create(directory)
}

/// Removes the permissions of other users from the directory and its files, as far as this process owns them. A failure is only logged: the database
/// is no less safe than before.
pub(crate) fn close_to_others(directory: &Path) {
    let closed = fs::metadata(directory)
        .and_then(|found| match found.mode() & STICKY {
            0 => close(directory, &found, OF_DIRECTORY),
            _ => Ok(()),
        })
        .and_then(|()| close_files(directory));
    if let Err(error) = closed {
        let directory = directory.display();
        tracing::warn!(%directory, %error, "others may be able to read the store; check the rights of its files");
    }
}

fn close_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with("windlass.");
        // Symbolic links are skipped: their targets are no files of the store.
        let found = entry.metadata()?;
        if is_ours && found.is_file() {
            close(&entry.path(), &found, OF_FILES)?;
        }
    }
    Ok(())
}

/// The rights are set by name: opening a file of SQLite's to set them would give up its locks.
fn close(path: &Path, found: &Metadata, rights: u32) -> io::Result<()> {
    let is_open = found.mode() & OF_OTHERS != 0;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_open && is_own {
        fs::set_permissions(path, Permissions::from_mode(rights))
    } else {
        Ok(())
    }
}
