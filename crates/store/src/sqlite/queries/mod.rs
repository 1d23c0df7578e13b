//! The read model in a database: rows that follow the log.
//!
//! An append does no work for it. A query folds the records that are newer than the tables into the [tail](tail), and a [thread](follow) writes the
//! folded rows, many in one commit. `state.folded` is the position up to which the tables are exact. After a crash, and in a process that only reads,
//! the tail begins there. So an answer is always exact, and lost rows are rebuilt.

mod check;
mod counts;
mod detail;
mod load;
mod open;
#[cfg(test)]
mod plans;
mod rebuild;
mod remove;
mod retained;
pub(super) mod row_writer;
mod run_check;
mod runs;
mod tables;
pub(super) mod tail;
mod threads;
mod turns;
mod usage;
mod waits;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Transaction};
use windlass_core::typed_id::{ExecId, TurnId};

use super::error::DbResult;
use super::inner::Inner;
use super::journal::ancestry::Lineage;
use super::journal::find;
use super::open::inspect::read_identity;
use crate::cursor::{CursorKind, Cursors, Key};
use crate::durable::chain::Chain;
use crate::journal::StreamKey;
use crate::queries::{
    Counts, Listed, Queries, QueryError, RunRow, ThreadDetail, ThreadOutline, ThreadQuery,
    ThreadRow, TurnDetail, TurnQuery, TurnRow, UsageQuery, UsageReport, WaitRow,
};
use crate::runs::RunFilter;

pub(super) use check::ThreadRowCheck;
pub(super) use open::open_streams;
pub use rebuild::{RebuildProgress, RebuildReport};
pub(super) use remove::{forget, hide, mark_pruned, trim};
pub(super) use retained::{restore, retain_stream};
pub(super) use run_check::RunCheck;
use tail::{FoldExtent, ReadModelRows};

/// Answers about threads, turns and runs in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteQueries {
    pub(super) inner: Arc<Inner>,
}

/// A snapshot of the database: the tables, and the rows that are newer.
pub(super) struct QuerySnapshot<'a> {
    db: Transaction<'a>,
    newer: Arc<ReadModelRows>,
    /// The newest record.
    upto: u64,
    chain: Chain,
    cursors: Cursors,
}

impl SqliteQueries {
    async fn ask<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&QuerySnapshot<'_>) -> DbResult<T> + Send + 'static,
    ) -> Result<T, QueryError> {
        let inner = Arc::clone(&self.inner);
        let answer = move |reader: &Connection| {
            let (db, newer, upto) = inner.tail.look(reader, FoldExtent::Newest)?;
            answer(&QuerySnapshot {
                db,
                newer,
                upto,
                chain: inner.chain.clone(),
                cursors: inner.tail.cursors.clone(),
            })
        };
        self.inner.read(answer).await
    }
}

impl QuerySnapshot<'_> {
    fn cursor(&self, list: CursorKind, key: Key) -> String {
        self.cursors.write(list, self.upto, key)
    }

    fn decode_cursor(&self, list: CursorKind, cursor: Option<&String>) -> DbResult<Option<Key>> {
        let Some(cursor) = cursor else {
            return Ok(None);
        };
        // The newest record may have been removed since.
        let given_out = read_identity(&self.db)?.map_or(0, |identity| identity.position);
        let upto = self.upto.max(given_out);
        Ok(Some(self.cursors.read(list, upto, cursor)?))
    }

    /// Finds an existing stream, with its shared parts.
    fn lineage(&self, key: &StreamKey) -> DbResult<Option<Lineage>> {
        let found = find(&self.db, key)?;
        let lineage = found.map(|found| Lineage::load(&self.db, key, found.stream));
        lineage.transpose()
    }
}

#[async_trait]
impl Queries for SqliteQueries {
    async fn threads(&self, query: ThreadQuery) -> Result<Listed<ThreadRow>, QueryError> {
        self.ask(move |look| look.threads(&query)).await
    }

    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadRow>, QueryError> {
        let key = stream.clone();
        self.ask(move |look| look.thread(&key)).await
    }

    async fn turns(&self, query: TurnQuery) -> Result<Listed<TurnRow>, QueryError> {
        self.ask(move |look| look.turns(&query)).await
    }

    async fn turn(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnRow>, QueryError> {
        let key = stream.clone();
        self.ask(move |look| look.turn(&key, turn_id)).await
    }

    async fn turn_detail(
        &self,
        stream: &StreamKey,
        turn_id: TurnId,
    ) -> Result<Option<TurnDetail>, QueryError> {
        let key = stream.clone();
        self.ask(move |look| look.turn_detail(&key, turn_id)).await
    }

    async fn thread_outline(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadOutline>, QueryError> {
        let key = stream.clone();
        self.ask(move |look| look.thread_outline(&key, newest))
            .await
    }

    async fn thread_detail(
        &self,
        stream: &StreamKey,
        newest: usize,
    ) -> Result<Option<ThreadDetail>, QueryError> {
        let key = stream.clone();
        self.ask(move |look| look.thread_detail(&key, newest)).await
    }

    async fn waits(&self, stream: Option<&StreamKey>) -> Result<Vec<WaitRow>, QueryError> {
        let key = stream.cloned();
        self.ask(move |look| look.waits(key.as_ref())).await
    }

    async fn wait(&self, exec_id: ExecId) -> Result<Option<WaitRow>, QueryError> {
        self.ask(move |look| look.wait(exec_id)).await
    }

    async fn usage(&self, query: UsageQuery) -> Result<UsageReport, QueryError> {
        self.ask(move |look| look.usage(&query)).await
    }

    async fn runs(&self, filter: RunFilter, limit: usize) -> Result<Vec<RunRow>, QueryError> {
        self.ask(move |look| look.runs(&filter, limit)).await
    }

    async fn run(&self, run_id: &str) -> Result<Option<RunRow>, QueryError> {
        let run_id = run_id.to_owned();
        self.ask(move |look| look.run(&run_id)).await
    }

    async fn counts(&self) -> Result<Counts, QueryError> {
        self.ask(|look| look.counts()).await
    }
}
