//! Retention: removes data by age and size, in small commits between other commits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use rusqlite::Connection;
use windlass_core::error::AgentLoopError;

use super::deferred_delete;
use super::prune::{put_note, steps};
use super::sweep::{self, SweepMark, SweepPlan, Swept, Until, old_chunks, old_turns};
use crate::journal::{JournalError, StreamKey};
use crate::maintenance::{Maintenance, MaintenanceReport, OverLimit};
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::numbers::first_number;
use crate::sqlite::queries::row_writer::step;
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::write::writer::WriteContext;
use crate::sqlite::{SqliteStore, run_blocking};

/// The numbers of removed records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Maintained {
    /// Removed text chunks.
    pub chunks: u64,
    /// Records of pruned turns, including the remaining text chunks among them.
    pub records: u64,
    /// Streams that were not pruned because they are damaged.
    pub findings: Vec<Finding>,
    /// Set where `max_bytes` cannot be met. Then no record of a session was removed for it.
    pub over_limit: Option<OverLimit>,
}

#[async_trait]
impl Maintenance for SqliteStore {
    async fn maintain_store(
        &self,
        now: DateTime<Utc>,
    ) -> Result<MaintenanceReport, AgentLoopError> {
        let failed = |error: SqliteError| AgentLoopError::StoreUnavailable(error.to_string());
        let done = self.maintain(now).await.map_err(failed)?;
        self.write_back().await.map_err(failed)?;
        Ok(MaintenanceReport {
            records: done.records,
            chunks: done.chunks,
            stored_bytes: self.used_bytes().await.map_err(failed)?,
            findings: done.findings.iter().map(ToString::to_string).collect(),
            over_limit: done.over_limit,
        })
    }

    async fn stored_bytes(&self) -> Result<u64, AgentLoopError> {
        let used = self.used_bytes().await;
        used.map_err(|error| AgentLoopError::StoreUnavailable(error.to_string()))
    }

    async fn free_bytes(&self) -> Result<u64, AgentLoopError> {
        let database = self.inner.readers.location().database();
        let left = rustix::fs::statvfs(&database).map_err(|error| {
            AgentLoopError::StoreUnavailable(format!(
                "cannot look at {}: {error}",
                database.display()
            ))
        })?;
        Ok(left.f_bavail.saturating_mul(left.f_frsize))
    }
}

impl SqliteStore {
    /// Removes data beyond the limits of retention. Open turns, the newest record of a stream and the shared records of forks always stay.
    ///
    /// The host calls this, because the store has no clock. Some free pages stay for new records; the rest is returned to the file system when the
    /// log is [written back](Self::write_back).
    pub async fn maintain(&self, now: DateTime<Utc>) -> Result<Maintained, SqliteError> {
        let retention = self.inner.retention;
        let now = now.timestamp_millis();
        let mut done = Maintained::default();
        while self.write(deferred_delete::step).await? {}
        self.write_rows().await?;
        if let Some(age) = retention.text_chunks {
            let sweep = Sweep::Chunks(earlier(now, age));
            done.chunks = self.sweep(sweep, now, &mut done.findings).await?;
        }
        if let Some(age) = retention.max_age {
            let sweep = Sweep::Turns(earlier(now, age));
            done.records += self.sweep(sweep, now, &mut done.findings).await?;
        }
        if let Some(limit) = retention.max_bytes {
            let shrunk = self.shrink(limit, now, &mut done.findings).await?;
            done.records += shrunk.records;
            done.over_limit = shrunk.over_limit;
        }
        self.return_free_pages().await?;
        Ok(done)
    }

    /// Writes all rows of threads, turns and runs that are newer than the tables. A thread does that shortly after appends anyway. Queries are exact
    /// without it.
    pub async fn write_rows(&self) -> Result<(), SqliteError> {
        let writer = self.inner.writer()?.clone();
        let tail = Arc::clone(&self.inner.tail);
        self.read(move |reader| {
            while step(reader, &tail, &writer)? {}
            Ok(())
        })
        .await
    }

