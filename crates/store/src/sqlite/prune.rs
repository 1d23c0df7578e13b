//! Taking out records, and keeping what the chain needs of them.
//!
//! The rows go, and their digests stay in one row for the whole range, so that the chain still verifies and a reader is
//! told which numbers are gone. What is damaged is not pruned: that would make the damage look like a decision. What a
//! fork shares stays, so that a gap may lie behind it.

use std::ops::RangeInclusive;

use rusqlite::Connection;

use super::ancestry::{Lineage, shared_upto};
use super::chain::Digest;
use super::error::Fault;
use super::journal::{StreamInfo, Walk};
use super::kept::drop_blobs;
use super::numbers::{int, uint};
use super::record::Stored;
use super::spans::{self, IN_ORDER, NEWEST_FIRST, PLACED_COLUMNS, between};
use super::turn_runs;
use super::writer::Work;

/// How many digests one row holds at most.
const MAX_DIGESTS: u64 = 4096;

/// Which records of a stream are taken out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    /// Pieces of text of ended turns, older than this.
    Chunks { before: i64 },
    /// All up to the last place between two turns that is older than this.
    Older { than: i64 },
    /// The oldest turns, until about so many records are gone.
    Oldest { count: u64 },
}

/// How many records one commit takes out.
const STEP: u64 = 1000;

/// Takes out some records of a stream; returns how many. Fewer than asked for means that no more are left.
pub(crate) fn prune(
    work: &mut Work<'_>,
    stream: &StreamInfo,
    which: Which,
    now: i64,
) -> Result<u64, Fault> {
    let head = work.state.heads.get(work.connection, stream.stream)?;
    // Neither the newest record nor anything of an open turn goes.
    let end = match head.open.first() {
        None => head.seq.saturating_sub(1),
        Some(first_open) => first_open - 1,
    };
    // Nor anything that a fork shares.
    let shared = shared_upto(work.connection, stream.stream)?;
    if !matches!(which, Which::Chunks { .. }) {
        // What is listed of a thread outlives its records; as runs, its turns go with them.
        let name = &stream.key;
        let projections = &mut work.state.projections;
        projections.settle(work.connection, stream.stream, name)?;
    }
    let connection = work.connection;
    let may_go = shared..=end;
    let numbers = match which {
        Which::Chunks { before } => chunks(connection, stream, &may_go, before)?,
        Which::Older { than } => {
            let last = older(connection, stream, &may_go, than)?;
            up_to(connection, stream, shared, last)?
        }
        Which::Oldest { count } => {
            let last = oldest(connection, stream, &may_go, count)?;
            up_to(connection, stream, shared, last)?
        }
    };
    let has_turns = !matches!(which, Which::Chunks { .. });
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        take_out(work, stream, run, has_turns, now)?;
    }
    if matches!(which, Which::Chunks { .. }) && (numbers.len() as u64) < STEP {
        let swept = numbers.last().copied().unwrap_or(0);
        work.connection
            .prepare_cached("UPDATE streams SET swept = max(swept, ?2) WHERE id = ?1")?
            .execute([int(stream.stream), int(swept)])?;
    }
    Ok(numbers.len() as u64)
}

type Numbers = Vec<u64>;

