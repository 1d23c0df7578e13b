//! The ancestors of a stream: a fork begins with records of other streams and shows them as its own.
//!
//! A fork refers to the stream that contains its last shared record, which may be a fork itself. So a stream shows parts of other streams, oldest
//! first, and then its own records. Finding them costs one look-up per ancestor.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::StreamInfo;
use crate::journal::{JournalError, StreamKey};
use crate::sqlite::error::Fault;
use crate::sqlite::numbers::{int, uint};

/// Records of one stream that another one shows, or its own.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) stream: u64,
    /// The name of the stream that holds them.
    pub(crate) key: StreamKey,
    /// The number before the first of them.
    pub(crate) after: u64,
    /// The last one; no end where they are the stream's own.
    pub(crate) last: u64,
}

/// The parts of a stream, oldest first. The last one are its own records.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    parts: Vec<Part>,
    /// The session ID under which the fork shows shared records.
    session: Option<SessionId>,
}

impl Lineage {
    /// A stream that shares nothing with another one.
    pub(crate) fn plain(stream: &StreamInfo) -> Self {
        Self::alone(&stream.key, stream.stream)
    }

    pub(crate) fn alone(key: &StreamKey, stream: u64) -> Self {
        Self {
            parts: vec![Part {
                stream,
                key: key.clone(),
                after: 0,
                last: u64::MAX,
            }],
            session: None,
        }
    }

    /// Looks up the parts that a stream shows.
    pub(crate) fn of(connection: &Connection, key: &StreamKey, stream: u64) -> Result<Self, Fault> {
        let mut lineage = Self::alone(key, stream);
        let mut next = stream;
        while let Some(link) = link(connection, next)? {
            let damaged = |what: &str| JournalError::Damaged {
                stream: key.to_string(),
                seq: link.parent_seq,
                what: what.to_owned(),
            };
            let oldest = lineage.parts.len() - 1;
            let oldest = &mut lineage.parts[oldest];
            if link.parent_seq == 0 || link.parent_seq >= oldest.last {
                return Err(damaged("its note of where the fork begins is wrong").into());
            }
            oldest.after = link.parent_seq;
            let name = holder(connection, link.parent)?;
            let part = Part {
                stream: link.parent,
                key: name.ok_or_else(|| damaged("the stream that it is shared with is missing"))?,
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

    /// The parts, oldest first.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The stream's own records.
    pub(crate) fn own(&self) -> &Part {
        &self.parts[self.parts.len() - 1]
    }

    /// Returns the index of the part that contains a record; the oldest part for 0.
    pub(crate) fn place_of(&self, seq: u64) -> usize {
        self.parts.partition_point(|part| part.last < seq)
    }

    pub(crate) fn part_of(&self, seq: u64) -> &Part {
        &self.parts[self.place_of(seq)]
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.parts.len() > 1
    }

    /// Returns the session ID for shared records; `None` if the stream is no fork.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
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

fn link(connection: &Connection, stream: u64) -> Result<Option<Link>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT parent, parent_seq, session FROM forks WHERE stream = ?1")?;
    let link = statement.query_row([int(stream)], |row| {
        Ok(Link {
            parent: uint(row, 0)?,
            parent_seq: uint(row, 1)?,
            session: SessionId::from_uuid(Uuid::from_bytes(row.get(2)?)),
        })
    });
    Ok(link.optional()?)
}

/// Returns the key of a stream, including a removed one that its forks still share.
pub(crate) fn holder(connection: &Connection, stream: u64) -> Result<Option<StreamKey>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT key FROM streams WHERE id = ?1 UNION ALL SELECT key FROM kept WHERE stream = ?1",
    )?;
    let name = statement.query_row([int(stream)], |row| row.get::<_, String>(0));
    Ok(name.optional()?.map(StreamKey::new))
}

/// Returns up to where records of a stream are shared with forks; 0 where none are.
pub(crate) fn shared_upto(connection: &Connection, stream: u64) -> Result<u64, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT coalesce(max(parent_seq), 0) FROM forks WHERE parent = ?1")?;
    Ok(statement.query_row([int(stream)], |row| uint(row, 0))?)
}

/// Lists the removed streams that forks still share, and returns the error that ended the listing early, if any.
pub(crate) fn kept(connection: &Connection) -> (Vec<StreamInfo>, Option<Fault>) {
    let mut streams = Vec::new();
    let mut name_all = || -> Result<(), Fault> {
        let mut statement =
            connection.prepare_cached("SELECT key, stream FROM kept ORDER BY stream")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            streams.push(StreamInfo {
                key: StreamKey::new(row.get::<_, String>(0)?),
                stream: uint(row, 1)?,
                head: 0,
                open_from: None,
            });
        }
        Ok(())
    };
    let trouble = name_all().err();
    (streams, trouble)
}

/// Returns whether a stream was removed but is retained for its forks.
pub(crate) fn is_kept(connection: &Connection, stream: u64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM kept WHERE stream = ?1")?;
    Ok(statement.exists([int(stream)])?)
}
