//! The journal: streams of events with one writer each, numbered 1, 2, 3 …

mod feed;
pub mod fork;
pub(crate) mod memory;
pub mod open_turns;

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::cursor::CursorError;
use crate::host_records::RowWrite;
use crate::ledger::Settlement;

pub use feed::{FeedEntry, FeedPage, all_events};
pub use memory::{EventSink, MemoryJournal, Retention};

/// The name of a stream. It is text, because externally reported runs have their own IDs.
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

/// The right to append to a stream, until another writer claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The stream's number inside of this journal.
    pub stream: u64,
    /// Increased by each claim; an older one is refused.
    pub epoch: u64,
    /// The number of the newest record at the time of the claim.
    pub head: u64,
}

impl Claim {
    /// Checks that a claim is the newest one of its stream, and that records follow its head.
    pub fn check_append(
        &self,
        (epoch, head): (u64, u64),
        first_seq: u64,
        numbers: impl Iterator<Item = Option<u64>>,
    ) -> Result<(), JournalError> {
        let stream = self.stream;
        if epoch != self.epoch {
            return Err(JournalError::Fenced {
                stream,
                current: epoch,
                claimed: self.epoch,
            });
        }
        let mut numbers = (first_seq..).zip(numbers);
        let wrong = if first_seq == head + 1 {
            numbers.find(|(expected, seq)| *seq != Some(*expected))
        } else {
            Some((first_seq, Some(first_seq)))
        };
        match wrong {
            None => Ok(()),
            Some((_, seq)) => Err(JournalError::OutOfSequence {
                stream,
                head,
                first_seq: seq.unwrap_or_default(),
            }),
        }
    }
}

/// Records that become durable together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The number of the first record; it must follow the newest one.
    pub first_seq: u64,
    /// The records, numbered on from there.
    pub records: Vec<Arc<Event>>,
    /// Rows of the host: durable with the records, or not at all.
    pub puts: Vec<RowWrite>,
    /// The spending of the steps that end with these records: charged with them, or not at all.
    pub settlements: Vec<Settlement>,
}

/// A part of a stream.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Ranges after the cursor that were pruned, in order: the gaps before and between the events.
    pub pruned: Vec<RangeInclusive<u64>>,
    /// The events, in order.
    pub events: Vec<Arc<Event>>,
    /// The number of the newest record of the stream.
    pub head: u64,
}

/// The newest record of a stream and its open turns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamStatus {
    /// The number of its newest record.
    pub head: u64,
    /// The running or parked turn, and then the turns of waiting inputs.
    pub open: Vec<TurnId>,
}

/// The result of checking the records of a stream against the digests that were written with them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChainCheck {
    /// The number of the newest record that could be read.
    pub head: u64,
    /// The chain at that record, as hex.
    pub chain: String,
    /// Number of pruned records, of which only the digests were checked.
    pub pruned: u64,
    /// All problems, with the record that each is about; empty for a valid stream.
    pub findings: Vec<(Option<u64>, String)>,
}

/// Errors of a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another writer has claimed the stream.
    #[error("stream {stream} was claimed by another writer (epoch {current}, not {claimed})")]
    Fenced {
        /// The stream's number.
        stream: u64,
        /// The epoch of the newest claim.
        current: u64,
        /// The epoch of the refused claim.
        claimed: u64,
    },
    /// The batch does not follow the newest record.
    #[error("stream {stream} is at {head}, so a batch cannot begin at {first_seq}")]
    OutOfSequence {
        /// The stream's number.
        stream: u64,
        /// The newest record.
        head: u64,
        /// The first number of the batch, or the first one that is not consecutive.
        first_seq: u64,
    },
    /// The stream was removed.
    #[error("stream {0} was removed")]
    Removed(u64),
    /// A newer version has written a record of the stream.
    #[error(
        "record {seq} of stream {stream} has version {version}, which this program does not know; open it with a newer \
         Windlass, the stream is unchanged"
    )]
    UnknownVersion {
        /// The stream's name.
        stream: String,
        /// The number of the record.
        seq: u64,
        /// The version of the record's format.
        version: u32,
    },
    /// A record of the stream is damaged.
    #[error(
        "record {seq} of stream {stream} is damaged: {what}; the stream is unchanged, restore it from a backup or \
         remove it; `windlass store verify` lists all damage"
    )]
    Damaged {
        /// The stream's name.
        stream: String,
        /// The number of the record.
        seq: u64,
        /// Description of the damage.
        what: String,
    },
    /// A new stream cannot begin with that part of another one.
    #[error("stream {stream} cannot be forked at record {seq}: {reason}")]
    NotForkable {
        /// The stream's name.
        stream: String,
        /// The requested last shared record.
        seq: u64,
        /// Why a fork there is impossible.
        reason: &'static str,
    },
    /// The cursor of the feed is invalid.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The journal cannot write or read now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

impl JournalError {
    /// Reports damage of a record.
    pub fn damaged(stream: &StreamKey, seq: u64, what: impl Into<String>) -> Self {
        Self::Damaged {
            stream: stream.to_string(),
            seq,
            what: what.into(),
        }
    }
}

/// The log of events, without summaries; lists query [`Queries`](crate::queries::Queries).
#[async_trait]
pub trait Journal: Send + Sync {
    /// Claims the right to append and fences the previous writer off. Creates the stream if it does not exist.
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError>;

    /// Makes records and the host's rows durable, all or none.
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError>;

    /// Returns the events after a number, at most `limit`. The cost depends only on the result.
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError>;

    /// Like [`read`](Self::read), and stops after the event with which the stored bytes reach `max_bytes`; it returns at
    /// least one event where there is one. A journal with shared events in memory need not count bytes.
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

    /// Returns records of all streams after a cursor, or from the beginning of the feed, at most `limit`. Each record is delivered once, in the
    /// stream that it was appended to, and the records of a stream are in order. Shared records of a fork are delivered only with its parent. Records
    /// that were removed or pruned before they were read are skipped.
    ///
    /// The cursor is opaque. It is valid across restarts, and no record is missed if commits overtake each other.
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError>;

    /// Returns a receiver that changes when records were appended to any stream by this process. To follow the writes of
    /// another process, read again from time to time.
    fn watch_all(&self) -> watch::Receiver<u64>;

    /// Returns a receiver of the number of the newest record; it closes when the stream is removed.
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError>;

    /// Returns whether events are stored outside of memory, so that a runtime may drop an idle session.
    fn is_on_disk(&self) -> bool {
        false
    }

    /// Returns streams with an open turn or a waiting input: by name, after a given one, at most `limit`. Reads no other streams.
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError>;

    /// Removes a stream; returns whether it existed. Its records are removed with it, except those that a fork shares: these are removed with the
    /// last such fork.
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError>;

    /// Returns the number of the newest record of a stream, and its open turns.
    async fn status(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError>;

    /// Checks the records of a stream against their digests, and the rows derived from them; `None` if the journal stores no digests. Reads the
    /// whole stream.
    async fn verify(&self, stream: &StreamKey) -> Result<Option<ChainCheck>, JournalError> {
        let _ = stream;
        Ok(None)
    }

    /// Creates a stream that begins with the records of another one up to a number between two turns, followed by `forked`, which sets its session
    /// ID; all or nothing. Returns the number of its newest record.
    ///
    /// Shared records are shown with the new session ID and their original numbers. Inputs that wait at that record are cancelled in the fork.
    /// Removing the parent does not affect the fork, and retention skips shared records.
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError>;
}
