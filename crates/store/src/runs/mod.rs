//! Where runs are kept: each is a stream of the journal with records of its own kind, and one row that lists find.
//!
//! An append carries the epoch of the right to write and the number it expects, like one to a session: whoever was
//! replaced, or did not see the end of the run, is refused.

mod memory;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStarted, RunStatus, RunSummary};

use crate::journal::{JournalError, StreamKey};
use crate::queries::{RunRow, TurnRow};

pub use memory::MemoryRunLog;

/// What the names of the streams of runs begin with. Those of sessions begin otherwise.
pub(crate) const PREFIX: &str = "run:";

/// Returns the stream of a run.
#[must_use]
pub fn run_stream(run_id: &str) -> StreamKey {
    StreamKey::new(format!("{PREFIX}{run_id}"))
}

/// Tells whether a stream holds records of a run.
#[must_use]
pub fn is_run_stream(stream: &StreamKey) -> bool {
    stream.as_str().starts_with(PREFIX)
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptRun {
    /// Its place among all runs: a later one has a greater place.
    pub position: u64,
    /// What a list shows of it.
    pub summary: RunSummary,
    /// The connection that has, or had last, the right to write to it.
    pub client: String,
    /// Raised whenever that right changes hands.
    pub epoch: u64,
    /// The stream of its records, where the store has such.
    pub(crate) stream: u64,
}

impl KeptRun {
    /// Returns the number of its newest record.
    #[must_use]
    pub fn head(&self) -> u64 {
        let ended = u64::from(self.summary.status != RunStatus::InProgress);
        1 + self.summary.turn_count + ended
    }
}

/// What came of a start.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// The run is recorded.
    New(KeptRun),
    /// A run of that id was there already; nothing was written.
    Existing(KeptRun),
}

/// Where a run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// It is reported from outside.
    Reported,
    /// It is a turn of one of our own sessions.
    Turn,
}

/// Which runs a list shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Those of an agent.
    pub agent_id: Option<String>,
    /// Those that are there.
    pub status: Option<RunStatus>,
    /// Those with a smaller place.
    pub before: Option<u64>,
    /// Those of one kind.
    pub kind: Option<RunKind>,
}

impl RunFilter {
    /// Tells whether a list shows a run.
    pub(crate) fn wants(&self, position: u64, agent_id: &str, status: RunStatus) -> bool {
        self.before.is_none_or(|before| position < before)
            && self.status.is_none_or(|wanted| status == wanted)
            && (self.agent_id.as_deref()).is_none_or(|wanted| agent_id == wanted)
    }

    /// Tells whether a list shows a turn as a run.
    pub(crate) fn wants_turn(&self, turn: &TurnRow) -> bool {
        !turn.is_pruned && self.wants(turn.place, turn.run_agent(), turn.run_status)
    }

    pub(crate) fn statuses(&self) -> Vec<RunStatus> {
        match self.status {
            Some(status) => vec![status],
            None => RunStatus::ALL.to_vec(),
        }
    }
}

/// A part of a run's records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunPage {
    /// The records, in order.
    pub records: Vec<RunRecord>,
    /// The number of the newest record; 0 when there is no such run.
    pub head: u64,
}

/// Where runs are kept.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Records the start of a run, unless its id is taken. Of several at a time one succeeds.
    async fn begin(&self, started: RunStarted, client: &str) -> Result<Begun, JournalError>;

    /// Makes further records durable, all or none. The first one's number must follow the newest record, and `run`
    /// must have the newest epoch. Returns the run as it is then.
    async fn append(&self, run: &KeptRun, records: Vec<RunRecord>)
    -> Result<KeptRun, JournalError>;

    /// Gives the right to write to another connection, if `run` is open and still as it is here.
    async fn take_over(&self, run: &KeptRun, client: &str) -> Result<KeptRun, JournalError>;

    /// Lists runs, the newest first; costs what it returns. [`Queries`](crate::queries::Queries) lists them with others.
    async fn list(&self, filter: RunFilter, limit: usize) -> Result<Vec<KeptRun>, JournalError>;

    /// Finds a run.
    async fn get(&self, run_id: &str) -> Result<Option<KeptRun>, JournalError>;

    /// Returns the records after a number: at most `limit`, and no more once they have `max_bytes`.
    async fn read(
        &self,
        run_id: &str,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<RunPage, JournalError>;

    /// Returns a doorbell that shows the number of the newest record.
    async fn watch(&self, run_id: &str) -> Result<watch::Receiver<u64>, JournalError>;

    /// Removes runs that ended before a time, at most `limit`, the oldest first; returns how many.
    async fn forget(
        &self,
        ended_before: DateTime<Utc>,
        limit: usize,
    ) -> Result<usize, JournalError>;
}

/// Puts together pages that were found one by one: the newest first, as many as are wanted.
pub(crate) fn newest_of(mut found: Vec<RunRow>, limit: usize) -> Vec<RunRow> {
    found.sort_unstable_by_key(|run| std::cmp::Reverse(run.position()));
    found.truncate(limit);
    found
}
