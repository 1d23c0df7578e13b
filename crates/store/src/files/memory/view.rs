//! What a caller gets to see of a node.

use windlass_core::session_file::{FileInfo, FileStat, SessionFile};
use windlass_core::typed_id::SessionId;

use super::tree::{Directory, File, Meta, Node};
use crate::files::content::Encoding;

/// The part that listing, looking and reading share.
pub(super) struct View {
    session_id: SessionId,
    path: String,
    meta: Meta,
    is_directory: bool,
    is_readonly: bool,
    size_bytes: i64,
}

impl View {
    pub(super) fn of_file(session_id: SessionId, path: &str, file: &File) -> Self {
        Self {
            session_id,
            path: path.to_owned(),
            meta: file.meta,
            is_directory: false,
            is_readonly: file.is_readonly,
            size_bytes: i64::try_from(file.content.len()).unwrap_or(i64::MAX),
        }
    }

    pub(super) fn of_directory(session_id: SessionId, path: &str, directory: &Directory) -> Self {
        Self {
            session_id,
            path: path.to_owned(),
            meta: directory.meta,
            is_directory: true,
            is_readonly: false,
            size_bytes: 0,
        }
    }

    pub(super) fn of_node(session_id: SessionId, path: &str, node: &Node) -> Self {
        match node {
            Node::File(file) => Self::of_file(session_id, path, file),
            Node::Directory(directory) => Self::of_directory(session_id, path, directory),
        }
    }

    pub(super) fn into_info(self) -> FileInfo {
        FileInfo {
            id: self.meta.id,
            session_id: self.session_id.uuid(),
            name: FileInfo::name_from_path(&self.path),
            path: self.path,
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.size_bytes,
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
        }
    }

    pub(super) fn into_stat(self) -> FileStat {
        FileStat {
            name: FileInfo::name_from_path(&self.path),
            path: self.path,
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.size_bytes,
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
        }
    }

    pub(super) fn into_file(self, file: &File) -> SessionFile {
        self.with_content(Some(file.content.spelled()), file.content.encoding())
    }

    pub(super) fn into_directory(self) -> SessionFile {
        self.with_content(None, Encoding::Text)
    }

    fn with_content(self, content: Option<String>, encoding: Encoding) -> SessionFile {
        SessionFile {
            id: self.meta.id,
            session_id: self.session_id.uuid(),
            name: FileInfo::name_from_path(&self.path),
            path: self.path,
            content,
            encoding: encoding.as_str().to_owned(),
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.size_bytes,
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
        }
    }
}
