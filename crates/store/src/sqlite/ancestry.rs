//! Where the records of a stream lie: a fork begins with records of other streams, and shows them as its own.
//!
//! A fork names the stream that holds the last record it begins with, and that one may be a fork itself. So what a stream shows are
//! parts of other streams, oldest first, and its own records. To find them costs a look-up for each ancestor.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use super::error::Fault;
use super::journal::StreamInfo;
use super::numbers::{int, uint};
use crate::journal::{JournalError, StreamKey};

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
    /// Whose the shared records are here.
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

    /// Looks up what a stream shows.
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

    /// Returns the place of the part with a record; that of the oldest part for 0.
    pub(crate) fn place_of(&self, seq: u64) -> usize {
        self.parts.partition_point(|part| part.last < seq)
    }

    pub(crate) fn part_of(&self, seq: u64) -> &Part {
        &self.parts[self.place_of(seq)]
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.parts.len() > 1
    }

    /// Returns whose the shared records are here; `None` of a stream that is no fork.
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

/// Returns the name of a stream, also of one that was removed and is kept for its forks.
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

/// Lists the streams that were removed and are kept for their forks, and says what kept it from going on.
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

/// Tells whether a stream was removed and is kept for its forks.
pub(crate) fn is_kept(connection: &Connection, stream: u64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM kept WHERE stream = ?1")?;
    Ok(statement.exists([int(stream)])?)
}
