//! Files and processes of another user, which only root can create.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// The Unix account `nobody`, which owns files and programs of another user.
pub(crate) const OTHER_USER: u32 = 65534;

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Changes the owner of a path to [`OTHER_USER`]. Returns `false` if this user may not.
pub(crate) fn given_to_other_user(path: &Path) -> bool {
    is_root() && chown(path, Some(OTHER_USER), None).is_ok()
}
