//! The public view of a node.

use windlass_core::typed_id::SessionId;

use super::tree::{Directory, File, Node, TreeEntry};
use crate::files::view::View;

impl File {
    pub(super) fn view(&self, session_id: SessionId, path: &str) -> View {
        View {
            session_id,
            path: path.to_owned(),
            meta: self.meta,
            is_directory: false,
            is_readonly: self.is_readonly,
            size_bytes: self.content.len(),
        }
    }
}

impl Directory {
    pub(super) fn view(&self, session_id: SessionId, path: &str) -> View {
        View {
            session_id,
            path: path.to_owned(),
            meta: self.meta,
            is_directory: true,
            is_readonly: false,
            size_bytes: 0,
        }
    }
}

impl Node {
    pub(super) fn view(&self, session_id: SessionId, path: &str) -> View {
        match self {
            Self::File(file) => file.view(session_id, path),
            Self::Directory(directory) => directory.view(session_id, path),
        }
    }
}

impl TreeEntry<'_> {
    /// Returns the existing entry.
    pub(super) fn view(&self, session_id: SessionId, path: &str) -> Option<View> {
        match self {
            Self::File(file) => Some(file.view(session_id, path)),
            Self::Directory(directory) => Some(directory.view(session_id, path)),
            Self::Missing { .. } | Self::BelowFile { .. } => None,
        }
    }
}
