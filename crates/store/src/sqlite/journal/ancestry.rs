//! The parents of a fork in a database: each stream refers to its parent, so finding them costs one look-up per ancestor.

use rusqlite::Connection;
use uuid::Uuid;
use windlass_core::typed_id::SessionId;

use super::streams::{StreamInfo, list_names};
pub(crate) use crate::durable::lineage::{Lineage, LineagePart};
use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::numbers::{first_number, first_value, int, uint};

impl Lineage {
    /// Looks up the parts of a stream.
    pub(crate) fn load(db: &Connection, key: &StreamKey, stream: u64) -> DbResult<Self> {
        let mut lineage = Self::alone(key, stream);
        let mut next = stream;
        while let Some(link) = link(db, next)? {
            let name = holder(db, link.parent)?;
            lineage.add_parent((link.parent, name), link.parent_seq, link.session)?;
            next = link.parent;
        }
        Ok(lineage)
    }
}

struct Link {
    parent: u64,
    parent_seq: u64,
    session: SessionId,
}

fn link(db: &Connection, stream: u64) -> DbResult<Option<Link>> {
    Ok(db.find_row(
        "SELECT parent, parent_seq, session FROM forks WHERE stream = ?1",
        [int(stream)],
        |row| {
            Ok(Link {
                parent: uint(row, 0)?,
                parent_seq: uint(row, 1)?,
                session: SessionId::from_uuid(Uuid::from_bytes(row.get(2)?)),
            })
        },
    )?)
}

/// Returns the key of a stream, including a removed one that its forks still share.
pub(crate) fn holder(db: &Connection, stream: u64) -> DbResult<Option<StreamKey>> {
    let sql = "SELECT key FROM streams WHERE id = ?1 \
        UNION ALL SELECT key FROM kept WHERE stream = ?1";
    let key = db.find_row(sql, [int(stream)], first_value::<String>)?;
    Ok(key.map(StreamKey::new))
}

/// Returns the last record of a stream that forks share; 0 if none is shared.
pub(crate) fn shared_upto(db: &Connection, stream: u64) -> DbResult<u64> {
    Ok(db.get_row(
        "SELECT coalesce(max(parent_seq), 0) FROM forks WHERE parent = ?1",
        [int(stream)],
        first_number,
    )?)
}

/// Lists the removed streams that forks still share, and returns the error that ended the listing early, if any.
pub(crate) fn retained_streams(db: &Connection) -> (Vec<StreamInfo>, Option<DbError>) {
    list_names(db, "SELECT key, stream, 0, 0 FROM kept ORDER BY stream")
}

/// Returns whether a stream was removed but is retained for its forks.
pub(crate) fn is_retained(db: &Connection, stream: u64) -> DbResult<bool> {
    Ok(db.has_rows("SELECT 1 FROM kept WHERE stream = ?1", [int(stream)])?)
}
