//! One change of a file at a time.

use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Dir;

/// More locks than calls that run at once, so that two files seldom share one.
const LOCKS: usize = 64;

struct Locks {
    hasher: RandomState,
    locks: [Mutex<()>; LOCKS],
}

/// Of the whole process: two environments may overlap, and a file is the same in both.
static CHANGING: LazyLock<Locks> = LazyLock::new(|| Locks {
    hasher: RandomState::new(),
    locks: [const { Mutex::new(()) }; LOCKS],
});

/// Waits until nobody else in this process changes the file of this name in this directory.
pub(crate) fn lock(directory: &Dir, name: &OsStr) -> std::io::Result<MutexGuard<'static, ()>> {
    let metadata = directory.dir_metadata()?;
    let hash = CHANGING
        .hasher
        .hash_one((metadata.dev(), metadata.ino(), name));
    let place = usize::try_from(hash % LOCKS as u64).unwrap_or_default();
    let lock = &CHANGING.locks[place];
    Ok(lock.lock().unwrap_or_else(PoisonError::into_inner))
}
