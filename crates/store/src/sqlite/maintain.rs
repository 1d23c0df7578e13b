//! Retention: what is too old or too much goes, in small commits between those of others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::ancestry::shared_upto;
use super::error::{Fault, SqliteError};
use super::findings::Finding;
use super::journal::{StreamInfo, list};
use super::numbers::{int, uint};
use super::prune::{Which, is_full, prune};
use super::spans::{IN_ORDER, from, oldest_position};
use crate::journal::JournalError;

/// How many places between turns one step against too many bytes goes on.
const TURNS: u64 = 64;

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Maintained {
    /// How many pieces of streamed text.
    pub chunks: u64,
    /// How many other records, with the pieces of text among them.
    pub records: u64,
    /// Streams that were left alone because they are damaged.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Removes what the retention of this store does not keep. Open turns, the newest record of a stream and what forks share
    /// always stay.
    ///
    /// Nobody calls this but the host: the store has no clock of its own. The freed room is used again.
    pub async fn maintain(&self, now: DateTime<Utc>) -> Result<Maintained, SqliteError> {
        let retention = self.inner.retention;
        let now = now.timestamp_millis();
        let mut done = Maintained::default();
        if let Some(age) = retention.text_chunks {
            let before = earlier(now, age);
            let streams = self.streams_with_chunks(before).await?;
            let which = Which::Chunks { before };
            done.chunks = self
                .prune_all(streams, which, now, &mut done.findings)
                .await?;
        }
        if let Some(age) = retention.max_age {
            let than = earlier(now, age);
            let streams = self.streams_older(than).await?;
            let which = Which::Older { than };
            done.records += self
                .prune_all(streams, which, now, &mut done.findings)
                .await?;
        }
        if let Some(limit) = retention.max_bytes {
            done.records += self.shrink(limit, now, &mut done.findings).await?;
        }
        Ok(done)
    }

    /// Writes the log back into the database as far as readers allow, so that the next open finds little of it. Nobody
    /// waits for it.
    pub async fn write_back(&self) -> Result<(), SqliteError> {
        self.inner.writer()?;
        let readers = Arc::clone(&self.inner.readers);
        let written = tokio::task::spawn_blocking(move || -> Result<(), Fault> {
            let connection = readers.location().connect_to_write(None)?;
            connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
            Ok(())
        });
        let written = written.await;
        Ok(written.map_err(|error| SqliteError::Unavailable(error.to_string()))??)
    }

    /// Returns how many bytes of the database are in use.
    pub async fn used_bytes(&self) -> Result<u64, SqliteError> {
        Ok(self.inner.readers.read(used).await?)
    }

    async fn prune_all(
        &self,
        streams: Vec<StreamInfo>,
        which: Which,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let mut pruned = 0;
        for stream in streams {
            loop {
                let step = self.prune_step(&stream, which, now, findings).await?;
                pruned += step;
                if !is_full(step) {
                    break;
                }
            }
        }
        Ok(pruned)
    }

    /// Takes a step in one stream. One that is damaged, or was removed meanwhile, is left alone.
    async fn prune_step(
        &self,
        stream: &StreamInfo,
        which: Which,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let info = stream.clone();
        let writer = self.inner.writer()?;
        match writer
            .write(move |work| prune(work, &info, which, now))
            .await
        {
            Ok(pruned) => Ok(pruned),
            Err(Fault::Journal(JournalError::Removed(_))) => Ok(0),
            Err(Fault::Journal(error)) => {
                findings.push(Finding::of_error(&stream.key, error));
                Ok(0)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Takes the oldest turns out until few enough bytes are used, or nothing is left that may go.
    async fn shrink(
        &self,
        limit: u64,
        now: i64,
        findings: &mut Vec<Finding>,
    ) -> Result<u64, SqliteError> {
        let mut by_age = self.inner.readers.read(by_age).await?;
        let mut pruned = 0;
        while self.used_bytes().await? > limit {
            let Some((_, stream)) = by_age.pop() else {
                break;
            };
            let which = Which::Oldest { count: TURNS };
            let step = self.prune_step(&stream, which, now, findings).await?;
            if step > 0 {
                pruned += step;
                let again = stream.clone();
                let position = self
                    .inner
                    .readers
                    .read(move |reader| oldest(reader, &again));
                by_age.push((Reverse(position.await?), stream));
            }
        }
        Ok(pruned)
    }

    async fn streams_with_chunks(&self, before: i64) -> Result<Vec<StreamInfo>, SqliteError> {
        let found = self.inner.readers.read(move |reader| {
            filtered(
                reader,
                concat!(
                    "SELECT id FROM streams WHERE EXISTS (SELECT 1 FROM placed WHERE stream = streams.id AND ",
                    from!("streams.swept + 1"),
                    " AND chunk = 1 AND at < ?1)"
                ),
                before,
            )
        });
        Ok(found.await?)
    }

    async fn streams_older(&self, than: i64) -> Result<Vec<StreamInfo>, SqliteError> {
        let found = self.inner.readers.read(move |reader| {
            filtered(
                reader,
                concat!(
                    "SELECT id FROM streams WHERE (SELECT at FROM records WHERE position = ",
                    oldest_position!("streams.id"),
                    ") < ?1"
                ),
                than,
            )
        });
        Ok(found.await?)
    }
}

fn earlier(now: i64, age: Duration) -> i64 {
    now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

fn filtered(reader: &Connection, query: &str, at: i64) -> Result<Vec<StreamInfo>, Fault> {
    let mut statement = reader.prepare_cached(query)?;
    let numbers: HashSet<u64> = statement
        .query_map([at], |row| uint(row, 0))?
        .collect::<Result<_, _>>()?;
    let mut streams = list(reader)?;
    streams.retain(|stream| numbers.contains(&stream.stream));
    Ok(streams)
}

/// Lists the streams by their oldest records; the oldest of all comes out first.
fn by_age(reader: &Connection) -> Result<BinaryHeap<(Reverse<u64>, StreamInfo)>, Fault> {
    let streams = list(reader)?.into_iter();
    streams
        .map(|stream| Ok((Reverse(oldest(reader, &stream)?), stream)))
        .collect()
}

/// Returns the position of a stream's oldest record that may go.
fn oldest(reader: &Connection, stream: &StreamInfo) -> Result<u64, Fault> {
    let shared = shared_upto(reader, stream.stream)?;
    if shared > 0 {
        let mut statement = reader.prepare_cached(&format!(
            "SELECT position, last FROM placed WHERE stream = ?1 AND {} {IN_ORDER} LIMIT 1",
            from!("?2 + 1")
        ))?;
        let found = statement.query_row([int(stream.stream), int(shared)], |row| uint(row, 0));
        return Ok(found.optional()?.unwrap_or(0));
    }
    let mut statement =
        reader.prepare_cached(concat!("SELECT coalesce(", oldest_position!("?1"), ", 0)"))?;
    Ok(statement.query_row([int(stream.stream)], |row| uint(row, 0))?)
}

fn used(reader: &Connection) -> Result<u64, Fault> {
    let ask = |pragma| reader.pragma_query_value(None, pragma, |row| uint(row, 0));
    let pages = ask("page_count")?.saturating_sub(ask("freelist_count")?);
    Ok(pages * ask("page_size")?)
}
