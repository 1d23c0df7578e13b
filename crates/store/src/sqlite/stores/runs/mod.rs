//! Runs in a database: streams of the journal.
//!
//! The state of a run follows from its first record and its newest one (`now.rs`), so a writer needs only the log. Lists find runs by their rows,
//! which are folded like those of threads (`queries/`). The right to write to a run is not in its records; it is stored with the epoch of its stream.

mod now;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStarted};

use crate::durable::chain::Chain;
use crate::durable::record::StoredRecord;
use crate::journal::{JournalError, StreamKey};
use crate::queries::{Queries, RunRow};
use crate::runs::{BeginOutcome, RunFilter, RunKind, RunLog, RunPage, StoredRun, run_stream};
use crate::sqlite::error::DbResult;
use crate::sqlite::inner::Inner;
use crate::sqlite::journal::ancestry::Lineage;
use crate::sqlite::journal::{ChainWalk, PageBounds, find, size};
use crate::sqlite::queries::SqliteQueries;
use crate::sqlite::retention::deferred_delete;

pub(crate) use now::{as_stored, begun, fold, writer};
pub(crate) use write::forget_ended;

/// How many runs one commit forgets.
const FORGET: usize = 8;

/// Runs in a SQLite database; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteRuns {
    pub(crate) inner: Arc<Inner>,
}

#[async_trait]
impl RunLog for SqliteRuns {
    async fn begin(&self, started: RunStarted, client: &str) -> Result<BeginOutcome, JournalError> {
        let begin = write::Begin::new(started, client)?;
        let writer = self.inner.writer()?;
        let bytes = begin.record.size;
        let begun = writer.write_checked(bytes, move |work| begin.run(work));
        let (run, is_new) = begun.await?;
        Ok(if is_new {
            BeginOutcome::New(run)
        } else {
            BeginOutcome::Existing(run)
        })
    }

    async fn append(
        &self,
        run: &StoredRun,
        records: Vec<RunRecord>,
    ) -> Result<StoredRun, JournalError> {
        let (append, run) = write::prepare_append(run, &records)?;
        let writer = self.inner.writer()?;
        let bytes = size(&append.records);
        let appended = writer.write_checked(bytes, move |work| append.run(work));
        drop(appended.await?);
        Ok(run)
    }

    async fn take_over(&self, run: &StoredRun, client: &str) -> Result<StoredRun, JournalError> {
        let (run, client) = (run.clone(), client.to_owned());
        self.inner
            .write(move |work| write::take_over(work, run, client))
            .await
    }

    async fn get(&self, run_id: &str) -> Result<Option<StoredRun>, JournalError> {
        let key = run_stream(run_id);
        let run = move |reader: &rusqlite::Connection| {
            let transaction = reader.unchecked_transaction()?;
            now::current(&transaction, &key)
        };
        self.inner.read(run).await
    }

    async fn list(&self, filter: RunFilter, limit: usize) -> Result<Vec<StoredRun>, JournalError> {
        let inner = Arc::clone(&self.inner);
        let filter = RunFilter {
            kind: Some(RunKind::Reported),
            ..filter
        };
        let listed = SqliteQueries { inner }.runs(filter, limit).await?;
        let reported = listed.into_iter().filter_map(|run| match run {
            RunRow::Reported(run) => Some(run),
            RunRow::Turn(_) => None,
        });
        Ok(reported.collect())
    }

    async fn read(
        &self,
        run_id: &str,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<RunPage, JournalError> {
        let (key, chain) = (run_stream(run_id), self.inner.chain.clone());
        let bounds = PageBounds {
            records: limit,
            bytes: max_bytes,
        };
        let page = move |reader: &_| read_page(reader, &chain, &key, after, bounds);
        self.inner.read(page).await
    }

    async fn watch(&self, run_id: &str) -> Result<watch::Receiver<u64>, JournalError> {
        self.inner.watch(&run_stream(run_id)).await
    }

    async fn forget(
        &self,
        ended_before: DateTime<Utc>,
        limit: usize,
    ) -> Result<usize, JournalError> {
        let before = ended_before.timestamp_micros();
        let writer = self.inner.writer()?;
        let mut forgotten = 0;
        while forgotten < limit {
            let step = limit.min(forgotten + FORGET) - forgotten;
            let inner = Arc::clone(&self.inner);
            let old = SqliteQueries { inner }.old_runs(before, step).await?;
            let gone = writer.write(move |work| write::forget(work, before, &old));
            let gone = gone.await?;
            forgotten += gone;
            if gone == 0 {
                break;
            }
        }
        while writer.write(deferred_delete::step).await? {}
        Ok(forgotten)
    }
}

fn read_page(
    reader: &rusqlite::Connection,
    chain: &Chain,
    key: &StreamKey,
    after: u64,
    bounds: PageBounds,
) -> DbResult<RunPage> {
    // All queries of a page must see the same state.
    let transaction = reader.unchecked_transaction()?;
    let Some(stream) = find(&transaction, key)? else {
        return Ok(RunPage::default());
    };
    let head = stream.head;
    let mut records = Vec::new();
    if after < head && bounds.records > 0 && bounds.bytes > 0 {
        let lineage = Lineage::alone(key, stream.stream);
        let mut walk = ChainWalk::after(&transaction, chain, lineage, after)?;
        records = walk.read_with(u64::MAX, bounds, |_, stored| decode(stored, key))?;
    }
    Ok(RunPage { records, head })
}

/// Decodes a record. The caller has checked the chain.
pub(crate) fn decode(
    stored: &StoredRecord<'_>,
    stream: &StreamKey,
) -> Result<RunRecord, JournalError> {
    stored.check_version(stream)?;
    let damaged = |what: String| JournalError::damaged(stream, stored.seq, what);
    let (bytes, _) = stored.checked_bytes().map_err(damaged)?;
    serde_json::from_slice(bytes).map_err(|error| damaged(format!("it cannot be read: {error}")))
}
