//! What a sweep of retention takes out, found by readers.
//!
//! Nobody waits for a reader, and each look is short. The writer then takes out what was found, a little in each commit. What was
//! found stays true meanwhile: records do not change, and what lies before an open turn stays before it; what a fork has come to
//! share since, the writer leaves alone.

use rusqlite::{Connection, OptionalExtension, Row};

use super::ancestry::shared_upto;
use super::error::Fault;
use super::journal::{StreamInfo, find};
use super::numbers::{int, uint};
use super::queries::tail::folded;
use super::spans::{IN_ORDER, NEWEST_FIRST, between, newest_seq};
use crate::journal::StreamKey;

/// How many streams or records one look goes through.
pub(super) const LOOK: u64 = 256;

/// The names of runs lie between these two.
const RUNS: [&str; 2] = ["run:", "run;"];

/// A stream of a session, as a sweep finds it.
#[derive(Debug, Clone)]
pub(super) struct Swept {
    pub(super) key: StreamKey,
    pub(super) stream: u64,
    head: u64,
    /// Up to here no pieces of text are left.
    swept: u64,
    /// Where it ended when nothing of it could get too old any more.
    aged: u64,
}

impl Swept {
    /// Takes over what was noted of the stream.
    pub(super) fn note(&mut self, note: Option<SweepMark>) {
        match note {
            Some(SweepMark::Swept(seq)) => self.swept = seq,
            Some(SweepMark::Aged(seq)) => self.aged = seq,
            None => {}
        }
    }
}

/// Lists some streams of sessions behind a name. Those of runs are many, and are not looked at.
pub(super) fn streams(reader: &Connection, after: Option<&StreamKey>) -> Result<Vec<Swept>, Fault> {
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

fn page(reader: &Connection, after: &str, before: &str) -> Result<Vec<Swept>, Fault> {
    let mut statement = reader.prepare_cached(concat!(
        "SELECT key, id, coalesce(",
        newest_seq!("streams.id"),
        ", 0), swept, aged FROM streams WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?3"
    ))?;
    let streams = statement.query_map((after, before, int(LOOK)), |row| {
        Ok(Swept {
            key: StreamKey::new(row.get::<_, String>(0)?),
            stream: uint(row, 1)?,
            head: uint(row, 2)?,
            swept: uint(row, 3)?,
            aged: uint(row, 4)?,
        })
    })?;
    Ok(streams.collect::<Result<_, _>>()?)
}

/// A record that is to be taken out, with its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepFinding {
    pub(super) seq: u64,
    pub(super) bytes: u64,
}

/// What is to be done about a stream.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) records: Vec<SweepFinding>,
    /// What to note of the stream when they are gone.
    pub(super) note: Option<SweepMark>,
    /// Whether there may be more.
    pub(super) is_more: bool,
}

/// What is noted of a stream, so that the next sweep need not look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepMark {
    /// Up to here no pieces of text are left.
    Swept(u64),
    /// Where it ended when nothing of it could get too old.
    Aged(u64),
}

/// A record as a sweep looks at it.
struct Looked {
    found: SweepFinding,
    position: u64,
    at: i64,
    is_chunk: bool,
    is_place: bool,
}

impl Looked {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            found: SweepFinding {
                seq: uint(row, 0)?,
                bytes: uint(row, 3)?,
            },
            position: uint(row, 2)?,
            at: row.get(4)?,
            is_chunk: row.get(5)?,
            is_place: row.get(6)?,
        })
    }
}

/// Looks at the records of a stream behind a number and up to another, at most [`LOOK`] of them.
fn look(reader: &Connection, stream: u64, after: u64, last: u64) -> Result<Vec<Looked>, Fault> {
    let mut statement = reader.prepare_cached(&format!(
        "SELECT seq, last, position, CASE form WHEN 1 THEN coalesce((SELECT length(bytes) FROM blobs WHERE hash = body), 0) \
         ELSE length(body) END, at, chunk, open_from = 0 FROM placed WHERE stream = ?1 AND {} {IN_ORDER} LIMIT ?4",
        between!("?2 + 1", "?3")
    ))?;
    let records = statement.query_map([stream, after, last, LOOK].map(int), Looked::read)?;
    Ok(records.collect::<Result<_, _>>()?)
}

/// The records of a stream that may be removed now.
struct Prunable {
    after: u64,
    end: u64,
    /// Whether `end` does not wait for rows.
    is_all: bool,
}

fn prunable(reader: &Connection, stream: &StreamInfo) -> Result<Prunable, Fault> {
    // Neither the newest record nor anything of an open turn goes, nor what a fork shares. What is in no row yet stays: what is
    // listed of a thread outlives its records.
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
pub(super) fn upto_folded(connection: &Connection, stream: u64) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT seq, last, position FROM placed WHERE stream = ?1 AND position <= ?2 {NEWEST_FIRST} LIMIT 1"
    ))?;
    let upto = [int(stream), int(folded(connection)?)];
    let found = statement.query_row(upto, |row| uint(row, 0));
    Ok(found.optional()?.unwrap_or(0))
}

/// Finds pieces of text of ended turns that are older than a time.
pub(super) fn old_chunks(reader: &Connection, of: &Swept, before: i64) -> Result<Plan, Fault> {
    let mut plan = Plan::default();
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
    for record in &records {
        if record.is_chunk && record.at >= before {
            plan.is_more = false;
            plan.note = Some(SweepMark::Swept(upto));
            return Ok(plan);
        }
        if record.is_chunk {
            plan.records.push(record.found);
        }
        upto = record.found.seq;
    }
    if !plan.is_more {
        upto = end;
    }
    plan.note = Some(SweepMark::Swept(upto));
    Ok(plan)
}

/// Until when records go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// Up to the last place between two turns that is older than this.
    Time(i64),
    /// Up to the last place between two turns that does not lie behind this position.
    Position(u64),
}

impl Until {
    fn is_reached(self, record: &Looked) -> bool {
        match self {
            Self::Time(time) => record.at >= time,
            Self::Position(position) => record.position > position,
        }
    }
}

/// Finds the oldest whole turns of a stream.
pub(super) fn old_turns(reader: &Connection, of: &Swept, until: Until) -> Result<Plan, Fault> {
    let mut plan = Plan::default();
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
    // How many of the records lie before the last place between two turns.
    let mut whole = 0;
    let is_at_end = loop {
        let records = match after < end {
            true => look(reader, stream.stream, after, end)?,
            false => Vec::new(),
        };
        let is_last = (records.len() as u64) < LOOK;
        let mut is_reached = false;
        for record in records {
            if until.is_reached(&record) {
                is_reached = true;
                break;
            }
            after = record.found.seq;
            plan.records.push(record.found);
            if record.is_place {
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

/// Lists the streams of the oldest records behind a position, each once, with the position of the last record that was looked at.
pub(super) fn oldest_streams(
    reader: &Connection,
    after: u64,
) -> Result<Option<(Vec<Swept>, u64)>, Fault> {
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
        // What is kept for forks, or is being taken out, has no name here.
        if let Some(key) = super::journal::named(reader, stream)? {
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
