//! The read model: the contents of lists and details of threads, turns and runs, folded from the records of the log.
//!
//! There is one fold of a thread (`fold.rs`) and one set of rows. Memory and SQLite answer the same queries under one conformance suite. Views query
//! it and store no summaries of their own.

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
pub use fold::TurnFold;
pub use memory::MemoryQueries;
pub use questions::{Include, Order, ThreadQuery, ThreadState, TurnQuery};
pub use rows::{
    Counts, LatestTurn, Listed, Origin, RecordedThread, RunRow, ThreadDetail, ThreadOutline,
    ThreadRow, TurnDetail, TurnRow, TurnRun, WaitRow,
};
pub use usage::{UsageBy, UsageQuery, UsageReport, UsageSum};

/// Queries about threads, turns and runs.
///
/// Every answer is exact: it includes everything that was durable when the query began. It costs an index look-up plus its result; only
/// [`ThreadQuery::search`] may read all rows of threads.
#[async_trait]
pub trait Queries: Send + Sync {
    /// Lists threads, most recently updated first. A stream without own records is no thread.
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

    /// Returns a turn of a thread with its items; reads only the turn's records.
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

    /// Returns a thread with its newest turns and their items, all as of one record: [`ThreadRow::seq`]. The open turn is the newest one, so its log
    /// contains the pending approvals and answers.
    async fn thread_detail(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadDetail>, QueryError>;

    /// Lists the calls that wait for an approval or an answer, in all threads or in one: by thread, then by the order in which they began.
    async fn waits(&self, stream: Option<&StreamKey>) -> Result<Vec<WaitRow>, QueryError>;

    /// Finds a wait by its call. Ended waits are found too, so that a repeated answer can be recognized.
    async fn wait(&self, exec_id: ExecId) -> Result<Option<WaitRow>, QueryError>;

    /// Returns the usage of turns that ended in a period. Shared turns of a fork count only for its parent. Pruned turns and those of removed threads
    /// still count.
    async fn usage(&self, query: UsageQuery) -> Result<UsageReport, QueryError>;

    /// Lists runs of both kinds, newest first. Shared turns of a fork are runs of its parent only, and a turn whose first record was pruned is no
    /// longer a run.
    async fn runs(&self, filter: RunFilter, limit: usize) -> Result<Vec<RunRow>, QueryError>;

    /// Finds a run of either kind by its id.
    async fn run(&self, run_id: &str) -> Result<Option<RunRow>, QueryError>;

    /// Counts threads by state.
    async fn counts(&self) -> Result<Counts, QueryError>;
}
