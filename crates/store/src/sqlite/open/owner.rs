//! The lock on a data directory: one process writes.
//!
//! The operating system holds the lock while the file is open, so a killed process leaves no lock behind. The text in the file only names the holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::connect::Location;
use super::rights;
use crate::sqlite::error::SqliteError;

/// The exclusive right to write, released on drop.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    /// A child process has a copy of the file until it executes its program, so closing the file alone would release the lock too late.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    pub(crate) fn take(location: &Location) -> Result<Self, SqliteError> {
        let path = location.lock();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(rights::OF_FILES)
            .open(&path)
            .map_err(SqliteError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SqliteError::Locked {
                    directory: location.directory.clone(),
                    holder: holder(&path),
                });
            }
            Err(TryLockError::Error(error)) => return Err(SqliteError::io("lock", &path)(error)),
        }
        let pid = std::process::id();
        file.set_len(0)
            .and_then(|()| writeln!(file, "{pid}"))
            .map_err(SqliteError::io("write", &path))?;
        Ok(Self { file })
    }
}

/// Runs `work` while no process can have the store open for writing. Returns `None` if there is no store, or a process has it open. Writes nothing.
pub fn while_unowned<T>(directory: &Path, work: impl FnOnce() -> T) -> Option<T> {
    let file = File::open(Location::new(directory).lock()).ok()?;
    file.try_lock().ok()?;
    let owner = DirectoryLock { file };
    let done = work();
    drop(owner);
    Some(done)
}

fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(32).read_to_string(&mut text));
    match read {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_lock_is_free_while_a_copy_of_its_file_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let owner = DirectoryLock::take(&location).unwrap();
        let copy = owner.file.try_clone().unwrap();
        drop(owner);
        DirectoryLock::take(&location).unwrap();
        drop(copy);
    }
}
