//! Writing files and making directories.

use std::io::Write;

use cap_std::fs::{Dir, Metadata, OpenOptions, Permissions};
use windlass_core::error::Result;
use windlass_core::session_file::{FileInfo, SessionFile};
use windlass_core::typed_id::SessionId;

use super::disk::{DiskEntry, DiskRoot};
use super::error;
use super::read::{MAX_READ_BYTES, read_bytes};
use super::view::view;
use crate::files::content::Content;
use crate::files::path::{split_last, temporary_name};
use crate::files::rules;
use crate::files::writer::WriteOrigin;
use windlass_core::lock::lock;

impl DiskRoot {
    pub(super) fn write(
        &self,
        session_id: SessionId,
        path: &str,
        content: &Content,
        writer: WriteOrigin,
    ) -> Result<SessionFile> {
        let _changing = lock(&self.changing);
        self.write_while_locked(session_id, path, content, writer)
    }

    pub(super) fn write_if_matches(
        &self,
        session_id: SessionId,
        path: &str,
        expected: &Content,
        content: &Content,
    ) -> Result<Option<SessionFile>> {
        let _changing = lock(&self.changing);
        let DiskEntry::File(entry) = self.find(path)? else {
            return Ok(None);
        };
        let found = read_bytes(&entry.parent, &entry.name, path, MAX_READ_BYTES)?;
        match found.and_then(|(_, bytes)| bytes) {
            Some(bytes) if bytes == expected.bytes() => self
                .write_while_locked(session_id, path, content, WriteOrigin::Caller)
                .map(Some),
            _ => Ok(None),
        }
    }

    fn write_while_locked(
        &self,
        session_id: SessionId,
        path: &str,
        content: &Content,
        writer: WriteOrigin,
    ) -> Result<SessionFile> {
        let (parent_path, name) = split_last(path).ok_or_else(|| rules::is_directory(path))?;
        let (parent, permissions) = match self.find(path)? {
            DiskEntry::Root | DiskEntry::Directory(_) => return Err(rules::is_directory(path)),
            DiskEntry::BelowFile { file } => return Err(rules::below_file(&file, path)),
            DiskEntry::Missing => (self.make_directories(parent_path)?, None),
            DiskEntry::File(entry) => {
                let permissions = entry.metadata.permissions();
                let refused = match writer {
                    WriteOrigin::Caller => self.is_read_only(path, &entry.metadata),
                    WriteOrigin::Host { .. } => permissions.readonly(),
                };
                if refused {
                    return Err(rules::read_only(path));
                }
                (entry.parent, Some(permissions))
            }
        };
        let metadata = replace(&parent, name, path, content.bytes(), permissions)?;
        if writer.marks_read_only() {
            self.marks.write().insert(path.to_owned());
        } else {
            self.marks.write().remove(path);
        }
        Ok(view(self, session_id, path, &metadata).into_file(Some(content)))
    }

    pub(super) fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo> {
        let _changing = lock(&self.changing);
        match self.find(path)? {
            DiskEntry::File(_) => return Err(rules::is_file(path)),
            DiskEntry::BelowFile { file } => return Err(rules::below_file(&file, path)),
            DiskEntry::Root => return Ok(self.root_view(session_id)?.into_info()),
            DiskEntry::Directory(_) | DiskEntry::Missing => {}
        }
        let directory = self.make_directories(path)?;
        let metadata = directory
            .dir_metadata()
            .map_err(error::io("look at", path))?;
        Ok(view(self, session_id, path, &metadata).into_info())
    }
}

/// Replaces a name atomically by a complete file: readers see the old one or the new one.
///
/// The file is not synced: a workspace is the tools' working copy, and the journal records the changes.
fn replace(
    directory: &Dir,
    name: &str,
    path: &str,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> Result<Metadata> {
    let temporary = temporary_name();
    let written = write_new(directory, &temporary, bytes, permissions).and_then(|metadata| {
        directory.rename(&temporary, directory, name)?;
        Ok(metadata)
    });
    written.map_err(|error| {
        // If this fails too, the first failure is the one to report.
        let _ = directory.remove_file(&temporary);
        error::io("write", path)(error).into()
    })
}

fn write_new(
    directory: &Dir,
    name: &str,
    bytes: &[u8],
    permissions: Option<Permissions>,
) -> std::io::Result<Metadata> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = directory.open_with(name, &options)?;
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.metadata()
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn r60_failed_write_leaves_no_temporary_file() {
        let root = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        directory.create_dir("taken").unwrap();
        let error = replace(&directory, "taken", "/taken", b"x", None).unwrap_err();
        assert!(error.to_string().contains("/taken"), "{error}");
        assert_eq!(directory.entries().unwrap().count(), 1);
    }
}
