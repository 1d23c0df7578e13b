//! Reading rows, and folding what they do not hold yet.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use windlass_core::events::Event;

use super::super::error::Fault;
use super::super::numbers::int;
use super::super::record::Stored;
use super::super::schema::{PROJECTIONS, version};
use super::super::spans::{IN_ORDER, PLACED_COLUMNS, from};
use super::fold::Fold;
use super::rows::{THREAD_COLUMNS, ThreadRow};
use crate::journal::StreamKey;

pub(super) fn thread_query() -> String {
    format!("SELECT {THREAD_COLUMNS} FROM threads WHERE stream = ?1")
}

/// Reads the row of a thread.
pub(super) fn thread(connection: &Connection, stream: u64) -> Result<Option<ThreadRow>, Fault> {
    let mut statement = connection.prepare_cached(&thread_query())?;
    Ok(statement
        .query_row([int(stream)], ThreadRow::read)
        .optional()?)
}

/// Goes on from the rows of a stream to its end.
pub(super) fn fold(connection: &Connection, name: &StreamKey, stream: u64) -> Result<Fold, Fault> {
    let row = thread(connection, stream)?;
    let mut fold = row.as_ref().map(Fold::resume).unwrap_or_default();
    let after = fold.taken().seq;
    replay(connection, name, stream, after, |event, bytes| {
        fold.weigh(bytes);
        fold.apply(event);
        Ok(())
    })?;
    Ok(fold)
}

pub(super) fn replay_query() -> String {
    format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} AND chunk = 0 {IN_ORDER}",
        from!("?2 + 1")
    )
}

/// Goes through the events behind a record, without text chunks; with each comes its size.
pub(super) fn replay(
    connection: &Connection,
    name: &StreamKey,
    stream: u64,
    after: u64,
    mut each: impl FnMut(&Arc<Event>, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(&replay_query())?;
    let mut rows = statement.query([int(stream), int(after)])?;
    let mut buffer = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = Stored::from_row(connection, row, &mut buffer)?;
        each(&stored.decode(name)?, stored.len())?;
    }
    Ok(())
}

/// Says what to do where a database of an earlier version is read as it is.
pub(super) fn ready(connection: &Connection) -> Result<(), Fault> {
    if version(connection)? < PROJECTIONS {
        let why =
            "this database lists nothing yet; open it once for writing to bring it up to date";
        return Err(Fault::unavailable(why));
    }
    Ok(())
}
