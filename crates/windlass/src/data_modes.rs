//! File modes of the data. Without mount isolation, as with Landlock, a command may change them. Before any file is read, access is removed from
//! other users and restored for the daemon itself.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::cli::{note, printable};
use crate::data::{self, Contents};

/// Files of the data directory that only their owner may access, in addition to the files of the store. A token file that other users could read is
/// not repaired; the token is regenerated.
const OWN_FILES: [&str; 3] = ["secrets.key", "tokens.json", "trusted.json"];
const OF_STORE: &str = "windlass.";

const OF_DIRECTORY: u32 = 0o700;
const OF_FILES: u32 = 0o600;
/// Permission bit: other users can write.
const OF_OTHERS: u32 = 0o002;
/// The sticky bit: such a directory is shared on purpose, as `/tmp` is.
const STICKY: u32 = 0o1000;

/// Repairs the modes of the directory and of the daemon's own files in it, and reports each change. Files of other users, symlinks and directories
/// without data are not touched.
pub(crate) fn mend(directory: &Path) {
    match data::contents(directory) {
        Contents::OfWindlass => mend_all(directory),
        // Only a readable directory can be identified as a data directory.
        Contents::Unknown => look_into(directory),
        Contents::Nothing | Contents::Others(_) => {}
    }
}

/// Sets the mode of an empty directory that becomes a data directory.
pub(crate) fn take(directory: &Path) {
    if let (Contents::Nothing, Ok(found)) = (data::contents(directory), fs::metadata(directory))
        && found.mode() & (STICKY | OF_OTHERS) == OF_OTHERS
    {
        mend_one(directory, &found, OF_DIRECTORY);
    }
}

/// Makes a directory readable for its owner, and restores its mode if it contains no data.
fn look_into(directory: &Path) {
    let Ok(found) = fs::metadata(directory) else {
        return;
    };
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if !is_own || !found.is_dir() {
        return;
    }
    let set = |mode| fs::set_permissions(directory, Permissions::from_mode(mode));
    let before = found.mode() & 0o7777;
    if set(OF_DIRECTORY).is_err() {
        return;
    }
    let is_data = matches!(data::contents(directory), Contents::OfWindlass);
    let _ = set(before);
    if is_data {
        mend_all(directory);
    }
}

fn mend_all(directory: &Path) {
    let Ok(found) = fs::metadata(directory) else {
        return;
    };
    if found.is_dir() && found.mode() & STICKY == 0 {
        mend_one(directory, &found, OF_DIRECTORY);
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_own = OWN_FILES.contains(&&*name) || name.starts_with(OF_STORE);
        // `metadata` does not follow symlinks here.
        if let Ok(found) = entry.metadata()
            && is_own
            && found.is_file()
        {
            mend_one(&entry.path(), &found, OF_FILES);
        }
    }
}

fn mend_one(path: &Path, found: &Metadata, wanted: u32) {
    let mode = found.mode() & 0o7777;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if !is_own || mode == wanted {
        return;
    }
    let shown = printable(path);
    match fs::set_permissions(path, Permissions::from_mode(wanted)) {
        Err(error) => note(&format!(
            "{shown} has the mode {mode:03o}, and it cannot be set to {wanted:03o}: {error}"
        )),
        Ok(()) if mode & 0o022 != 0 => note(&format!(
            "{shown} had the mode {mode:03o} and has {wanted:03o} now: others may have changed it, so look at what is in it"
        )),
        Ok(()) if mode & 0o044 != 0 => note(&format!(
            "{shown} had the mode {mode:03o} and has {wanted:03o} now: others may have read it"
        )),
        Ok(()) => note(&format!(
            "{shown} had the mode {mode:03o} and has {wanted:03o} now"
        )),
    }
}
