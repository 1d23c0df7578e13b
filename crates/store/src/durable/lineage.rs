//! The ancestors of a stream: a fork begins with records of other streams and shows them as its own.
//!
//! A fork refers to the stream that contains its last shared record, which may be a fork itself. So a stream shows parts of other streams, oldest
//! first, and then its own records.

use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;

use crate::journal::{JournalError, StreamKey};

/// Consecutive records of one stream that a stream shows: those of an ancestor, or its own.
#[derive(Debug, Clone)]
pub struct LineagePart {
    pub stream: u64,
    /// The name of the stream that contains them.
    pub key: StreamKey,
    /// The number before the first record.
    pub after: u64,
    /// The last record; `u64::MAX` for the stream's own.
    pub last: u64,
}

/// The parts of a stream, oldest first. The last one contains its own records.
#[derive(Debug, Clone)]
pub struct Lineage {
    pub parts: Vec<LineagePart>,
    /// The session ID under which the fork shows shared records.
    pub session: Option<SessionId>,
}

impl Lineage {
    /// The lineage of a stream that is no fork.
    pub fn alone(key: &StreamKey, stream: u64) -> Self {
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

    /// Puts the part of a parent in front of the others: its records up to `last`. The parent is given by its number, and by its name unless it is missing.
    pub fn add_parent(
        &mut self,
        (stream, name): (u64, Option<StreamKey>),
        last: u64,
        session: SessionId,
    ) -> Result<(), JournalError> {
        let damaged = |what: &str| JournalError::damaged(&self.own().key, last, what);
        if last == 0 || last >= self.parts[0].last {
            return Err(damaged("the position of its fork is wrong"));
        }
        let part = LineagePart {
            stream,
            key: name.ok_or_else(|| damaged("the parent of the fork is missing"))?,
            after: 0,
            last,
        };
        self.parts[0].after = last;
        self.parts.insert(0, part);
        self.session.get_or_insert(session);
        Ok(())
    }

    /// The stream's own records.
    pub fn own(&self) -> &LineagePart {
        &self.parts[self.parts.len() - 1]
    }

    /// Returns the index of the part that contains a record; the oldest part for 0.
    pub fn index_of(&self, seq: u64) -> usize {
        self.parts.partition_point(|part| part.last < seq)
    }

    pub fn part_of(&self, seq: u64) -> &LineagePart {
        &self.parts[self.index_of(seq)]
    }

    pub fn is_fork(&self) -> bool {
        self.parts.len() > 1
    }

    /// Shows an event as the stream's own.
    pub fn show(&self, mut event: Arc<Event>) -> Arc<Event> {
        if let Some(session_id) = self.session
            && event.seq() <= self.own().after
            && event.session_id != session_id
        {
            Arc::make_mut(&mut event).session_id = session_id;
        }
        event
    }
}
