//! `retention.max_bytes`: the order of removal while the database uses too many bytes.
//!
//! The order is: digests of pruned records, ended jobs, records of the streams of jobs (rows contain their state), then the oldest runs and turns.
//! Other rows are never removed. If they alone exceed the limit, removing history could not free enough space, so none is removed.

use rusqlite::Connection;

use super::deferred_delete;
use super::merge_gaps::{condense, next_stream};
use super::sweep::{self, Swept, Until, old_turns, oldest_streams};
use crate::journal::StreamKey;
use crate::maintenance::OverLimit;
use crate::runs::is_run_stream;
use crate::sqlite::SqliteStore;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::{first_number, first_value, int, uint};
use crate::sqlite::queries;
use crate::sqlite::stores::runs::forget_ended;
use crate::sqlite::transfer::export::OF_WORK;
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::write::writer::WriteContext;

/// How many rows of turns one commit forgets.
const FORGET: u64 = 128;
/// How many runs one commit forgets.
const FORGET_RUNS: usize = 8;
/// About how many ended jobs one commit removes.
const ENDED_JOBS: u64 = 32;

/// The result of shrinking.
#[derive(Debug, Default)]
pub(crate) struct Shrunk {
    pub(crate) records: u64,
    pub(crate) over_limit: Option<OverLimit>,
}

impl SqliteStore {
    /// Returns by how many bytes the rows that retention never removes exceed a limit; `None` if they do not.
    ///
    /// Reads those rows, so it costs more than [`used_bytes`](Self::used_bytes).
    pub async fn over_limit(&self, limit: u64) -> Result<Option<OverLimit>, SqliteError> {
        let used = self.used_bytes().await?;
        if used <= limit {
            return Ok(None);
        }
        let expendable = self.inner.expendable_records;
        let unremovable = self.read(move |reader| unremovable(reader, expendable));
        let unremovable = unremovable.await?;
        Ok((unremovable > limit).then_some(OverLimit {
            used,
            unremovable,
            limit,
        }))
    }

    /// Removes data until the database is below the limit, or nothing removable is left.
    pub(crate) async fn shrink(
        &self,
        limit: u64,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<Shrunk, SqliteError> {
        self.condense(limit).await?;
        let kinds = self.inner.expendable_records;
        while self.used_bytes().await? > limit {
            let remove = move |work: &mut WriteContext<'_>| remove_oldest(work.db, kinds);
            if self.write(remove).await? == 0 {
                break;
            }
        }
        let mut records = self.shrink_job_streams(limit, now, findings).await?;
        let over_limit = self.over_limit(limit).await?;
        if let Some(over) = over_limit {
            tracing::warn!(
                used = over.used,
                unremovable = over.unremovable,
                limit,
                "the rows that retention never removes exceed retention.max_bytes; no history is removed for them"
            );
        } else {
            records += self.shrink_histories(limit, now, findings).await?;
        }
        Ok(Shrunk {
            records,
            over_limit,
        })
    }

    async fn shrink_job_streams(
        &self,
        limit: u64,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let first = StreamKey::new(OF_WORK);
        let streams = self.read(move |reader| sweep::streams(reader, Some(&first)));
        let streams = streams.await?.into_iter();
        let mut pruned = 0;
        for stream in streams.take_while(|stream| stream.key.as_str().starts_with(OF_WORK)) {
            while self.used_bytes().await? > limit {
                // One plan at a time, so that no more is removed than has to be.
                let find = |reader: &Connection, of: &Swept| {
                    let mut plan = old_turns(reader, of, Until::Position(u64::MAX))?;
                    plan.is_more = false;
                    Ok(plan)
                };
                let done = self.prune(&stream, find, true, now, findings).await?;
                if done.pruned == 0 {
                    break;
                }
                pruned += done.pruned;
            }
        }
        Ok(pruned)
    }

    /// Removes the oldest runs and turns. Digests of pruned records are removed before any further record.
    async fn shrink_histories(
        &self,
        limit: u64,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let mut pruned = 0;
        let mut after = 0;
        while self.used_bytes().await? > limit {
            let oldest = self
                .read(move |reader| oldest_streams(reader, after))
                .await?;
            let Some((streams, last)) = oldest else {
                break;
            };
            after = last;
            let (runs, sessions): (Vec<_>, Vec<_>) = streams
                .into_iter()
                .partition(|stream| is_run_stream(&stream.key));
            for some in runs.chunks(FORGET_RUNS) {
                if self.used_bytes().await? <= limit {
                    return Ok(pruned);
                }
                let keys = some.iter().map(|run| run.key.clone());
                pruned += self.forget_runs(keys.collect()).await?;
            }
            for stream in sessions {
                if self.used_bytes().await? <= limit {
                    return Ok(pruned);
                }
                let find = move |reader: &Connection, of: &Swept| {
                    old_turns(reader, of, Until::Position(last))
                };
                pruned += self.prune(&stream, find, true, now, findings).await?.pruned;
            }
        }
        self.condense(limit).await?;
        let used = self.used_bytes().await?;
        if used > limit {
            tracing::warn!(
                used,
                limit,
                "the store remains over retention.max_bytes: nothing is left that may be removed"
            );
        }
        Ok(pruned)
    }

    /// Removes the given runs if they have ended; returns the number of their records.
    async fn forget_runs(&self, keys: Vec<StreamKey>) -> Result<u64, SqliteError> {
        let forget = move |work: &mut WriteContext<'_>| {
            let mut records = 0;
            for key in &keys {
                records += forget_ended(work, key)?;
            }
            Ok((records, work.state.is_removing))
        };
        let (records, mut is_more) = self.write(forget).await?;
        while is_more {
            is_more = self.write(deferred_delete::step).await?;
        }
        Ok(records)
    }

