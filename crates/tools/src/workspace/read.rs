//! Opening files to read.

use std::io::Read;
use std::path::Path;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{File, Metadata, OpenOptions};

use super::{FileError, ResolvedWorkspace};

/// How many bytes are looked at to tell text from other bytes.
const PROBE_BYTES: usize = 8 * 1024;

/// A regular file that is open.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
}

impl ResolvedWorkspace {
    /// Opens a regular file. A pipe is opened without waiting for its other end, and then refused.
    pub(crate) fn open_file(&self, path: &Path) -> Result<OpenFile, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true);
        let failure = |source| self.failure("read", path, source);
        let file = self
            .root
            .open_with(super::path::or_here(path), &options)
            .map_err(failure)?;
        let metadata = file.metadata().map_err(failure)?;
        if metadata.is_dir() {
            let path = self.shown(path);
            return Err(FileError::IsDirectory { path });
        }
        if !metadata.is_file() {
            let path = self.shown(path);
            return Err(FileError::Special { path });
        }
        Ok(OpenFile { file, metadata })
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
