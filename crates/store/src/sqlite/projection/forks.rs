//! What is listed of a fork: its rows go on where those of its parent are at the place where it begins.

use rusqlite::{Connection, OptionalExtension};

use super::super::ancestry::{Lineage, Part, is_kept, shared_upto};
use super::super::error::Fault;
use super::super::fork::replay;
use super::super::numbers::{int, uint};
use super::super::schema::{FORKS, version};
use super::base::{base_behind, gone};
use super::batches::{Places, remove_from, remove_some_from};
use super::fold::Fold;
use super::marks;
use super::rows::{Base, ThreadRow};
use super::write::put_thread;
use crate::journal::fork::{BUSY, refused};

/// Makes the rows of a fork that begins behind a record of another stream, whose own rows reach at least to there.
pub(crate) fn begin_fork(
    connection: &Connection,
    child: u64,
    holder: &Part,
    at_seq: u64,
) -> Result<(), Fault> {
    let (base, missing) = base_at(connection, holder, at_seq)?;
    for mark in &missing {
        marks::put(connection, holder.stream, mark)?;
    }
    marks::put(connection, child, &base)?;
    put_thread(connection, child, &row_at(&base))
}

/// Returns the row of a thread that ends at a place between turns.
fn row_at(base: &Base) -> ThreadRow {
    ThreadRow {
        is_open: false,
        is_waiting: false,
        activity: base.activity,
        latest: base.latest,
        now: base.mark,
        upto: base.mark,
    }
}

/// Returns what the row of a stream would say that is kept for its forks; `None` of any other.
pub(super) fn kept_row(connection: &Connection, stream: u64) -> Result<Option<ThreadRow>, Fault> {
    if version(connection)? < FORKS || !is_kept(connection, stream)? {
        return Ok(None);
    }
    let base = last_fork(connection, stream, shared_upto(connection, stream)?)?;
    Ok(base.map(|base| {
        let mut row = row_at(&base);
        // Nobody shows it, so that it need not be the row of some record.
        row.now.seq = u64::MAX;
        row
    }))
}

/// Returns what there is at a record between turns, folded from the last mark before it, and the marks that are missing on the way.
pub(super) fn base_at(
    connection: &Connection,
    holder: &Part,
    at_seq: u64,
) -> Result<(Base, Vec<Base>), Fault> {
    let alone = Lineage::alone(&holder.key, holder.stream);
    let from = start(connection, holder, at_seq)?;
    let mut fold = Fold::after(from);
    let mut missing = Vec::new();
    replay(connection, &alone, from.mark.seq, at_seq, |event| {
        fold.apply(event);
        if fold.is_due() {
            fold.take();
            missing.push(*fold.base());
        }
    })?;
    if fold.is_open() {
        return Err(refused(&holder.key, at_seq, BUSY).into());
    }
    let mut base = *fold.base();
    base.mark.seq = at_seq;
    Ok((base, missing))
}

/// Returns the last place before a record that a fold can go on from.
fn start(connection: &Connection, holder: &Part, at_seq: u64) -> Result<Base, Fault> {
    let mark = marks::last(connection, holder.stream, at_seq)?.unwrap_or_default();
    let gone = gone(connection, holder.stream, at_seq)?;
    match gone > mark.mark.seq {
        true => base_behind(connection, &holder.key, holder.stream, gone),
        false => Ok(mark),
    }
}

/// Returns what the first mark of a fork must say, from its parent.
pub(super) fn fork_base(connection: &Connection, lineage: &Lineage) -> Result<Base, Fault> {
    let at_seq = lineage.own().after;
    Ok(base_at(connection, lineage.part_of(at_seq), at_seq)?.0)
}

/// Takes a stream out of the lists.
pub(crate) fn hide(connection: &Connection, stream: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM threads WHERE stream = ?1")?
        .execute([int(stream)])?;
    Ok(())
}

/// Removes what is listed of a stream, but for the rows that its forks share, and at most so many rows; returns how many.
pub(crate) fn trim(
    connection: &Connection,
    (stream, shared): (u64, u64),
    limit: u64,
) -> Result<u64, Fault> {
    let base = match shared {
        0 => None,
        _ => last_fork(connection, stream, shared)?,
    };
    let shown = base.unwrap_or_default().mark.places();
    let removed = remove_some_from(connection, stream, shown, limit)?;
    if removed < limit {
        marks::remove(connection, stream, shared)?;
    }
    Ok(removed)
}

/// Returns where a fork begins that shares the most of a stream.
fn last_fork(connection: &Connection, stream: u64, shared: u64) -> Result<Option<Base>, Fault> {
    let fork = connection
        .prepare_cached("SELECT stream FROM forks WHERE parent = ?1 AND parent_seq = ?2 LIMIT 1")?
        .query_row([int(stream), int(shared)], |row| uint(row, 0))
        .optional()?;
    match fork {
        Some(fork) => marks::at(connection, fork, shared),
        None => Ok(None),
    }
}

/// Removes all rows of a stream that cannot be read.
pub(super) fn remove(connection: &Connection, stream: u64) -> Result<(), Fault> {
    hide(connection, stream)?;
    remove_from(connection, stream, Places::default())
}
