//! Read, list and stat.

use std::io::{ErrorKind, Read};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::{FileInfo, FileStat, SessionFile};
use windlass_core::typed_id::SessionId;

use super::disk::{DiskEntry, DiskRoot, entries};
use super::error::{self, DiskError, DiskResult};
use super::view::view;
use crate::files::content::Content;
use crate::files::path::{is_temporary, join};

/// The maximum size of a file that can be read, in bytes.
pub const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;

impl DiskRoot {
    pub(super) fn read(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        let entry = match self.find(path)? {
            DiskEntry::Missing | DiskEntry::BelowFile { .. } => return Ok(None),
            DiskEntry::Root => return Ok(Some(self.root_view(session_id)?.into_file(None))),
            DiskEntry::Directory(entry) => {
                let view = view(self, session_id, path, &entry.metadata);
                return Ok(Some(view.into_file(None)));
            }
            DiskEntry::File(entry) => entry,
        };
        let Some((metadata, bytes)) = read_bytes(&entry.parent, &entry.name, path, MAX_READ_BYTES)?
        else {
            return Ok(None);
        };
        let Some(bytes) = bytes else {
            return Err(AgentLoopError::tool(format!(
                "file is larger than {MAX_READ_BYTES} bytes: {path}"
            )));
        };
        let content = Content::from_bytes(bytes);
        let mut view = view(self, session_id, path, &metadata);
        view.size_bytes = content.len();
        Ok(Some(view.into_file(Some(&content))))
    }

    pub(super) fn stat(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        Ok(match self.find(path)? {
            DiskEntry::Missing | DiskEntry::BelowFile { .. } => None,
            DiskEntry::Root => Some(self.root_view(session_id)?.into_stat()),
            DiskEntry::File(entry) | DiskEntry::Directory(entry) => {
                Some(view(self, session_id, path, &entry.metadata).into_stat())
            }
        })
    }

    /// Lists the reachable entries: no links, devices or sockets, and no names that are not UTF-8.
    pub(super) fn list(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        let Some(directory) = self.open_directory(path)? else {
            return Ok(Vec::new());
        };
        let listed = entries(&directory, path)?
            .into_iter()
            .filter_map(|(name, metadata)| {
                let name = name.to_str().filter(|name| !is_temporary(name))?;
                let reachable = metadata.is_dir() || metadata.is_file();
                reachable.then(|| view(self, session_id, &join(path, name), &metadata).into_info())
            })
            .collect();
        Ok(listed)
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// Returns `None` if the file no longer exists, and no bytes if it is larger. A pipe that replaced the file is opened without
/// waiting for its other end, and then refused.
pub(super) fn read_bytes(
    directory: &Dir,
    name: &str,
    path: &str,
    limit: u64,
) -> DiskResult<Option<(Metadata, Option<Vec<u8>>)>> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = match directory.open_with(name, &options) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let is_symlink = directory
                .symlink_metadata(name)
                .is_ok_and(|metadata| metadata.is_symlink());
            return Err(if is_symlink {
                DiskError::Symlink(path.to_owned())
            } else {
                error::io("read", path)(error)
            });
        }
    };
    let metadata = file.metadata().map_err(error::io("read", path))?;
    if !metadata.is_file() {
        return Err(DiskError::NotRegular(path.to_owned()));
    }
    if metadata.len() > limit {
        return Ok(Some((metadata, None)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    // It may grow while it is read.
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(error::io("read", path))?;
    let fits = bytes.len() as u64 <= limit;
    Ok(Some((metadata, fits.then_some(bytes))))
}

#[cfg(all(test, unix))]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    /// A file may be replaced by another kind of entry between the look-up and the open.
    #[test]
    fn r61_links_and_pipes_that_replace_a_file_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        directory.write("file", "x").unwrap();
        directory.symlink("file", "link").unwrap();
        let refusal = |name: &str| {
            read_bytes(&directory, name, name, 10)
                .unwrap_err()
                .to_string()
        };
        assert!(refusal("link").contains("symbolic links are not followed"));
        let pipe = root.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        if made.is_ok_and(|status| status.success()) {
            assert!(refusal("pipe").contains("neither a regular file"));
        }
    }
}
