//! Folding what the table does not have.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use windlass_core::events::Event;

use super::super::error::Fault;
use super::super::journal::named;
use super::super::numbers::{int, uint};
use super::super::record::Stored;
use super::super::run_rows::{Behind, Rows};
use super::super::spans::{IN_ORDER, NEWEST_FIRST, PLACED_COLUMNS, between};
use super::rows::owner;
use crate::journal::StreamKey;
use crate::journal::turn_runs::{RunFold, RunNews, RunRow};
use crate::runs::is_run_stream;

/// Returns the fold of a stream before one of its records: its turns that are open there.
pub(super) fn fold_before(
    connection: &Connection,
    name: &StreamKey,
    stream: u64,
    before: u64,
) -> Result<RunFold, Fault> {
    let mut fold = RunFold::of(owner(connection, stream)?);
    let mut statement = connection.prepare_cached(&format!(
        "SELECT open_from, last, position FROM placed WHERE stream = ?1 AND {} {NEWEST_FIRST} LIMIT 1",
        between!("1", "?2 - 1")
    ))?;
    let open_from = statement.query_row([int(stream), int(before)], |row| uint(row, 0));
    let from = open_from.optional()?.unwrap_or(0);
    if from > 0 {
        replay(
            connection,
            (stream, name),
            (from, before),
            |event, position| {
                fold.apply(event, (stream, position));
            },
        )?;
    }
    Ok(fold)
}

/// Goes through the events of a stream from one record until before another, without text chunks.
pub(super) fn replay(
    connection: &Connection,
    (stream, name): (u64, &StreamKey),
    (from, before): (u64, u64),
    mut each: impl FnMut(&Event, u64),
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} AND chunk = 0 {IN_ORDER}",
        between!("?2", "?3 - 1")
    ))?;
    let mut rows = statement.query([int(stream), int(from), int(before)])?;
    let mut buffer = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = Stored::from_row(connection, row, &mut buffer)?;
        each(&*stored.decode(name)?, uint(row, 6)?);
    }
    Ok(())
}

/// Follows the events of a stream with a fold, and keeps the rows that they make.
pub(super) fn collect(
    connection: &Connection,
    (stream, name): (u64, &StreamKey),
    from: u64,
    mut fold: RunFold,
    rows: &mut Rows<RunRow>,
) -> Result<RunFold, Fault> {
    let range = (from, i64::MAX as u64);
    replay(connection, (stream, name), range, |event, position| {
        if RunFold::concerns(&event.data) {
            match fold.apply(event, (stream, position)) {
                Some(RunNews::Row(row)) => drop(rows.insert(row.position, Arc::new(row))),
                Some(RunNews::Forked) => rows.retain(|_, row| row.stream != stream),
                Some(RunNews::Owner) | None => {}
            }
        }
    })?;
    Ok(fold)
}

/// Folds the rows of all turns that went on behind the position up to which the table is exact. A stream that cannot be
/// read has none.
pub(in super::super) fn fold_tail(
    connection: &Connection,
    behind: &Behind,
) -> Result<Rows<RunRow>, Fault> {
    let mut rows = Rows::new();
    for (&stream, &seq) in behind {
        let name = named(connection, stream)?;
        let Some(name) = name.filter(|name| !is_run_stream(name)) else {
            continue;
        };
        let mut of_stream = Rows::new();
        let folded = fold_before(connection, &name, stream, seq)
            .and_then(|fold| collect(connection, (stream, &name), seq, fold, &mut of_stream));
        match folded {
            Ok(_) => rows.append(&mut of_stream),
            Err(Fault::Journal(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(rows)
}
