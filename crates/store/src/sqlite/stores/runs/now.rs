//! The current state of runs, from their records.

use chrono::SubsecRound;
use rusqlite::Connection;
use windlass_core::runs::{RunRecord, RunStarted, RunSummary};

use super::decode;
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::journal::StreamKey;
use crate::runs::StoredRun;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::spans::{IN_ORDER, NEWEST_FIRST, PLACED_COLUMNS, at};
use crate::sqlite::numbers::{int, uint};

/// Truncates times to the microsecond, as stored.
pub(crate) fn as_stored(summary: &mut RunSummary) {
    summary.started_at = summary.started_at.trunc_subsecs(6);
    summary.ended_at = summary.ended_at.map(|at| at.trunc_subsecs(6));
}

/// Finds the stream of a run and the position of its first record.
fn first_record(db: &Connection, key: &StreamKey) -> DbResult<Option<(u64, u64)>> {
    Ok(db.find_row(
        concat!(
            "SELECT stream, position FROM placed WHERE ",
            at!("1"),
            " AND stream = (SELECT id FROM streams WHERE key = ?1)"
        ),
        [key.as_str()],
        |row| Ok((uint(row, 0)?, uint(row, 1)?)),
    )?)
}

/// Returns the current state of a run from its first and its newest record. The records between are not read: there may be many, and damage there
/// must not hide the run.
pub(crate) fn current(db: &Connection, key: &StreamKey) -> DbResult<Option<StoredRun>> {
    let Some((stream, position)) = first_record(db, key)? else {
        return Ok(None);
    };
    let first = one(db, (stream, key), concat!("AND ", at!("1")))?;
    let Some((_, Some(RunRecord::Started(started)))) = first else {
        return Ok(None);
    };
    let mut run = begun(db, (stream, position), &started)?;
    let newest = one(db, (stream, key), NEWEST_FIRST)?;
    if let Some((seq, record)) = newest.filter(|(seq, _)| *seq > run.head()) {
        let end = record.filter(|record| matches!(record, RunRecord::Ended(_)));
        run.summary.turn_count = seq - 1 - u64::from(end.is_some());
        end.iter().for_each(|end| run.summary.apply(end));
    }
    as_stored(&mut run.summary);
    Ok(Some(run))
}

/// Reads one record of a run, if it can be read, with its number.
fn one(
    db: &Connection,
    (stream, key): (u64, &StreamKey),
    which: &str,
) -> DbResult<Option<(u64, Option<RunRecord>)>> {
    let mut statement = db.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 {which} LIMIT 1"
    ))?;
    let mut rows = statement.query([int(stream)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut buffer = RecordBuffer::default();
    let stored = StoredRecord::from_row(db, row, &mut buffer)?;
    Ok(Some((stored.seq, decode(&stored, key).ok())))
}

/// Folds a run from all its records.
pub(crate) fn fold(
    db: &Connection,
    (stream, key): (u64, &StreamKey),
) -> DbResult<Option<StoredRun>> {
    let mut run: Option<StoredRun> = None;
    let mut statement = db.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 {IN_ORDER}"
    ))?;
    let mut rows = statement.query([int(stream)])?;
    let mut buffer = RecordBuffer::default();
    while let Some(row) = rows.next()? {
        let stored = StoredRecord::from_row(db, row, &mut buffer)?;
        match (&mut run, decode(&stored, key)?) {
            (None, RunRecord::Started(started)) => {
                run = Some(begun(db, (stream, uint(row, 6)?), &started)?);
            }
            (Some(run), record) => run.summary.apply(&record),
            (None, _) => {}
        }
    }
    if let Some(run) = &mut run {
        as_stored(&mut run.summary);
    }
    Ok(run)
}

/// Returns the epoch of a run's stream and the client that may write to it. They are not in the records of the run.
pub(crate) fn writer(db: &Connection, stream: u64) -> DbResult<(u64, String)> {
    let sql = "SELECT epoch, coalesce(client, '') FROM streams WHERE id = ?1";
    let found = db.find_row(sql, [int(stream)], |row| Ok((uint(row, 0)?, row.get(1)?)))?;
    Ok(found.unwrap_or_default())
}

/// Returns a run as it was when it began, with its current writer.
pub(crate) fn begun(
    db: &Connection,
    (stream, position): (u64, u64),
    started: &RunStarted,
) -> DbResult<StoredRun> {
    let (epoch, client) = writer(db, stream)?;
    let mut summary = RunSummary::new(started);
    as_stored(&mut summary);
    Ok(StoredRun {
        position,
        summary,
        client,
        epoch,
        stream,
    })
}
