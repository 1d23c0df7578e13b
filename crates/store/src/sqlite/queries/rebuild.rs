//! Rebuilds the rows stream by stream. Rows of turns whose records were pruned stay.

use std::sync::Arc;

use rusqlite::Connection;

use super::load::{PositionedRecord, take_event};
use super::open;
use super::remove::{ForgottenTurns, delete_from};
use super::tables::{TURN, find_thread, put_run, put_thread, put_turn, put_wait, turns_of};
use super::tail::{RECORDS, ReadModelRows};
use crate::durable::record::RecordBuffer;
use crate::journal::{JournalError, StreamKey};
use crate::queries::ThreadRow;
use crate::queries::fold::ThreadFold;
use crate::runs::is_run_stream;
use crate::sqlite::SqliteStore;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::journal::ancestry::{is_retained, retained_streams};
use crate::sqlite::journal::spans;
use crate::sqlite::journal::spans::IN_ORDER;
use crate::sqlite::journal::{StreamInfo, find, named, names};
use crate::sqlite::numbers::int;
use crate::sqlite::stores::runs;
use crate::sqlite::verify::orphans::remove_orphans;
use crate::sqlite::verify::verify_report::Finding;

/// How far a rebuild is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The stream that was done last.
    pub stream: StreamKey,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// How many streams were done.
    pub streams: u64,
    /// Streams that were left as they are because they cannot be read.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Rebuilds the spans of all records, and the rows of all streams from their records; calls `progress` for each stream.
    ///
    /// Each stream is one commit, during which other writers wait. Rows whose records were pruned stay.
    pub async fn rebuild(
        &self,
        mut progress: impl FnMut(RebuildProgress) + Send,
    ) -> Result<RebuildReport, SqliteError> {
        self.write(|work| {
            spans::rebuild(work)?;
            open::fill(work.db)?;
            remove_orphans(work.db)
        })
        .await?;
        let all = |listed: (Vec<StreamInfo>, Option<DbError>)| match listed {
            (streams, None) => Ok(streams),
            (_, Some(error)) => Err(error),
        };
        let streams = self.read(move |reader| all(names(reader))).await?;
        let removed = self.read(move |reader| all(retained_streams(reader)));
        let removed = removed.await?;
        let mut report = RebuildReport::default();
        for stream in removed {
            self.rebuild_one(stream, &mut report).await?;
        }
        // Removed streams are not counted.
        report.streams = 0;
        let total = streams.len() as u64;
        for (stream, done) in streams.into_iter().zip(1..) {
            let key = stream.key.clone();
            self.rebuild_one(stream, &mut report).await?;
            progress(RebuildProgress {
                stream: key,
                done,
                total,
            });
        }
        Ok(report)
    }

    /// Rebuilds the rows of one stream.
    pub async fn rebuild_stream(&self, stream: &StreamKey) -> Result<RebuildReport, SqliteError> {
        let key = stream.clone();
        let mut report = RebuildReport::default();
        match self.read(move |reader| find(reader, &key)).await? {
            Some(stream) => self.rebuild_one(stream, &mut report).await?,
            None => report
                .findings
                .push(Finding::of_stream(stream, "it is missing")),
        }
        Ok(report)
    }

    async fn rebuild_one(
        &self,
        stream: StreamInfo,
        report: &mut RebuildReport,
    ) -> Result<(), SqliteError> {
        let (key, number) = (stream.key.clone(), stream.stream);
        let writer = self.inner.writer()?;
        let refilled = writer.write(move |work| refill(work.db, &stream));
        match refilled.await {
            Ok(()) => report.streams += 1,
            // It was removed meanwhile.
            Err(DbError::Journal(JournalError::Removed(_))) => {}
            Err(DbError::Journal(error)) => report.findings.push(Finding::of_error(&key, error)),
            Err(error) => return Err(error.into()),
        }
        let tail = Arc::clone(&self.inner.tail);
        self.read(move |reader| tail.reload(reader, number)).await
    }
}