    /// Checkpoints the log into the database as far as readers allow, so that the next open reads little of it. Writers do not wait for it.
    pub async fn write_back(&self) -> Result<(), SqliteError> {
        self.inner.writer()?;
        let readers = Arc::clone(&self.inner.readers);
        run_blocking(move || {
            let db = readers.location().connect_to_write(None)?;
            let checkpoint = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            Ok(checkpoint.map_err(DbError::from)?)
        })
        .await
    }

    /// Returns how many bytes of the database are in use.
    pub async fn used_bytes(&self) -> Result<u64, SqliteError> {
        self.read(used).await
    }

    /// Visits all streams of sessions, some at a time.
    async fn sweep(
        &self,
        sweep: Sweep,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let mut pruned = 0;
        let mut after: Option<StreamKey> = None;
        loop {
            let page = self.read(move |reader| sweep::streams(reader, after.as_ref()));
            let page = page.await?;
            let Some(last) = page.last() else {
                return Ok(pruned);
            };
            after = Some(last.key.clone());
            let mut notes = Vec::new();
            for stream in page {
                let find = move |reader: &Connection, of: &Swept| match sweep {
                    Sweep::Chunks(before) => old_chunks(reader, of, before),
                    Sweep::Turns(than) => old_turns(reader, of, Until::Time(than)),
                };
                let has_turns = matches!(sweep, Sweep::Turns(_));
                let done = self.prune(&stream, find, has_turns, now, findings).await?;
                pruned += done.pruned;
                notes.extend(done.note.map(|note| (stream.stream, note)));
            }
            if !notes.is_empty() {
                let write = move |work: &mut WriteContext<'_>| {
                    let mut notes = notes.into_iter();
                    notes.try_for_each(|(stream, note)| put_note(work.db, stream, note))
                };
                self.write(write).await?;
            }
        }
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T, SqliteError> {
        self.inner.read(look).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> Result<T, SqliteError> {
        self.inner.write(job).await
    }

    /// Prunes one stream until nothing more is found. Skips a stream that is damaged, or was removed meanwhile.
    pub(crate) async fn prune(
        &self,
        stream: &Swept,
        find: impl Fn(&Connection, &Swept) -> DbResult<SweepPlan> + Copy + Send + 'static,
        has_turns: bool,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<Pruned, SqliteError> {
        let mut done = Pruned::default();
        let mut stream = stream.clone();
        loop {
            let of = stream.clone();
            let plan = match self
                .inner
                .readers
                .read(move |reader| find(reader, &of))
                .await
            {
                Err(DbError::Journal(error)) => {
                    findings.push(Finding::of_error(&stream.key, error));
                    return Ok(done);
                }
                plan => plan.map_err(SqliteError::from)?,
            };
            let steps = steps(&stream, &plan, has_turns);
            if steps.is_empty() {
                done.note = plan.note;
            }
            for step in steps {
                let write = self.inner.writer()?.write(move |work| step.run(work, now));
                match write.await {
                    Ok(pruned) => done.pruned += pruned,
                    Err(DbError::Journal(JournalError::Removed(_))) => return Ok(done),
                    Err(DbError::Journal(error)) => {
                        findings.push(Finding::of_error(&stream.key, error));
                        return Ok(done);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if !plan.is_more {
                return Ok(done);
            }
            stream.note(plan.note);
        }
    }
}

/// The search of a sweep: everything older than a time.
#[derive(Debug, Clone, Copy)]
enum Sweep {
    Chunks(i64),
    Turns(i64),
}

/// The result for one stream.
#[derive(Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) pruned: u64,
    /// The mark to store afterwards.
    note: Option<SweepMark>,
}

fn earlier(now: i64, age: Duration) -> i64 {
    now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

fn used(reader: &Connection) -> DbResult<u64> {
    let ask = |pragma| reader.pragma_query_value(None, pragma, first_number);
    let pages = ask("page_count")?.saturating_sub(ask("freelist_count")?);
    Ok(pages * ask("page_size")?)
}
