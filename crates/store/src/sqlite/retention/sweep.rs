//! Readers that find the data that a sweep of retention removes.
//!
//! No writer waits for a reader, and each read is short. The writer then removes the results, a few in each commit. Results stay valid meanwhile:
//! records do not change, and records before an open turn stay before it. The writer skips records that a fork has shared since.

use rusqlite::{Connection, Row};

use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::shared_upto;
use crate::sqlite::journal::spans::{IN_ORDER, NEWEST_FIRST, between, newest_seq};
use crate::sqlite::journal::{StreamInfo, find};
use crate::sqlite::numbers::{first_number, int, uint};
use crate::sqlite::queries::tail::folded;

/// The number of streams or records per read.
pub(crate) const LOOK: u64 = 256;

/// The names of run streams sort between these two.
const RUNS: [&str; 2] = ["run:", "run;"];

/// A stream of a session in a sweep.
#[derive(Debug, Clone)]
pub(crate) struct Swept {
    pub(crate) key: StreamKey,
    pub(crate) stream: u64,
    head: u64,
    /// No text chunks are left up to this record.
    swept: u64,
    /// The stream's last record when nothing in it could expire any more.
    aged: u64,
}

impl Swept {
    /// Applies the stored mark of the stream.
    pub(crate) fn note(&mut self, note: Option<SweepMark>) {
        match note {
            Some(SweepMark::Swept(seq)) => self.swept = seq,
            Some(SweepMark::Aged(seq)) => self.aged = seq,
            None => {}
        }
    }
}

/// Lists some streams of sessions after a name. Streams of runs are numerous and are skipped.
pub(crate) fn streams(reader: &Connection, after: Option<&StreamKey>) -> DbResult<Vec<Swept>> {
    let after = after.map_or("", StreamKey::as_str);
    let [first_run, behind_runs] = RUNS;
    let mut found = Vec::new();
    if after < first_run {
        found = page(reader, after, first_run)?;
    }
    if found.is_empty() {
        // No name is as great as this one.
        found = page(reader, after.max(behind_runs), "\u{10ffff}")?;
    }
    Ok(found)
}

fn page(reader: &Connection, after: &str, before: &str) -> DbResult<Vec<Swept>> {
    Ok(reader.list_rows(
        concat!(
            "SELECT key, id, coalesce(",
            newest_seq!("streams.id"),
            ", 0), swept, aged FROM streams WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?3"
        ),
        (after, before, int(LOOK)),
        |row| {
            Ok(Swept {
                key: StreamKey::new(row.get::<_, String>(0)?),
                stream: uint(row, 1)?,
                head: uint(row, 2)?,
                swept: uint(row, 3)?,
                aged: uint(row, 4)?,
            })
        },
    )?)
}

/// The planned removals in a stream.
#[derive(Debug, Default)]
pub(crate) struct SweepPlan {
    pub(crate) records: Vec<SweptRecord>,
    /// The mark to store after the removal.
    pub(crate) note: Option<SweepMark>,
    /// Whether there may be more.
    pub(crate) is_more: bool,
}

/// A mark of a stream, so that the next sweep can skip it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepMark {
    /// No text chunks are left up to this record.
    Swept(u64),
    /// The stream's last record when nothing in it could expire any more.
    Aged(u64),
}

/// A record that a sweep may remove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SweptRecord {
    pub(crate) seq: u64,
    pub(crate) bytes: u64,
    /// Whether no turn is open after it.
    pub(crate) is_boundary: bool,
    position: u64,
    at: i64,
    is_chunk: bool,
}

impl SweptRecord {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: uint(row, 0)?,
            position: uint(row, 2)?,
            bytes: uint(row, 3)?,
            at: row.get(4)?,
            is_chunk: row.get(5)?,
            is_boundary: row.get(6)?,
        })
    }
}

/// Reads the records of a stream after a number and up to another, at most [`LOOK`] of them.
fn look(reader: &Connection, stream: u64, after: u64, last: u64) -> DbResult<Vec<SweptRecord>> {
    Ok(reader.list_rows(&format!(
        "SELECT seq, last, position, CASE form WHEN 1 THEN coalesce((SELECT length(bytes) FROM blobs WHERE hash = body), 0) \
         ELSE length(body) END, at, chunk, open_from = 0 FROM placed WHERE stream = ?1 AND {} {IN_ORDER} LIMIT ?4",
        between!("?2 + 1", "?3")
    ), [stream, after, last, LOOK].map(int), SweptRecord::from_row)?)
}

/// The records of a stream that may be removed now.
struct Prunable {
    after: u64,
    end: u64,
    /// Whether `end` does not wait for rows.
    is_all: bool,
}

