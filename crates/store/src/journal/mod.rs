//! Where events are kept: streams with one writer each, numbered 1, 2, 3 …

mod feed;
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod open_turns;

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::cursor::CursorError;
use crate::host_records::Put;
use crate::ledger::Settlement;

pub use feed::{FeedEntry, FeedPage, all_events};
pub use memory::{EventSink, MemoryJournal, Retention};

/// Names a stream. It is text, because runs from outside bring their own ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(Arc<str>);

impl StreamKey {
    /// Wraps a name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SessionId> for StreamKey {
    fn from(session_id: SessionId) -> Self {
        Self(session_id.to_string().into())
    }
}

impl std::fmt::Display for StreamKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The right to append to a stream, until somebody else claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The stream's number inside of this journal.
    pub stream: u64,
    /// Raised by every claim; an older one is refused.
    pub epoch: u64,
    /// The number of the newest record when the claim was made.
    pub head: u64,
}

/// Records that become durable together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The number of the first record; it must follow the newest one.
    pub first_seq: u64,
    /// The records, numbered on from there.
    pub records: Vec<Arc<Event>>,
    /// What the host keeps of them: it becomes durable with the records, or not at all.
    pub puts: Vec<Put>,
    /// What the steps that end with them have spent: charged with the records, or not at all.
    pub settlements: Vec<Settlement>,
}

/// A part of a stream.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Records after the cursor that are no longer kept, in order: the gaps before and between the events.
    pub pruned: Vec<RangeInclusive<u64>>,
    /// The events, in order.
    pub events: Vec<Arc<Event>>,
    /// The number of the newest record of the stream.
    pub head: u64,
}

/// Where a stream stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamStatus {
    /// The number of its newest record.
    pub head: u64,
    /// The turn that runs or is parked, and then the turns whose inputs wait.
    pub open: Vec<TurnId>,
}

/// Why a journal did not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another writer has claimed the stream.
    #[error("stream {stream} was claimed by another writer (epoch {current}, not {claimed})")]
    Fenced {
        /// The stream's number.
        stream: u64,
        /// The epoch of the newest claim.
        current: u64,
        /// The epoch of the refused one.
        claimed: u64,
    },
    /// The batch does not follow the newest record.
    #[error("stream {stream} is at {head}, so a batch cannot begin at {first_seq}")]
    OutOfSequence {
        /// The stream's number.
        stream: u64,
        /// The newest record.
        head: u64,
        /// Where the batch begins, or where its numbers break.
        first_seq: u64,
    },
    /// The stream was removed.
    #[error("stream {0} was removed")]
    Removed(u64),
    /// A newer version has written a record of the stream.
    #[error(
        "record {seq} of stream {stream} has version {version}, which this program does not know; open it with a newer \
         Windlass, the stream was left as it is"
    )]
    UnknownVersion {
        /// The stream's name.
        stream: String,
        /// The record.
        seq: u64,
        /// Its version.
        version: u32,
    },
    /// A record of the stream is damaged.
    #[error(
        "record {seq} of stream {stream} is damaged: {what}; the stream was left as it is, put it back from a backup or \
         remove it; `windlass store verify` names all that is damaged"
    )]
    Damaged {
        /// The stream's name.
        stream: String,
        /// The record.
        seq: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A new stream cannot begin with that part of another one.
    #[error("stream {stream} cannot be forked at record {seq}: {reason}")]
    NotForkable {
        /// The stream's name.
        stream: String,
        /// The last record that was to be taken over.
        seq: u64,
        /// What is in the way.
        reason: &'static str,
    },
    /// The cursor of the feed is not taken.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The journal cannot write or read now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

/// Where events are kept: the log alone. What lists show of it is asked of [`Queries`](crate::queries::Queries).
#[async_trait]
pub trait Journal: Send + Sync {
    /// Takes the right to append; whoever had it is fenced off. Makes the stream if it is not there.
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError>;

    /// Makes records and what the host keeps of them durable, all or none.
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError>;

    /// Returns the events after a cursor, at most `limit`; costs what it returns.
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError>;

    /// Like [`read`](Self::read), and stops after the event with which the stored bytes reach `max_bytes`; it returns at
    /// least one event where there is one. A journal that holds its events in memory and shares them need not count.
    async fn read_within(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Page, JournalError> {
        let _ = max_bytes;
        self.read(stream, after, limit).await
    }

    /// Returns records of all streams behind a place in the feed, from its beginning without one, at most `limit`. Each record comes
    /// once, with the stream that it was appended to, and those of a stream in its order; what a fork shares came with its
    /// parent. What was removed or pruned before it was read does not come.
    ///
    /// The cursor is opaque. It outlives restarts, and misses nothing where commits overtake each other.
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError>;

    /// Returns a doorbell that rings when records were appended to any stream. It hears this process alone: who follows
    /// what another one writes asks again from time to time.
    fn watch_all(&self) -> watch::Receiver<u64>;

    /// Returns a doorbell that shows the number of the newest record; it closes when the stream is removed.
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError>;

    /// Tells whether events are kept outside of memory, so that a runtime may forget a session that rests.
    fn is_on_disk(&self) -> bool {
        false
    }

    /// Returns streams with a turn that has not ended, or an input that waits for its turn: by name, behind one, at most `limit`. It
    /// looks at no others.
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError>;

    /// Removes a stream; tells whether it was there. Its records go with it, except those that a fork of it shares: they go with
    /// the last such fork.
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError>;

    /// Returns where a stream stands: its newest record, and what has not ended.
    async fn standing(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError>;

    /// Makes a new stream that begins with the records of another one up to a number between two turns, and then has
    /// `forked`, whose session it is about; all or nothing. Returns the number of its newest record.
    ///
    /// What it begins with names its own session and has the numbers of the other stream. Inputs that wait there for their
    /// turns are cancelled in it. Removing the other stream takes nothing from it, and retention leaves alone what
    /// the two share.
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError>;
}
