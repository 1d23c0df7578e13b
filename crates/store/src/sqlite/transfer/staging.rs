//! A directory next to its final path, which is complete before it is renamed to that path.
//!
//! It is private, locked while a process fills it, and marked. So the leftovers of a killed process can be distinguished from data and removed.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::manifest::BackupFile;
use crate::sqlite::error::SqliteError;
use crate::sqlite::open::commit_counter::{CommitCount, Counter};
use crate::sqlite::open::connect::Location;
use crate::sqlite::open::owner::DirectoryLock;

/// Marks a directory that is still being filled.
pub(crate) const MARK: &str = "windlass.unfinished";

/// A directory that is being filled. Dropping it removes it, unless [`keep`](Self::keep) was called.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    owner: Option<DirectoryLock>,
}

impl Staging {
    /// Creates the directory, after removing the leftovers of a killed process.
    pub(crate) fn create(path: PathBuf) -> Result<Self, SqliteError> {
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_unfinished(&path) => {
                let _owner = DirectoryLock::take(&Location::new(&path))?;
                fs::remove_dir_all(&path).map_err(SqliteError::io("remove", &path))?;
                let created = DirBuilder::new().mode(0o700).create(&path);
                created.map_err(SqliteError::io("create", &path))?;
            }
            Err(error) => return Err(SqliteError::io("create", &path)(error)),
        }
        let mut staging = Self { path, owner: None };
        let mark = staging.path.join(MARK);
        let marked = private().open(&mark);
        marked.map_err(SqliteError::io("create", &mark))?;
        staging.owner = Some(DirectoryLock::take(&Location::new(&staging.path))?);
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Disables the removal, because the directory has its final name. The caller retains the lock.
    pub(crate) fn keep(mut self) -> Option<DirectoryLock> {
        self.path = PathBuf::new();
        self.owner.take()
    }

    /// Syncs the contents of the directory.
    pub(crate) fn sync(&self) -> Result<(), SqliteError> {
        sync_directory(&self.path)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // Leftovers are marked, and removed the next time.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns whether the process that filled a directory ended early.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    fs::symlink_metadata(path.join(MARK)).is_ok()
}

/// Returns the directory above a path.
pub(crate) fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above != Path::new("") => above,
        _ => Path::new("."),
    }
}

/// Returns a hidden name next to a path.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    above(path).join(format!(".{name}.{suffix}"))
}

pub(crate) fn sync_directory(path: &Path) -> Result<(), SqliteError> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(SqliteError::io("sync", path))
}

/// Writes the commit counter of a database.
pub(crate) fn put_counter(directory: &Path, count: CommitCount) -> Result<(), SqliteError> {
    let path = Location::new(directory).counter();
    let put = Counter::open(&path, count)
        .and_then(|_| fs::set_permissions(&path, Permissions::from_mode(0o600)));
    put.map_err(SqliteError::io("write", &path))
}

/// A new file that only its owner can read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

/// Opens a regular file without following a link or waiting for a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Reads a small file.
pub(crate) fn read_small(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        Err(io::Error::other("it is too large"))
    } else {
        Ok(bytes)
    }
}

/// Copies a file to one that only its owner can read, and syncs it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<BackupFile, SqliteError> {
    let mut source = open(from).map_err(SqliteError::io("read", from))?;
    let mut target = private().open(to).map_err(SqliteError::io("create", to))?;
    let copied = hash_and_copy(&mut source, Some(&mut target));
    let copied = copied.map_err(SqliteError::io("copy", from))?;
    target.sync_all().map_err(SqliteError::io("sync", to))?;
    Ok(copied)
}

/// Computes the size and digest of a file. No connection of this process may have the file open, because closing
/// it here would release the locks of that connection.
pub(crate) fn measure(path: &Path) -> Result<BackupFile, SqliteError> {
    let measured = open(path).and_then(|mut file| {
        let measured = hash_and_copy(&mut file, None)?;
        file.sync_all()?;
        Ok(measured)
    });
    measured.map_err(SqliteError::io("read", path))
}

fn hash_and_copy(source: &mut File, mut target: Option<&mut File>) -> io::Result<BackupFile> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 128 * 1024];
    let mut bytes = 0;
    loop {
        let read = source.read(&mut buffer)?;
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else {
            break;
        };
        hasher.update(part);
        bytes += part.len() as u64;
        if let Some(target) = &mut target {
            target.write_all(part)?;
        }
    }
    Ok(BackupFile {
        bytes,
        digest: hasher.finalize().to_hex().to_string(),
    })
}
