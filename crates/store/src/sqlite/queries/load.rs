//! The fold of one stream: restored from its rows and advanced record by record.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use rusqlite::{Connection, Row};
use windlass_core::runs::RunRecord;

use super::tables::{TURN, WAIT, find_run, find_thread, turns_of, wait};
use super::tail::ReadModelRows;
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::journal::{JournalError, StreamKey};
use crate::queries::fold::{Changed, ThreadFold};
use crate::queries::usage::TurnUsage;
use crate::queries::{TurnRow, WaitRow};
use crate::runs::{StoredRun, is_run_stream};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::{holder, is_retained};
use crate::sqlite::journal::number;
use crate::sqlite::numbers::{int, uint};
use crate::sqlite::stores::runs::{as_stored, begun, decode as decode_run};

/// A record to fold into rows.
pub(super) struct PositionedRecord<'a> {
    pub(super) stored: StoredRecord<'a>,
    pub(super) position: u64,
    pub(super) stream: u64,
    /// Whether it is a text chunk; a later record contains the whole text.
    is_chunk: bool,
    at: DateTime<Utc>,
}

impl<'a> PositionedRecord<'a> {
    /// Reads a row with the columns of a record, and then position, stream, chunk and time.
    pub(super) fn of(
        db: &Connection,
        row: &'a Row<'_>,
        buffer: &'a mut RecordBuffer,
    ) -> DbResult<Self> {
        Ok(Self {
            stored: StoredRecord::from_row(db, row, buffer)?,
            position: uint(row, 5)?,
            stream: uint(row, 6)?,
            is_chunk: row.get(7)?,
            at: DateTime::from_timestamp_millis(row.get(8)?).unwrap_or_default(),
        })
    }
}

/// The fold of one stream.
#[derive(Debug)]
pub(super) enum Folded {
    /// The fold of a session; empty before its first record.
    Thread {
        key: StreamKey,
        /// Whether it was removed and is retained for its forks. It is then no thread, and its forks show its turns.
        is_retained: bool,
        fold: Option<Box<ThreadFold>>,
        /// The newest record that is in the rows.
        shown: u64,
    },
    /// The fold of an externally reported run.
    Run {
        key: StreamKey,
        run: Option<Box<StoredRun>>,
    },
    /// A stream that was removed or has a record that cannot be read. Its rows stay unchanged; reading the stream returns the error.
    Left,
}

impl Folded {
    /// Restores a stream's fold from its rows.
    pub(super) fn load(db: &Connection, newer: &ReadModelRows, stream: u64) -> DbResult<Self> {
        let Some(key) = holder(db, stream)? else {
            return Ok(Self::Left);
        };
        if is_run_stream(&key) {
            let run = match newer.runs.get(&stream) {
                Some(run) => Some(StoredRun::clone(run)),
                None => find_run(db, stream)?,
            };
            let run = run.map(Box::new);
            return Ok(Self::Run { key, run });
        }
        let is_retained = is_retained(db, stream)?;
        let row = match newer.threads.get(&stream) {
            Some(row) => Some((**row).clone()),
            // The row of a removed thread is deleted, but its turns may still have to end.
            None if is_retained => Some(ThreadFold::begin(&key, DateTime::UNIX_EPOCH).row),
            None => find_thread(db, stream)?,
        };
        let fold = match row {
            Some(row) => {
                let open = open_turns(db, newer, stream, &key)?;
                Some(Box::new(ThreadFold { row, open }))
            }
            None => None,
        };
        Ok(Self::Thread {
            shown: fold.as_ref().map_or(0, |fold| fold.row.seq),
            is_retained,
            key,
            fold,
        })
    }

    /// Returns the newest record that it has folded.
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Thread { fold, .. } => fold.as_ref().map_or(0, |fold| fold.row.seq),
            Self::Run { run, .. } => run.as_ref().map_or(0, |run| run.head()),
            Self::Left => 0,
        }
    }

    /// Returns the usage of turns that have no end, for a stream that is removed.
    pub(super) fn open_usage(&self) -> Vec<TurnUsage> {
        let Self::Thread {
            fold: Some(fold), ..
        } = self
        else {
            return Vec::new();
        };
        let open = fold.open.iter();
        open.filter_map(|turn| TurnUsage::at_removal(turn, fold.row.at))
            .collect()
    }

    /// Folds one record. A record that the rows already include changes nothing.
    pub(super) fn apply(
        &mut self,
        db: &Connection,
        record: &PositionedRecord<'_>,
        rows: &mut ReadModelRows,
    ) -> DbResult<()> {
        rows.touched.insert(record.stream, record.position);
        let (seq, before) = (record.stored.seq, self.seq());
        if seq <= before {
            return Ok(());
        }
        let follows = before == 0 || seq == before + 1;
        let is_read = (follows || is_gap(db, record.stream, before + 1)?)
            && match self {
                Self::Thread { key, fold, .. } => take_event(key, fold, record, rows).is_ok(),
                Self::Run { key, run } => take_record(db, key, run, record)?.is_ok(),
                Self::Left => true,
            };
        if !is_read {
            self.show(record.stream, rows);
            *self = Self::Left;
        }
        Ok(())
    }

    /// Publishes the folded rows.
    pub(super) fn show(&mut self, stream: u64, rows: &mut ReadModelRows) {
        match self {
            Self::Thread {
                fold: Some(fold),
                is_retained,
                shown,
                ..
            } => {
                for turn in fold.open.iter().filter(|turn| turn.seq > *shown) {
                    rows.turns
                        .insert(turn.position, (stream, Arc::new(turn.clone())));
                }
                if !*is_retained && fold.row.seq > *shown {
                    rows.threads.insert(stream, Arc::new(fold.row.clone()));
                }
                *shown = fold.row.seq;
            }
            Self::Run { run: Some(run), .. } => {
                rows.runs.insert(stream, Arc::new((**run).clone()));
            }
            _ => {}
        }
    }
}