fn prunable(reader: &Connection, stream: &StreamInfo) -> DbResult<Prunable> {
    // The newest record, open turns and shared records of forks always stay. Records that are in no row yet stay too, because the rows outlive the
    // records.
    let end = match stream.open_from {
        None => stream.head.saturating_sub(1),
        Some(first_open) => first_open - 1,
    };
    let folded = upto_folded(reader, stream.stream)?;
    Ok(Prunable {
        after: shared_upto(reader, stream.stream)?,
        end: end.min(folded),
        is_all: end <= folded,
    })
}

/// Returns the newest record of a stream that is in its rows.
pub(crate) fn upto_folded(db: &Connection, stream: u64) -> DbResult<u64> {
    let upto = [int(stream), int(folded(db)?)];
    Ok(db.find_row(&format!(
        "SELECT seq, last, position FROM placed WHERE stream = ?1 AND position <= ?2 {NEWEST_FIRST} LIMIT 1"
    ), upto, first_number)?.unwrap_or(0))
}

/// Finds text chunks of ended turns that are older than a time.
pub(crate) fn old_chunks(reader: &Connection, of: &Swept, before: i64) -> DbResult<SweepPlan> {
    let mut plan = SweepPlan::default();
    if of.swept + 1 >= of.head {
        return Ok(plan);
    }
    let Some(stream) = find(reader, &of.key)? else {
        return Ok(plan);
    };
    let Prunable { after, end, .. } = prunable(reader, &stream)?;
    let mut upto = of.swept.max(after);
    if upto >= end {
        return Ok(plan);
    }
    let records = look(reader, stream.stream, upto, end)?;
    plan.is_more = records.len() as u64 == LOOK;
    for record in records {
        if record.is_chunk && record.at >= before {
            plan.is_more = false;
            plan.note = Some(SweepMark::Swept(upto));
            return Ok(plan);
        }
        if record.is_chunk {
            plan.records.push(record);
        }
        upto = record.seq;
    }
    if !plan.is_more {
        upto = end;
    }
    plan.note = Some(SweepMark::Swept(upto));
    Ok(plan)
}

/// The end of the records to remove.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// Up to the last boundary between two turns that is older than this.
    Time(i64),
    /// Up to the last boundary between two turns that is not after this position.
    Position(u64),
}

impl Until {
    fn is_reached(self, record: &SweptRecord) -> bool {
        match self {
            Self::Time(time) => record.at >= time,
            Self::Position(position) => record.position > position,
        }
    }
}

/// Finds the oldest whole turns of a stream.
pub(crate) fn old_turns(reader: &Connection, of: &Swept, until: Until) -> DbResult<SweepPlan> {
    let mut plan = SweepPlan::default();
    if matches!(until, Until::Time(_)) && of.aged == of.head {
        return Ok(plan);
    }
    let Some(stream) = find(reader, &of.key)? else {
        return Ok(plan);
    };
    let Prunable {
        mut after,
        end,
        is_all,
    } = prunable(reader, &stream)?;
    // The number of records before the last boundary between two turns.
    let mut whole = 0;
    let is_at_end = loop {
        let records = if after < end {
            look(reader, stream.stream, after, end)?
        } else {
            Vec::new()
        };
        let is_last = (records.len() as u64) < LOOK;
        let mut is_reached = false;
        for record in records {
            if until.is_reached(&record) {
                is_reached = true;
                break;
            }
            after = record.seq;
            plan.records.push(record);
            if record.is_boundary {
                whole = plan.records.len();
            }
        }
        if is_last || is_reached {
            break is_last && !is_reached;
        }
        if whole > 0 {
            plan.is_more = true;
            break false;
        }
    };
    plan.records.truncate(whole);
    if is_at_end && is_all && matches!(until, Until::Time(_)) {
        plan.note = Some(SweepMark::Aged(stream.head));
    }
    Ok(plan)
}

/// Lists the streams of the oldest records after a position, each once, with the position of the last record read.
pub(crate) fn oldest_streams(
    reader: &Connection,
    after: u64,
) -> DbResult<Option<(Vec<Swept>, u64)>> {
    let mut statement = reader.prepare_cached(
        "SELECT position, stream FROM records WHERE position > ?1 ORDER BY position LIMIT ?2",
    )?;
    let rows = statement.query_map([after, LOOK].map(int), |row| {
        Ok((uint(row, 0)?, uint(row, 1)?))
    })?;
    let mut last = None;
    let mut numbers: Vec<u64> = Vec::new();
    for row in rows {
        let (position, stream) = row?;
        last = Some(position);
        if !numbers.contains(&stream) {
            numbers.push(stream);
        }
    }
    let Some(last) = last else {
        return Ok(None);
    };
    let mut streams = Vec::new();
    for stream in numbers {
        // A stream that is retained for forks, or is being deleted, has no key in `streams`.
        if let Some(key) = crate::sqlite::journal::named(reader, stream)? {
            streams.push(Swept {
                key,
                stream,
                head: 0,
                swept: 0,
                aged: 0,
            });
        }
    }
    Ok(Some((streams, last)))
}