fn refill(db: &Connection, stream: &StreamInfo) -> DbResult<()> {
    let (number, key) = (stream.stream, &stream.key);
    let is_hidden = is_retained(db, number)?;
    if !is_hidden && named(db, number)?.is_none() {
        return Err(JournalError::Removed(number).into());
    }
    if is_run_stream(key) {
        let run = runs::fold(db, (number, key))?;
        delete_from(db, &["runs"], number)?;
        return run.map_or(Ok(()), |run| put_run(db, &run));
    }
    // An unreadable row has no data about pruned records.
    let before = find_thread(db, number).ok().flatten();
    let fold = base(db, (number, key), before.as_ref())?;
    let gone = ForgottenTurns::of(db, number).unwrap_or_default();
    delete_from(db, &["threads", "thread_records"], number)?;
    for rest in [
        "DELETE FROM turns WHERE stream = ?1 AND pruned = 0",
        "DELETE FROM waits WHERE stream = ?1 AND NOT EXISTS (SELECT 1 FROM pruned \
         WHERE pruned.stream = ?1 AND turns = 1 AND waits.seq BETWEEN first AND last)",
    ] {
        db.execute_cached(rest, [int(number)])?;
    }
    let (thread, rows) = fold_all(db, stream, fold)?;
    for (_, turn) in rows.turns.values() {
        put_turn(db, number, turn)?;
    }
    if is_hidden {
        return Ok(());
    }
    for wait in rows.waits.values() {
        put_wait(db, number, wait)?;
    }
    if let Some(thread) = thread {
        put_thread(db, number, &thread)?;
        if gone.turns > 0 {
            gone.put(db, number)?;
        }
    }
    Ok(())
}

/// Folds the own records of a stream.
fn fold_all(
    db: &Connection,
    stream: &StreamInfo,
    fold: Option<ThreadFold>,
) -> DbResult<(Option<ThreadRow>, ReadModelRows)> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {RECORDS}, last FROM placed WHERE stream = ?1 {IN_ORDER}"
    ))?;
    let mut records = statement.query([int(stream.stream)])?;
    let (mut fold, mut rows) = (fold.map(Box::new), ReadModelRows::default());
    let mut buffer = RecordBuffer::default();
    while let Some(row) = records.next()? {
        let record = PositionedRecord::of(db, row, &mut buffer)?;
        take_event(&stream.key, &mut fold, &record, &mut rows)?;
    }
    let Some(fold) = fold else {
        return Ok((None, rows));
    };
    for turn in fold.open {
        rows.turns
            .insert(turn.position, (stream.stream, turn.into()));
    }
    Ok((Some(fold.row), rows))
}

/// Returns the start of the fold of a stream whose oldest turns were pruned, with the values of the rows that outlived them. `None` if nothing was
/// pruned.
pub(super) fn base(
    db: &Connection,
    (stream, key): (u64, &StreamKey),
    before: Option<&ThreadRow>,
) -> DbResult<Option<ThreadFold>> {
    let mut gap = db.prepare_cached("SELECT 1 FROM pruned WHERE stream = ?1 AND turns = 1")?;
    let Some(before) = before else {
        return Ok(None);
    };
    if !gap.exists([int(stream)])? {
        return Ok(None);
    }
    let query = format!("SELECT {TURN} FROM turns WHERE stream = ?1 AND pruned = 1 ORDER BY place");
    let gone = turns_of(db, &query, [int(stream)], key)?;
    let mut counted = ForgottenTurns::of(db, stream)?;
    gone.iter().for_each(|turn| counted.add(turn));
    Ok(Some(ThreadFold {
        row: ThreadRow {
            seq: 0,
            turns: counted.turns,
            items: counted.items,
            usage: counted.usage,
            ..before.clone()
        },
        open: Vec::new(),
    }))
}
