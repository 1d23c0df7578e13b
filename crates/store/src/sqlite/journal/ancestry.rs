//! The ancestors of a stream: a fork begins with records of other streams and shows them as its own.
//!
//! A fork refers to the stream that contains its last shared record, which may be a fork itself. So a stream shows parts of other streams, oldest
//! first, and then its own records. Finding them costs one look-up per ancestor.

use std::sync::Arc;

use rusqlite::Connection;
use uuid::Uuid;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::streams::{StreamInfo, list_names};
use crate::journal::{JournalError, StreamKey};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::numbers::{first_number, first_value, int, uint};

/// Consecutive records of one stream that a stream shows: those of an ancestor, or its own.
#[derive(Debug, Clone)]
pub(crate) struct LineagePart {
    pub(crate) stream: u64,
    /// The name of the stream that contains them.
    pub(crate) key: StreamKey,
    /// The number before the first record.
    pub(crate) after: u64,
    /// The last record; `u64::MAX` for the stream's own.
    pub(crate) last: u64,
}

/// The parts of a stream, oldest first. The last one contains its own records.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    pub(crate) parts: Vec<LineagePart>,
    /// The session ID under which the fork shows shared records.
    pub(crate) session: Option<SessionId>,
}

impl Lineage {
    /// The lineage of a stream that is no fork.
    pub(crate) fn alone(key: &StreamKey, stream: u64) -> Self {
        Self {
            parts: vec![LineagePart {
                stream,
                key: key.clone(),
                after: 0,
                last: u64::MAX,
            }],
            session: None,
        }
    }

    /// Looks up the parts of a stream.
    pub(crate) fn load(db: &Connection, key: &StreamKey, stream: u64) -> DbResult<Self> {
        let mut lineage = Self::alone(key, stream);
        let mut next = stream;
        while let Some(link) = link(db, next)? {
            let damaged = |what: &str| JournalError::damaged(key, link.parent_seq, what);
            let oldest = lineage.parts.len() - 1;
            let oldest = &mut lineage.parts[oldest];
            if link.parent_seq == 0 || link.parent_seq >= oldest.last {
                return Err(damaged("the position of its fork is wrong").into());
            }
            oldest.after = link.parent_seq;
            let name = holder(db, link.parent)?;
            let part = LineagePart {
                stream: link.parent,
                key: name.ok_or_else(|| damaged("the parent of the fork is missing"))?,
                after: 0,
                last: link.parent_seq,
            };
            lineage.session.get_or_insert(link.session);
            lineage.parts.push(part);
            next = link.parent;
        }
        lineage.parts.reverse();
        Ok(lineage)
    }

    /// The stream's own records.
    pub(crate) fn own(&self) -> &LineagePart {
        &self.parts[self.parts.len() - 1]
    }

    /// Returns the index of the part that contains a record; the oldest part for 0.
    pub(crate) fn index_of(&self, seq: u64) -> usize {
        self.parts.partition_point(|part| part.last < seq)
    }

    pub(crate) fn part_of(&self, seq: u64) -> &LineagePart {
        &self.parts[self.index_of(seq)]
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.parts.len() > 1
    }

    /// Shows an event as the stream's own.
    pub(crate) fn show(&self, mut event: Arc<Event>) -> Arc<Event> {
        if let Some(session_id) = self.session
            && event.seq() <= self.own().after
            && event.session_id != session_id
        {
            Arc::make_mut(&mut event).session_id = session_id;
        }
        event
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
