//! Taking out records, and keeping what the chain needs of them.
//!
//! The rows go, and their digests stay in one row for the whole range, so that the chain still verifies and a reader is
//! told which numbers are gone. What is damaged is not pruned: that would make the damage look like a decision.

use rusqlite::Connection;

use super::chain::Digest;
use super::error::Fault;
use super::journal::{StreamInfo, Walk, drop_blobs};
use super::numbers::{int, uint};
use super::places;
use super::record::{STORED_COLUMNS, Stored};
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
    if !matches!(which, Which::Chunks { .. }) {
        // What is listed outlives its records.
        let name = &stream.key;
        let projections = &mut work.state.projections;
        projections.settle(work.connection, stream.stream, name)?;
    }
    let numbers = match which {
        Which::Chunks { before } => chunks(work.connection, stream, end, before)?,
        Which::Older { than } => up_to(
            work.connection,
            stream,
            older(work.connection, stream, end, than)?,
        )?,
        Which::Oldest { count } => up_to(
            work.connection,
            stream,
            oldest(work.connection, stream, end, count)?,
        )?,
    };
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        take_out(work, stream, run, now)?;
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
    end: u64,
    before: i64,
) -> Result<Numbers, Fault> {
    collect(
        connection,
        "SELECT seq FROM placed WHERE stream = ?1 AND chunk = 1 AND at < ?3 AND seq <= ?2 \
         AND seq > (SELECT swept FROM streams WHERE id = ?1) ORDER BY seq LIMIT ?4",
        (int(stream.stream), int(end), before, int(STEP)),
    )
}

fn up_to(
    connection: &Connection,
    stream: &StreamInfo,
    last: Option<u64>,
) -> Result<Numbers, Fault> {
    let Some(last) = last else {
        return Ok(Vec::new());
    };
    collect(
        connection,
        "SELECT seq FROM placed WHERE stream = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3",
        [int(stream.stream), int(last), int(STEP)],
    )
}

/// Finds the last place between two turns that is old enough.
fn older(
    connection: &Connection,
    stream: &StreamInfo,
    end: u64,
    than: i64,
) -> Result<Option<u64>, Fault> {
    let found = collect(
        connection,
        "SELECT seq FROM placed WHERE stream = ?1 AND seq <= ?2 AND open_from = 0 AND at < ?3 \
         ORDER BY seq DESC LIMIT 1",
        (int(stream.stream), int(end), than),
    )?;
    Ok(found.first().copied())
}

/// Finds the first place between two turns behind so many records, or the last one there is.
fn oldest(
    connection: &Connection,
    stream: &StreamInfo,
    end: u64,
    count: u64,
) -> Result<Option<u64>, Fault> {
    let mut numbers = collect(
        connection,
        "SELECT seq FROM placed WHERE stream = ?1 AND seq <= ?2 AND open_from = 0 \
         ORDER BY seq LIMIT ?3",
        [int(stream.stream), int(end), int(count)],
    )?;
    Ok(numbers.pop())
}

/// Takes out records that follow each other.
fn take_out(work: &mut Work<'_>, stream: &StreamInfo, run: &[u64], now: i64) -> Result<(), Fault> {
    let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
        return Ok(());
    };
    let connection = work.connection;
    let range = [int(stream.stream), int(first), int(last)];
    let mut digests = Vec::with_capacity(run.len() * 32);
    let mut blobs = Vec::new();
    let end: Digest = {
        let chain = work.state.heads.chain();
        let mut walk = Walk::after(connection, chain, stream.clone(), first - 1)?;
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {STORED_COLUMNS} FROM placed \
             WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq"
        ))?;
        let mut rows = statement.query(range)?;
        while let Some(row) = rows.next()? {
            let stored = Stored::from_row(connection, row)?;
            walk.step(&stored)?;
            let damaged = |what: String| walk.damaged(stored.seq, &what);
            let (_, digest) = stored.checked_bytes().map_err(damaged)?;
            digests.extend_from_slice(&digest);
            blobs.extend(stored.blob.map(<[u8]>::to_vec));
        }
        *walk.link()
    };
    places::remove(connection, stream.stream, first, last)?;
    drop_blobs(connection, &blobs)?;
    work.state.lost_records = true;
    keep(connection, stream, first, last, (&end, &digests), now)
}

/// Keeps the digests: with the range just before, where that has room, or as a range of its own.
fn keep(
    connection: &Connection,
    stream: &StreamInfo,
    first: u64,
    last: u64,
    (chain, digests): (&Digest, &[u8]),
    now: i64,
) -> Result<(), Fault> {
    let joined = connection
        .prepare_cached(
            "UPDATE pruned SET last = ?3, pruned_at = ?4, chain = ?5, \
             digests = CAST(digests || ?6 AS BLOB) \
             WHERE stream = ?1 AND last = ?2 - 1 AND last - first < ?7",
        )?
        .execute((
            int(stream.stream),
            int(first),
            int(last),
            now,
            chain,
            digests,
            int(MAX_DIGESTS),
        ))?;
    if joined == 0 {
        connection
            .prepare_cached(
                "INSERT INTO pruned (stream, first, last, pruned_at, chain, digests) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((
                int(stream.stream),
                int(first),
                int(last),
                now,
                chain,
                digests,
            ))?;
    }
    Ok(())
}

/// Tells whether a step took out as much as it may, so that another one should follow.
pub(crate) fn is_full(pruned: u64) -> bool {
    pruned >= STEP
}
