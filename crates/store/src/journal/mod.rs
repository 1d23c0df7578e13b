//! Where events are kept: streams with one writer each, numbered 1, 2, 3 …

pub(crate) mod fork;
mod memory;
mod memory_runs;
pub(crate) mod open_turns;
mod search;
mod thread_fold;
mod threads;
pub(crate) mod turn_runs;

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::runs::RunFilter;

pub use memory::{EventSink, MemoryJournal, Retention};
pub use threads::{Listed, ThreadCursor, ThreadEntry, ThreadFilter, Window};
pub use turn_runs::TurnRun;

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
pub struct Standing {
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
    /// The journal cannot write or read now.
    #[error("the journal is unavailable: {0}")]
    Unavailable(String),
}

/// Where events are kept.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Takes the right to append; whoever had it is fenced off. Makes the stream if it is not there.
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError>;

    /// Makes records durable, all or none.
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError>;

    /// Returns the events after a cursor, at most `limit`; costs what it returns.
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError>;

    /// Returns all events of all streams in the order in which they were appended.
    async fn read_all(&self) -> Result<Vec<Arc<Event>>, JournalError>;

    /// Returns a doorbell that shows the number of the newest record; it closes when the stream is removed.
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError>;

    /// Tells whether events are kept outside of memory, so that a runtime may forget a session that rests.
    fn is_on_disk(&self) -> bool {
        false
    }

    /// Returns the streams with a turn that has not ended, or an input that waits for its turn.
    async fn unfinished(&self) -> Result<Vec<StreamKey>, JournalError>;

    /// Lists the threads, the one with the newest activity first. A stream without a record is none.
    ///
    /// A journal that does not look them up reads everything.
    async fn threads(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<ThreadEntry, ThreadCursor>, JournalError> {
        Ok(threads_of_all(&self.read_all().await?, filter, &window))
    }

    /// Returns the thread of one stream; `None` without a record.
    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadEntry>, JournalError> {
        let page = self.read(stream, 0, usize::MAX).await?;
        let mut fold = thread_fold::ThreadFold::default();
        page.events.iter().for_each(|event| fold.apply(event));
        Ok(fold.entry(stream, 0))
    }

    /// Returns the number of the newest record of each stream that has one, in any order.
    async fn heads(&self) -> Result<Vec<(StreamKey, u64)>, JournalError> {
        let threads = self.threads(ThreadFilter::All, Window::first(usize::MAX));
        let threads = threads.await?.entries.into_iter();
        Ok(threads.map(|thread| (thread.stream, thread.head)).collect())
    }

    /// Lists turns as runs, the one that began last first. What a stream has from another one by a fork is that one's.
    ///
    /// A journal that does not look them up shows none.
    async fn turn_runs(
        &self,
        _filter: RunFilter,
        _limit: usize,
    ) -> Result<Vec<TurnRun>, JournalError> {
        Ok(Vec::new())
    }

    /// Finds the run of a turn.
    async fn turn_run(&self, _turn_id: TurnId) -> Result<Option<TurnRun>, JournalError> {
        Ok(None)
    }

    /// Removes a stream; tells whether it was there. Its records go with it, except those that a fork of it shares: they go with
    /// the last such fork.
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError>;

    /// Returns where a stream stands: its newest record, and what has not ended. A journal that does not look it up reads
    /// everything.
    async fn standing(&self, stream: &StreamKey) -> Result<Standing, JournalError> {
        let mut waiting = fork::Waiting::default();
        let head = search::scan(self, stream, |event| {
            waiting.follow(&event.data);
            ControlFlow::Continue(())
        });
        Ok(Standing {
            head: head.await?,
            open: waiting.turns(),
        })
    }

    /// Returns the number of the record that ended a turn; `None` while it is open, and of one that never began. A
    /// journal that does not look it up reads everything up to there.
    async fn turn_end(
        &self,
        stream: &StreamKey,
        turn: TurnId,
    ) -> Result<Option<u64>, JournalError> {
        let mut search = search::TurnSearch::new(turn);
        search::scan(self, stream, |event| search.look(event)).await?;
        Ok(search.end())
    }

    /// Makes a new stream that begins with the records of another one up to a number between two turns, and then has
    /// `forked`, whose session it is about; all or nothing. Returns the number of its newest record.
    ///
    /// What it begins with names its own session and has the numbers of the other stream. Inputs that wait there for their
    /// turns are cancelled in it. Removing the other stream takes nothing from it, and retention leaves alone what
    /// the two share. A journal that cannot share copies; then a gap becomes one note, and the numbers behind it are others.
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        fork::copy(self, parent, at_seq, child, forked).await
    }
}

/// Folds all events of a journal into a list of threads, each of which is that of a session.
fn threads_of_all(
    events: &[Arc<Event>],
    filter: ThreadFilter,
    window: &Window<ThreadCursor>,
) -> Listed<ThreadEntry, ThreadCursor> {
    let mut folds: Vec<(SessionId, thread_fold::ThreadFold)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for event in events {
        let place = *places.entry(event.session_id).or_insert(folds.len());
        if place == folds.len() {
            folds.push((event.session_id, thread_fold::ThreadFold::default()));
        }
        folds[place].1.apply(event);
    }
    let numbered = folds.iter().zip(1..);
    let entries = numbered.filter_map(|((id, fold), number)| fold.entry(&(*id).into(), number));
    Listed::of_threads(entries.collect(), filter, window)
}
