//! Permissions of the files of a store: only their owner may read them, regardless of the process's umask.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Permission bits of a file of a store.
pub(crate) const OF_FILES: u32 = 0o600;
/// Permission bits of its directory.
const OF_DIRECTORY: u32 = 0o700;
/// A directory with this bit is shared intentionally, like `/tmp`.
const STICKY: u32 = 0o1000;
/// The permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Creates the directory and its missing parents.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(OF_DIRECTORY);
    builder.create(directory)
}

/// Removes the permissions of other users from the directory and its files, as far as this process owns them. A failure is only logged: the database
/// is no less safe than before.
pub(crate) fn make_private(directory: &Path) {
    if let Err(error) = make_all_private(directory) {
        let directory = directory.display();
        tracing::warn!(%directory, %error, "other users may be able to read the store; check the permissions of its files");
    }
}

fn make_all_private(directory: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    if metadata.mode() & STICKY == 0 {
        restrict(directory, &metadata, OF_DIRECTORY)?;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with("windlass.");
        // Symbolic links are skipped: their targets are no files of the store.
        let metadata = entry.metadata()?;
        if is_ours && metadata.is_file() {
            restrict(&entry.path(), &metadata, OF_FILES)?;
        }
    }
    Ok(())
}

/// Permissions are set by path: opening and closing a file of SQLite would release its locks.
fn restrict(path: &Path, metadata: &Metadata, mode: u32) -> io::Result<()> {
    let is_open = metadata.mode() & GROUP_AND_OTHERS != 0;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_open && is_own {
        fs::set_permissions(path, Permissions::from_mode(mode))
    } else {
        Ok(())
    }
}
