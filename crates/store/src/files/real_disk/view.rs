//! The public view of an entry on disk.

use cap_std::fs::Metadata;
use chrono::{DateTime, Utc};
use uuid::{Builder, Uuid};
use windlass_core::error::Result;
use windlass_core::typed_id::SessionId;

use super::disk::DiskRoot;
use super::error;
use crate::files::view::{Meta, View};

pub(super) fn view(
    disk: &DiskRoot,
    session_id: SessionId,
    path: &str,
    metadata: &Metadata,
) -> View {
    let updated_at = metadata.modified().ok().map(|time| time.into_std().into());
    let created_at = metadata.created().ok().map(|time| time.into_std().into());
    let updated_at: DateTime<Utc> = updated_at.or(created_at).unwrap_or(DateTime::UNIX_EPOCH);
    let is_directory = metadata.is_dir();
    View {
        session_id,
        path: path.to_owned(),
        meta: Meta {
            id: id_of(path),
            created_at: created_at.unwrap_or(updated_at),
            updated_at,
        },
        is_directory,
        is_readonly: disk.is_read_only(path, metadata),
        size_bytes: if is_directory { 0 } else { metadata.len() },
    }
}

impl DiskRoot {
    /// Shows the root as writable regardless of its permissions; the operating system enforces them.
    pub(super) fn root_view(&self, session_id: SessionId) -> Result<View> {
        let metadata = self.root.dir_metadata();
        let metadata = metadata.map_err(error::io("look at", "/"))?;
        let mut view = view(self, session_id, "/", &metadata);
        view.is_readonly = false;
        view.meta.id = Uuid::nil();
        Ok(view)
    }
}

/// Disks have no IDs, so the ID is derived from the path and is stable.
fn id_of(path: &str) -> Uuid {
    let hash = blake3::hash(path.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}
