//! Serializes changes of a file.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Dir;

/// More locks than concurrent calls, so that two files rarely share one.
const LOCKS: usize = 64;

struct Locks {
    hasher: RandomState,
    locks: [Mutex<()>; LOCKS],
}

/// Shared by the whole process: two environments may overlap and contain the same file.
static CHANGING: LazyLock<Locks> = LazyLock::new(|| Locks {
    hasher: RandomState::new(),
    locks: [const { Mutex::new(()) }; LOCKS],
});

/// Waits until no other call in this process changes the file of this name in this directory.
pub(crate) fn lock(directory: &Dir, name: &OsStr) -> std::io::Result<MutexGuard<'static, ()>> {
    let metadata = directory.dir_metadata()?;
    let hash = CHANGING
        .hasher
        .hash_one((metadata.dev(), metadata.ino(), name));
    let index = usize::try_from(hash % LOCKS as u64).unwrap_or_default();
    let lock = &CHANGING.locks[index];
    Ok(lock.lock().unwrap_or_else(PoisonError::into_inner))
}
