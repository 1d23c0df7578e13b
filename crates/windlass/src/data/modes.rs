//! File modes of the data. Without mount isolation, as with Landlock, a command may change them. Before any file is read, access is removed from
//! other users and restored for the daemon itself.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::cli::{note, printable};
use crate::data::{self, DirectoryContents};

/// Files of the data directory that only their owner may access, in addition to the files of the store. A token file that other users could read is
/// not repaired; the token is regenerated.
const OWN_FILES: [&str; 3] = ["secrets.key", "tokens.json", "trusted.json"];
const STORE_PREFIX: &str = "windlass.";

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Permission bit: other users can write.
const WRITABLE_BY_OTHERS: u32 = 0o002;
/// The sticky bit: such a directory is shared on purpose, as `/tmp` is.
const STICKY: u32 = 0o1000;

/// Repairs the modes of the directory and of the daemon's own files in it, and reports each change. Files of other users, symlinks and directories
/// without data are not touched.
pub(crate) fn repair(directory: &Path) {
    match data::inspect(directory) {
        DirectoryContents::Data => repair_all(directory),
        // Only a readable directory can be identified as a data directory.
        DirectoryContents::Unreadable => repair_unreadable(directory),
        DirectoryContents::Empty | DirectoryContents::OtherFile(_) => {}
    }
}

/// Sets the mode of an empty directory that becomes a data directory.
pub(crate) fn make_private(directory: &Path) {
    if let (DirectoryContents::Empty, Ok(metadata)) =
        (data::inspect(directory), fs::metadata(directory))
        && metadata.mode() & (STICKY | WRITABLE_BY_OTHERS) == WRITABLE_BY_OTHERS
    {
        repair_file(directory, &metadata, DIRECTORY_MODE);
    }
}

/// Makes a directory readable for its owner, and restores its mode if it contains no data.
fn repair_unreadable(directory: &Path) {
    let Ok(metadata) = fs::metadata(directory) else {
        return;
    };
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_own || !metadata.is_dir() {
        return;
    }
    let set = |mode| fs::set_permissions(directory, Permissions::from_mode(mode));
    let before = metadata.mode() & 0o7777;
    if set(DIRECTORY_MODE).is_err() {
        return;
    }
    let is_data = matches!(data::inspect(directory), DirectoryContents::Data);
    let _ = set(before);
    if is_data {
        repair_all(directory);
    }
}

fn repair_all(directory: &Path) {
    let Ok(metadata) = fs::metadata(directory) else {
        return;
    };
    if metadata.is_dir() && metadata.mode() & STICKY == 0 {
        repair_file(directory, &metadata, DIRECTORY_MODE);
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_own = OWN_FILES.contains(&&*name) || name.starts_with(STORE_PREFIX);
        // `metadata` does not follow symlinks here.
        if let Ok(metadata) = entry.metadata()
            && is_own
            && metadata.is_file()
        {
            repair_file(&entry.path(), &metadata, FILE_MODE);
        }
    }
}

fn repair_file(path: &Path, metadata: &Metadata, wanted: u32) {
    let mode = metadata.mode() & 0o7777;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_own || mode == wanted {
        return;
    }
    let shown = printable(path);
    match fs::set_permissions(path, Permissions::from_mode(wanted)) {
        Err(error) => note(format!(
            "{shown} has the mode {mode:03o}, which cannot be changed to {wanted:03o}: {error}"
        )),
        Ok(()) => {
            let risk = match mode {
                mode if mode & 0o022 != 0 => {
                    ": other users may have changed it, so check its content"
                }
                mode if mode & 0o044 != 0 => ": other users may have read it",
                _ => "",
            };
            note(format!(
                "the mode of {shown} was {mode:03o} and is now {wanted:03o}{risk}"
            ));
        }
    }
}
