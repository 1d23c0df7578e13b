//! The modes of what the daemon keeps. A command may change them where the sandbox does not govern that, as landlock does not: what is
//! open to others is closed, and what is closed to the daemon itself is opened, before anything is read.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::cli::{note, printable};
use crate::data::{self, Contents};

/// Files of the data directory whose owner alone may use them, beside those of the store, which begin with its name. A token that others could
/// read is not mended but made anew.
const OWN_FILES: [&str; 3] = ["secrets.key", "tokens.json", "trusted.json"];
const OF_STORE: &str = "windlass.";

const OF_DIRECTORY: u32 = 0o700;
const OF_FILES: u32 = 0o600;
/// What everybody may write to has this bit.
const OF_OTHERS: u32 = 0o002;
/// A directory with this bit is shared on purpose, as `/tmp` is.
const STICKY: u32 = 0o1000;

/// Gives the directory and the files in it that are the daemon's own their modes back, and says so. What belongs to another user, what is
/// a link, and a directory of something else are left alone.
pub(crate) fn mend(directory: &Path) {
    match data::contents(directory) {
        Contents::OfWindlass => mend_all(directory),
        // Only who may look into it can tell whose it is.
        Contents::Unknown => look_into(directory),
        Contents::Nothing | Contents::Others(_) => {}
    }
}

/// Gives an empty directory, in which data will be kept from now on, its mode.
pub(crate) fn take(directory: &Path) {
    if let (Contents::Nothing, Ok(found)) = (data::contents(directory), fs::metadata(directory))
        && found.mode() & (STICKY | OF_OTHERS) == OF_OTHERS
    {
        mend_one(directory, &found, OF_DIRECTORY);
    }
}

/// Opens a directory that is closed to its owner, and closes it again where it holds no data.
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
        // The look does not follow a link.
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