    /// Deletes digests of pruned records, and rows of their turns, until the database is below the limit.
    async fn condense(&self, limit: u64) -> Result<(), SqliteError> {
        let mut stream = 0;
        while self.used_bytes().await? > limit {
            let next = self.read(move |reader| next_stream(reader, stream)).await?;
            let Some(next) = next else {
                return Ok(());
            };
            stream = next;
            let mut after = Some(0);
            while let Some(from) = after {
                let condense = move |work: &mut WriteContext<'_>| condense(work.db, stream, from);
                after = self.write(condense).await?;
            }
            let forget =
                move |work: &mut WriteContext<'_>| queries::forget(work.db, stream, FORGET);
            while self.write(forget).await? == FORGET {}
        }
        Ok(())
    }
}

/// Removes about [`ENDED_JOBS`] of the oldest records of each kind, up to the same time, because some kinds are indexes of other kinds.
fn remove_oldest(db: &Connection, kinds: &[&str]) -> DbResult<usize> {
    let mut until: Option<i64> = None;
    for offset in [ENDED_JOBS, 0] {
        for kind in kinds {
            let at: Option<i64> = db.find_row(
                "SELECT at FROM host_records WHERE kind = ?1 ORDER BY at LIMIT 1 OFFSET ?2",
                (kind, int(offset)),
                first_value,
            )?;
            until = until.into_iter().chain(at).min();
        }
        if until.is_some() {
            break;
        }
    }
    let mut removed = 0;
    for kind in kinds {
        removed += db.execute_cached(
            "DELETE FROM host_records WHERE kind = ?1 AND at <= ?2",
            (kind, until),
        )?;
    }
    Ok(removed)
}

/// Sums up the rows that retention never removes.
fn unremovable(reader: &Connection, expendable: &[&str]) -> DbResult<u64> {
    let mut bytes = 0;
    for query in [
        "SELECT coalesce(sum(length(record)), 0) FROM harnesses",
        "SELECT coalesce(sum(length(record)), 0) FROM agents",
        "SELECT coalesce(sum(length(record)), 0) FROM sessions",
        "SELECT coalesce(sum(length(name) + length(value)), 0) FROM entries",
        "SELECT coalesce(sum(length(name) + length(sealed)), 0) FROM secrets",
        "SELECT coalesce(sum(length(path) + coalesce(length(content), 0)), 0) FROM files",
    ] {
        bytes += reader.query_row(query, [], first_number)?;
    }
    let mut statement = reader.prepare_cached(
        "SELECT kind, sum(length(name) + length(body)) FROM host_records GROUP BY kind",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let kind = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if !expendable.contains(&kind) {
            bytes += uint(row, 1)?;
        }
    }
    Ok(bytes)
}
