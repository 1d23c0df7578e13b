//! Who may read the files of a store: their owner alone, whatever the umask of the process says.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// The rights of a file of a store.
pub(super) const OF_FILES: u32 = 0o600;
/// The rights of its directory.
const OF_DIRECTORY: u32 = 0o700;
/// A directory with this bit is shared on purpose, as `/tmp` is.
const STICKY: u32 = 0o1000;
/// The rights that others must not have.
const OF_OTHERS: u32 = 0o077;

/// Makes the directory and those above it, where they are not there.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(OF_DIRECTORY);
    builder.create(directory)
}

/// Takes the rights of others away where the directory and its files were made with them, as far as this process owns them.
/// What is in the database is no less safe where that fails, so that it is said and no more.
pub(super) fn close_to_others(directory: &Path) {
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
        // Not through a link: what it points to is no file of the store.
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
    match is_open && is_own {
        true => fs::set_permissions(path, Permissions::from_mode(rights)),
        false => Ok(()),
    }
}