pub(super) fn take_event(
    key: &StreamKey,
    fold: &mut Option<Box<ThreadFold>>,
    record: &PositionedRecord<'_>,
    rows: &mut ReadModelRows,
) -> Result<(), JournalError> {
    if let (Some(fold), true) = (&mut *fold, record.is_chunk) {
        fold.skip(record.stored.seq, record.at);
        return Ok(());
    }
    let event = record.stored.decode(key)?;
    let begin = || Box::new(ThreadFold::begin(key, event.ts));
    let mut changed = Changed::default();
    let fold = fold.get_or_insert_with(begin);
    fold.apply(&event, record.position, &mut changed);
    let stream = record.stream;
    for turn in changed.ended {
        rows.turns.insert(turn.position, (stream, Arc::new(turn)));
    }
    for wait in changed.waits {
        rows.waits.insert((stream, wait.exec_id), wait);
    }
    Ok(())
}

/// An unreadable record of a run does not hide the run: it was a turn, because the start and the end are read.
fn take_record(
    db: &Connection,
    key: &StreamKey,
    run: &mut Option<Box<StoredRun>>,
    record: &PositionedRecord<'_>,
) -> DbResult<Result<(), JournalError>> {
    match (&mut *run, decode_run(&record.stored, key)) {
        (None, Ok(RunRecord::Started(started))) => {
            let start = (record.stream, record.position);
            *run = Some(Box::new(begun(db, start, &started)?));
        }
        (Some(run), Ok(decoded)) => {
            run.summary.apply(&decoded);
            as_stored(&mut run.summary);
        }
        (Some(run), Err(_)) => run.summary.turn_count += 1,
        (None, Err(error)) => return Ok(Err(error)),
        (None, Ok(_)) => {}
    }
    Ok(Ok(()))
}

/// Returns whether retention removed a record.
fn is_gap(db: &Connection, stream: u64, seq: u64) -> DbResult<bool> {
    Ok(db.has_rows(
        "SELECT 1 FROM pruned WHERE stream = ?1 AND first <= ?2 AND last >= ?2",
        [int(stream), int(seq)],
    )?)
}

/// Returns the turns of a stream that have no end, in the order in which they began.
fn open_turns(
    db: &Connection,
    newer: &ReadModelRows,
    stream: u64,
    key: &StreamKey,
) -> DbResult<Vec<TurnRow>> {
    let query =
        format!("SELECT {TURN} FROM turns INDEXED BY turns_open WHERE stream = ?1 AND status = 0");
    let mut turns = turns_of(db, &query, [int(stream)], key)?;
    turns.retain(|turn| !newer.turns.contains_key(&turn.position));
    let fresh = newer.turns.values().filter(|(of, _)| *of == stream);
    let fresh = fresh.filter(|(_, turn)| turn.last_seq.is_none());
    turns.extend(fresh.map(|(_, turn)| (**turn).clone()));
    turns.sort_unstable_by_key(|turn| turn.position);
    if !turns.is_empty() {
        set_waits(&mut turns, &open_waits(db, newer, stream, key)?);
    }
    Ok(turns)
}

/// Assigns open waits to their turns.
pub(super) fn set_waits(turns: &mut [TurnRow], waits: &[WaitRow]) {
    for turn in turns.iter_mut().filter(|turn| turn.last_seq.is_none()) {
        let of_turn = waits.iter().filter(|wait| wait.turn_id == turn.view.id);
        turn.waits = of_turn.cloned().collect();
    }
}

/// Returns the open waits of a stream, in the order in which they began.
pub(super) fn open_waits(
    db: &Connection,
    newer: &ReadModelRows,
    stream: u64,
    key: &StreamKey,
) -> DbResult<Vec<WaitRow>> {
    let found = db.list_rows(
        &format!(
            "SELECT {WAIT} FROM waits INDEXED BY waits_open WHERE stream = ?1 AND is_open = 1"
        ),
        [int(stream)],
        |row| wait(row, key),
    )?;
    let mut waits: Vec<WaitRow> = found;
    waits.retain(|wait| !newer.waits.contains_key(&(stream, wait.exec_id)));
    let fresh = newer.waits.iter().filter(|((of, _), _)| *of == stream);
    let fresh = fresh.map(|(_, wait)| wait).filter(|wait| wait.is_open);
    waits.extend(fresh.cloned());
    waits.sort_unstable_by_key(|wait| wait.seq);
    Ok(waits)
}

/// Finds the current row of a run by its ID.
pub(super) fn run_now(
    db: &Connection,
    newer: &ReadModelRows,
    key: &StreamKey,
) -> DbResult<Option<StoredRun>> {
    let Some(stream) = number(db, key)? else {
        return Ok(None);
    };
    match newer.runs.get(&stream) {
        Some(run) => Ok(Some(StoredRun::clone(run))),
        None => find_run(db, stream),
    }
}
