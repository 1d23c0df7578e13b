//! The read model: what lists and details show of threads, turns and runs, folded from the records of the log.
//!
//! There is one fold of a thread (`fold.rs`) and one set of rows; memory and SQLite answer the same questions under one
//! conformance suite. Whoever shows something asks here and keeps no summary of his own.

mod error;
pub(crate) mod fold;
mod memory;
mod questions;
mod rows;
pub(crate) mod usage;

use async_trait::async_trait;
use windlass_core::typed_id::{ExecId, TurnId};

use crate::journal::StreamKey;
use crate::runs::RunFilter;

pub use error::QueryError;
pub use memory::MemoryQueries;
pub use questions::{Include, Order, ThreadQuery, ThreadState, TurnQuery};
pub use rows::{
    Counts, LatestTurn, Listed, Origin, RecordedThread, RunRow, ThreadDetail, ThreadOutline,
    ThreadRow, TurnDetail, TurnRow, TurnRun, WaitRow,
};
pub use usage::{UsageBy, UsageQuery, UsageReport, UsageSum};

/// Answers what is asked about threads, turns and runs.
///
/// Every answer is exact: it holds all that was durable when the question was asked. It costs an index look-up and what it
/// returns; only [`ThreadQuery::search`] may look at all rows of threads.
#[async_trait]
pub trait Queries: Send + Sync {
    /// Lists threads, the one that was updated last first. A stream without a record of its own is none.
    async fn threads(&self, query: ThreadQuery) -> Result<Listed<ThreadRow>, QueryError>;

    /// Returns one thread; `None` without a record.
    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadRow>, QueryError>;

    /// Lists turns of a thread by where they began, those that a fork shares with its parent included.
    async fn turns(&self, query: TurnQuery) -> Result<Listed<TurnRow>, QueryError>;

    /// Returns a turn of a thread without its items.
    async fn turn(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnRow>, QueryError>;

    /// Returns a turn of a thread with its items; reads the turn's records and no others.
    async fn turn_detail(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnDetail>, QueryError>;

    /// Returns a thread with its newest turns, without their items, all as of one record: [`ThreadRow::seq`]. Reads no
    /// records of turns that have ended.
    async fn thread_outline(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadOutline>, QueryError>;

    /// Returns a thread with its newest turns and their items, all as of one record: [`ThreadRow::seq`]. The turn that is
    /// open is the newest, so what waits for somebody is in its log.
    async fn thread_detail(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadDetail>, QueryError>;

    /// Lists what waits for somebody in all threads, or in one: by thread, and there in the order in which it began.
    async fn waits(&self, stream: Option<&StreamKey>) -> Result<Vec<WaitRow>, QueryError>;

    /// Finds a wait by the call that waits, or did: one that is over is found too, so that a repeated answer can be told.
    async fn wait(&self, exec_id: ExecId) -> Result<Option<WaitRow>, QueryError>;

    /// Sums what turns used that ended in a time. What a fork shares counts for its parent alone. Turns whose records retention has
    /// taken out still count, and so do those of removed threads.
    async fn usage(&self, query: UsageQuery) -> Result<UsageReport, QueryError>;

    /// Lists runs of both kinds, the one that began last first. What a fork shares is a run of its parent alone, and a turn whose
    /// first record is gone is no run any more.
    async fn runs(&self, filter: RunFilter, limit: usize) -> Result<Vec<RunRow>, QueryError>;

    /// Finds a run of either kind by its id.
    async fn run(&self, run_id: &str) -> Result<Option<RunRow>, QueryError>;

    /// Counts threads, by what they do.
    async fn counts(&self) -> Result<Counts, QueryError>;
}
