//! Opening files to read.

use std::io::Read;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::{FileError, ResolvedWorkspace};

/// How many bytes are looked at to tell text from other bytes.
const PROBE_BYTES: usize = 8 * 1024;

/// A regular file that is open.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

impl ResolvedWorkspace {
    /// Opens a regular file: its directory first, because only that can be asked where it lies.
    pub(crate) fn open_file(&self, path: &Path) -> Result<OpenFile, FileError> {
        let real = self.canonical(path)?;
        let Some(name) = real.file_name() else {
            let path = self.shown(path);
            return Err(FileError::IsDirectory { path });
        };
        let parent = self.open_directory(real.parent().unwrap_or(Path::new("")))?;
        self.open_in(&parent, Path::new(name), path)
    }

    /// Reads a file by the rules of the file tools: inside of the root, and nothing that is hidden. `None` when it has more
    /// bytes than the limit.
    pub fn read_bytes(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        let path = self.inside(path)?;
        let opened = self.open_file(&path)?;
        let read = opened.bytes(limit);
        read.map_err(|source| self.failure("read", &path, source))
    }

    /// Opens a regular file of an open directory. What is hidden is not even opened: that alone would undo the locks that
    /// this process has on it. A pipe that was swapped in is opened without waiting for its other end, and then refused.
    pub(crate) fn open_in(
        &self,
        parent: &Dir,
        name: &Path,
        path: &Path,
    ) -> Result<OpenFile, FileError> {
        let failure = |source| self.failure("read", path, source);
        let before = parent.symlink_metadata(name).map_err(failure)?;
        self.check_regular(&before, path)?;
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let file = parent.open_with(name, &options).map_err(failure)?;
        let metadata = file.metadata().map_err(failure)?;
        self.check_regular(&metadata, path)?;
        Ok(OpenFile { file, metadata })
    }

    fn check_regular(&self, metadata: &Metadata, path: &Path) -> Result<(), FileError> {
        if self.hidden.is_hidden(metadata) {
            return Err(self.is_hidden(path));
        }
        let path = || self.shown(path);
        match metadata.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(FileError::IsDirectory { path: path() }),
            // Links were followed before; this one is new.
            kind if kind.is_symlink() => Err(FileError::Changed { path: path() }),
            _ => Err(FileError::Special { path: path() }),
        }
    }
}

impl OpenFile {
    /// Reads everything; `None` when there is more than the limit.
    pub(crate) fn bytes(self, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
        if self.metadata.len() > limit {
            return Ok(None);
        }
        let expected = usize::try_from(self.metadata.len()).unwrap_or_default();
        let mut bytes = Vec::with_capacity(expected);
        // It may grow while it is read.
        self.file.take(limit + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }
}

/// Tells bytes that are no text: as git does, by a zero among the first of them.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(PROBE_BYTES)].contains(&0)
}
