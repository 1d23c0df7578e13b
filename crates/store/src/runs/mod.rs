//! The run log: each run is a stream of the journal with its own kind of records, and one row for lists.
//!
//! An append contains the epoch of the claim and the expected number, as for a session. A writer that was replaced, or did not see the end of the
//! run, is rejected.

mod memory;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStarted, RunStatus, RunSummary};

use crate::journal::{JournalError, StreamKey};
use crate::queries::{RunRow, TurnRow};

pub use memory::MemoryRunLog;

/// Prefix of the stream names of runs; sessions have others.
pub(crate) const PREFIX: &str = "run:";

/// Returns the stream of a run.
#[must_use]
pub fn run_stream(run_id: &str) -> StreamKey {
    StreamKey::new(format!("{PREFIX}{run_id}"))
}

/// Returns whether a stream contains records of a run.
#[must_use]
pub fn is_run_stream(stream: &StreamKey) -> bool {
    stream.as_str().starts_with(PREFIX)
}

/// A run as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its position among all runs; later runs have greater ones.
    pub position: u64,
    /// The run's summary for lists.
    pub summary: RunSummary,
    /// The connection that has, or had last, the right to write to it.
    pub client: String,
    /// Raised whenever that right changes hands.
    pub epoch: u64,
    /// The stream of its records; 0 in a store without streams for runs.
    pub(crate) stream: u64,
}

impl StoredRun {
    /// Returns the number of its newest record.
    #[must_use]
    pub fn head(&self) -> u64 {
        let ended = u64::from(self.summary.status != RunStatus::InProgress);
        1 + self.summary.turn_count + ended
    }
}

/// The result of a start.
#[derive(Debug, Clone, PartialEq)]
pub enum BeginOutcome {
    /// The run is recorded.
    New(StoredRun),
    /// A run with that ID exists; nothing was written.
    Existing(StoredRun),
}

/// The origin of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Reported by an external program.
    Reported,
    /// A turn of a session.
    Turn,
}

/// A selection of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only runs of this agent.
    pub agent_id: Option<String>,
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// Only runs with a lower position.
    pub before: Option<u64>,
    /// Only runs of this kind.
    pub kind: Option<RunKind>,
}

impl RunFilter {
    /// Returns whether a run matches the filter.
    pub(crate) fn wants(&self, position: u64, agent_id: &str, status: RunStatus) -> bool {
        self.before.is_none_or(|before| position < before)
            && self.status.is_none_or(|wanted| status == wanted)
            && (self.agent_id.as_deref()).is_none_or(|wanted| agent_id == wanted)
    }

    /// Returns whether a turn matches the filter as a run.
    pub(crate) fn wants_turn(&self, turn: &TurnRow) -> bool {
        !turn.is_pruned && self.wants(turn.position, turn.run_agent(), turn.run_status)
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
    /// The number of the newest record; 0 if the run does not exist.
    pub head: u64,
}

/// Storage of runs that other programs report.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Records the start of a run, unless its ID exists. Of several concurrent calls, one succeeds.
    async fn begin(&self, started: RunStarted, client: &str) -> Result<BeginOutcome, JournalError>;

    /// Makes further records durable, all or none. The number of the first must follow the newest record, and `run` must have the newest epoch.
    /// Returns the updated run.
    async fn append(
        &self,
        run: &StoredRun,
        records: Vec<RunRecord>,
    ) -> Result<StoredRun, JournalError>;

    /// Transfers the right to write to another connection, if the run is open and unchanged since `run` was read.
    async fn take_over(&self, run: &StoredRun, client: &str) -> Result<StoredRun, JournalError>;

    /// Lists runs, newest first. The cost depends only on the result. [`Queries`](crate::queries::Queries) lists them together with turns.
    async fn list(&self, filter: RunFilter, limit: usize) -> Result<Vec<StoredRun>, JournalError>;

    /// Finds a run by its ID.
    async fn get(&self, run_id: &str) -> Result<Option<StoredRun>, JournalError>;

    /// Returns the records after a number: at most `limit`, and no more once they have `max_bytes`.
    async fn read(
        &self,
        run_id: &str,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<RunPage, JournalError>;

    /// Returns a receiver of the number of the newest record.
    async fn watch(&self, run_id: &str) -> Result<watch::Receiver<u64>, JournalError>;

    /// Removes runs that ended before a time, at most `limit`, the oldest first; returns how many.
    async fn forget(
        &self,
        ended_before: DateTime<Utc>,
        limit: usize,
    ) -> Result<usize, JournalError>;
}

/// Merges pages: the newest entries first, up to the limit.
pub(crate) fn newest_of(mut found: Vec<RunRow>, limit: usize) -> Vec<RunRow> {
    found.sort_unstable_by_key(|run| std::cmp::Reverse(run.position()));
    found.truncate(limit);
    found
}