fn collect(
    connection: &Connection,
    query: &str,
    parameters: impl rusqlite::Params,
) -> Result<Numbers, Fault> {
    let mut statement = connection.prepare_cached(query)?;
    let numbers = statement.query_map(parameters, |row| uint(row, 0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

fn chunks(
    connection: &Connection,
    stream: &StreamInfo,
    may_go: &RangeInclusive<u64>,
    before: i64,
) -> Result<Numbers, Fault> {
    collect(
        connection,
        &format!(
            "SELECT seq, last, position FROM placed WHERE stream = ?1 AND chunk = 1 AND at < ?4 AND {} \
             {IN_ORDER} LIMIT ?5",
            between!(
                "1 + max(?2, (SELECT swept FROM streams WHERE id = ?1))",
                "?3"
            )
        ),
        (
            int(stream.stream),
            int(*may_go.start()),
            int(*may_go.end()),
            before,
            int(STEP),
        ),
    )
}

fn up_to(
    connection: &Connection,
    stream: &StreamInfo,
    after: u64,
    last: Option<u64>,
) -> Result<Numbers, Fault> {
    let Some(last) = last else {
        return Ok(Vec::new());
    };
    collect(
        connection,
        &format!(
            "SELECT seq, last, position FROM placed WHERE stream = ?1 AND {} {IN_ORDER} LIMIT ?4",
            between!("?2 + 1", "?3")
        ),
        [int(stream.stream), int(after), int(last), int(STEP)],
    )
}

/// Finds the last place between two turns that is old enough.
fn older(
    connection: &Connection,
    stream: &StreamInfo,
    may_go: &RangeInclusive<u64>,
    than: i64,
) -> Result<Option<u64>, Fault> {
    let found = collect(
        connection,
        &format!(
            "SELECT seq, last, position FROM placed WHERE stream = ?1 AND {} AND open_from = 0 AND at < ?4 \
             {NEWEST_FIRST} LIMIT 1",
            between!("?2 + 1", "?3")
        ),
        (
            int(stream.stream),
            int(*may_go.start()),
            int(*may_go.end()),
            than,
        ),
    )?;
    Ok(found.first().copied())
}

/// Finds the first place between two turns behind so many records, or the last one there is.
fn oldest(
    connection: &Connection,
    stream: &StreamInfo,
    may_go: &RangeInclusive<u64>,
    count: u64,
) -> Result<Option<u64>, Fault> {
    let mut numbers = collect(
        connection,
        &format!(
            "SELECT seq, last, position FROM placed WHERE stream = ?1 AND {} AND open_from = 0 {IN_ORDER} LIMIT ?4",
            between!("?2 + 1", "?3")
        ),
        [
            int(stream.stream),
            int(*may_go.start()),
            int(*may_go.end()),
            int(count),
        ],
    )?;
    Ok(numbers.pop())
}

/// Takes out records that follow each other.
fn take_out(
    work: &mut Work<'_>,
    stream: &StreamInfo,
    run: &[u64],
    has_turns: bool,
    now: i64,
) -> Result<(), Fault> {
    let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
        return Ok(());
    };
    let connection = work.connection;
    let range = [int(stream.stream), int(first), int(last)];
    let mut digests = Vec::with_capacity(run.len() * 32);
    let mut blobs = Vec::new();
    let end: Digest = {
        let chain = work.state.heads.chain();
        let lineage = Lineage::of(connection, &stream.key, stream.stream)?;
        let mut walk = Walk::after(connection, chain, lineage, first - 1)?;
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} {IN_ORDER}",
            between!("?2", "?3")
        ))?;
        let mut rows = statement.query(range)?;
        let mut buffer = Vec::new();
        while let Some(row) = rows.next()? {
            let stored = Stored::from_row(connection, row, &mut buffer)?;
            walk.step(&stored)?;
            let damaged = |what: String| walk.damaged(stored.seq, &what);
            let (_, digest) = stored.checked_bytes().map_err(damaged)?;
            digests.extend_from_slice(&digest);
            blobs.extend(stored.blob.map(<[u8]>::to_vec));
        }
        *walk.link()
    };
    turn_runs::remove(connection, stream.stream, &(first..=last))?;
    spans::remove(
        connection,
        &mut work.state.recent,
        stream.stream,
        first,
        last,
    )?;
    drop_blobs(connection, &blobs)?;
    work.state.lost_records = true;
    let gone = Gone {
        first,
        last,
        has_turns,
        chain: end,
        digests,
    };
    keep(connection, stream, &gone, now)
}

/// A range of records that were taken out.
struct Gone {
    first: u64,
    last: u64,
    /// Whether they are whole turns.
    has_turns: bool,
    chain: Digest,
    digests: Vec<u8>,
}

/// Keeps the digests: with the range just before, where that has room, or as a range of its own.
fn keep(connection: &Connection, stream: &StreamInfo, gone: &Gone, now: i64) -> Result<(), Fault> {
    let (stream, first, last) = (int(stream.stream), int(gone.first), int(gone.last));
    let (chain, digests) = (&gone.chain, &gone.digests);
    let joined = connection
        .prepare_cached(
            "UPDATE pruned SET last = ?3, pruned_at = ?4, chain = ?5, \
             digests = CAST(digests || ?6 AS BLOB), turns = max(turns, ?8) \
             WHERE stream = ?1 AND last = ?2 - 1 AND last - first < ?7",
        )?
        .execute((
            stream,
            first,
            last,
            now,
            chain,
            digests,
            int(MAX_DIGESTS),
            gone.has_turns,
        ))?;
    if joined == 0 {
        connection
            .prepare_cached(
                "INSERT INTO pruned (stream, first, last, pruned_at, chain, digests, turns) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute((stream, first, last, now, chain, digests, gone.has_turns))?;
    }
    Ok(())
}

/// Tells whether a step took out as much as it may, so that another one should follow.
pub(crate) fn is_full(pruned: u64) -> bool {
    pruned >= STEP
}
