//! Opens files for reading.

use std::io::Read;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::{FileError, ResolvedWorkspace};

/// Number of bytes examined to distinguish text from binary data.
const PROBE_BYTES: usize = 8 * 1024;

/// An open regular file.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

impl ResolvedWorkspace {
    /// Opens a regular file: first its directory, because only a directory can be checked for hidden parents.
    pub(crate) fn open_file(&self, path: &Path) -> Result<OpenFile, FileError> {
        let real = self.canonical(path)?;
        let Some(name) = real.file_name() else {
            let path = self.shown(path);
            return Err(FileError::IsDirectory { path });
        };
        let parent = self.open_directory(real.parent().unwrap_or(Path::new("")))?;
        self.open_in(&parent, Path::new(name), path)
    }

    /// Reads a file with the rules of the file tools: inside the root, and not hidden. `None` if it exceeds the limit.
    pub fn read_bytes(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        let path = self.inside(path)?;
        let opened = self.open_file(&path)?;
        let read = opened.bytes(limit);
        read.map_err(|source| self.failure("read", &path, source))
    }

    /// Opens a regular file of an open directory. A hidden file is not even opened, because closing it would release the locks that this process
    /// holds on it. A pipe that replaced the file is opened without blocking and then refused.
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
            return Err(self.hidden_error(path));
        }
        let path = || self.shown(path);
        match metadata.file_type() {
            kind if kind.is_file() => Ok(()),
            kind if kind.is_dir() => Err(FileError::IsDirectory { path: path() }),
            // Links were resolved earlier, so this one is new.
            kind if kind.is_symlink() => Err(FileError::Changed { path: path() }),
            _ => Err(FileError::Special { path: path() }),
        }
    }
}

impl OpenFile {
    /// Reads the whole file; `None` if it exceeds the limit.
    pub(crate) fn bytes(self, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
        if self.metadata.len() > limit {
            return Ok(None);
        }
        let expected = usize::try_from(self.metadata.len()).unwrap_or_default();
        let mut bytes = Vec::with_capacity(expected);
        // The file may grow while it is read.
        self.file.take(limit + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }
}

/// Returns whether bytes are not text. As in git, a NUL byte near the beginning decides.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(PROBE_BYTES)].contains(&0)
}
