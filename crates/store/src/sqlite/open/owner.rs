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

/// The right to write; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Owner {
    file: File,
}

impl Drop for Owner {
    /// A process that is just being started has a copy of the file until it becomes another program. The lock must not wait for that.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Owner {
    pub(crate) fn take(location: &Location) -> Result<Self, SqliteError> {
        let path = location.lock();
        let io = |doing, source| SqliteError::Io {
            doing,
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(rights::OF_FILES)
            .open(&path)
            .map_err(|error| io("open", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SqliteError::Locked {
                    directory: location.directory.clone(),
                    holder: holder(&path),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io("lock", error)),
        }
        let pid = std::process::id();
        file.set_len(0)
            .and_then(|()| writeln!(file, "{pid}"))
            .map_err(|error| io("write", error))?;
        Ok(Self { file })
    }
}

/// Runs `work` while no process can have the store open for writing. Returns `None` if there is no store, or a process has it open. Writes nothing.
pub fn while_unowned<T>(directory: &Path, work: impl FnOnce() -> T) -> Option<T> {
    let directory = directory.to_owned();
    let file = File::open(Location { directory }.lock()).ok()?;
    file.try_lock().ok()?;
    let owner = Owner { file };
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
    fn a_lock_that_is_given_up_is_free_also_where_a_copy_of_its_file_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location {
            directory: directory.path().to_owned(),
        };
        let owner = Owner::take(&location).unwrap();
        let copy = owner.file.try_clone().unwrap();
        drop(owner);
        Owner::take(&location).unwrap();
        drop(copy);
    }
}
