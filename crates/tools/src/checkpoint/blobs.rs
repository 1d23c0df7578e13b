//! Content-addressed storage. The digest is verified on every read, so that damaged content is never restored.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::CheckpointError;

/// A directory of files that are named by their digest.
#[derive(Debug, Clone)]
pub(super) struct Blobs {
    directory: PathBuf,
}

impl Blobs {
    pub(super) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, digest: &str) -> PathBuf {
        let (first, _) = digest.split_at_checked(2).unwrap_or((digest, ""));
        self.directory.join(first).join(digest)
    }

    /// Stores content. Returns the number of bytes written: 0 if the content was stored already.
    pub(super) fn put(&self, digest: &str, bytes: &[u8]) -> Result<u64, CheckpointError> {
        let path = self.path(digest);
        let size = bytes.len() as u64;
        // A file of a different size was truncated by a power failure.
        if fs::metadata(&path).is_ok_and(|there| there.len() == size) {
            return Ok(0);
        }
        let written = write_file(&path, bytes, Fsync::No);
        written.map_err(CheckpointError::io("store", &path))?;
        Ok(size)
    }

    pub(super) fn get(&self, digest: &str) -> Result<Vec<u8>, CheckpointError> {
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::Gone {
                id: digest.to_owned(),
            },
            _ => CheckpointError::io("read", &path)(error),
        })?;
        if digest_of(&bytes) == digest {
            Ok(bytes)
        } else {
            Err(CheckpointError::Damaged { path })
        }
    }

    /// Returns the stored size in bytes of a digest's content.
    pub(super) fn size(&self, digest: &str) -> u64 {
        fs::metadata(self.path(digest)).map_or(0, |there| there.len())
    }

    /// Returns all files with their sizes, including files that were being written when a process was killed.
    pub(super) fn list(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut found = Vec::new();
        for directory in entries(&self.directory)? {
            for file in entries(&directory.path())? {
                found.push((file.path(), file.metadata()?.len()));
            }
        }
        Ok(found)
    }
}

pub(super) fn digest_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Whether a file must survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fsync {
    Yes,
    No,
}

/// Writes a value as JSON.
pub(super) fn write_json(
    path: &Path,
    value: &impl Serialize,
    sync: Fsync,
) -> Result<(), CheckpointError> {
    serde_json::to_vec(value)
        .map_err(io::Error::from)
        .and_then(|bytes| write_file(path, &bytes, sync))
        .map_err(CheckpointError::io("write", path))
}

/// Writes a temporary file in the same directory and renames it.
pub(super) fn write_file(path: &Path, bytes: &[u8], sync: Fsync) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    if sync == Fsync::Yes {
        file.as_file().sync_all()?;
    }
    file.persist(path)?;
    if sync == Fsync::Yes {
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Returns the entries of a directory; none if it does not exist.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}
