//! The public view of an entry.

use chrono::{DateTime, Utc};
use uuid::Uuid;
use windlass_core::session_file::{FileInfo, FileStat, SessionFile};
use windlass_core::typed_id::SessionId;

use super::content::Content;

/// Metadata that files and directories share.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) id: Uuid,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// The part that listing, looking and reading share.
pub(crate) struct View {
    pub(crate) session_id: SessionId,
    pub(crate) path: String,
    pub(crate) meta: Meta,
    pub(crate) is_directory: bool,
    pub(crate) is_readonly: bool,
    pub(crate) size_bytes: u64,
}

impl View {
    fn signed_size(&self) -> i64 {
        i64::try_from(self.size_bytes).unwrap_or(i64::MAX)
    }

    pub(crate) fn into_info(self) -> FileInfo {
        FileInfo {
            id: self.meta.id,
            session_id: self.session_id.uuid(),
            name: FileInfo::name_from_path(&self.path),
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.signed_size(),
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
            path: self.path,
        }
    }

    pub(crate) fn into_stat(self) -> FileStat {
        FileStat {
            name: FileInfo::name_from_path(&self.path),
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.signed_size(),
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
            path: self.path,
        }
    }

    /// Adds the content; a directory has none.
    pub(crate) fn into_file(self, content: Option<&Content>) -> SessionFile {
        SessionFile {
            id: self.meta.id,
            session_id: self.session_id.uuid(),
            name: FileInfo::name_from_path(&self.path),
            content: content.map(Content::encoded),
            encoding: content
                .map_or("text", |content| content.encoding().as_str())
                .to_owned(),
            is_directory: self.is_directory,
            is_readonly: self.is_readonly,
            size_bytes: self.signed_size(),
            created_at: self.meta.created_at,
            updated_at: self.meta.updated_at,
            path: self.path,
        }
    }
}
