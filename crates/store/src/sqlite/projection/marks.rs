//! Marks: how much there was at places between turns.
//!
//! One is written with the rows of turns, every [`FLUSH_AFTER`](super::FLUSH_AFTER) events or so. So whoever begins in the middle of a
//! stream, as a fork does, folds that many events and not all that lie before. The first mark of a fork is where it
//! begins: its own rows go on from the places that are counted there.

use rusqlite::{Connection, OptionalExtension};

use super::super::error::Fault;
use super::super::numbers::{int, key};
use super::codes::Coded;
use super::rows::{BASE_COLUMNS, Base};
use super::write::usage;

pub(super) fn put(connection: &Connection, stream: u64, base: &Base) -> Result<(), Fault> {
    let Base {
        mark,
        latest,
        activity,
    } = base;
    connection
        .prepare_cached(
            "REPLACE INTO marks (key, turns, items, messages, usage, latest_turn, latest_status, activity) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            key(stream, mark.seq),
            int(mark.turns),
            int(mark.items),
            int(mark.messages),
            usage(mark.usage)?,
            latest.map(|(turn, _)| *turn.uuid().as_bytes()),
            latest.map(|(_, status)| status.code()),
            activity,
        ))?;
    Ok(())
}

pub(super) fn last_query() -> String {
    format!(
        "SELECT {BASE_COLUMNS} FROM marks WHERE key >= ?1 AND key <= ?2 ORDER BY key DESC LIMIT 1"
    )
}

/// Returns the last mark of a stream that does not lie behind a record.
pub(super) fn last(connection: &Connection, stream: u64, upto: u64) -> Result<Option<Base>, Fault> {
    let mut statement = connection.prepare_cached(&last_query())?;
    let keys = [key(stream, 0), key(stream, upto)];
    Ok(statement.query_row(keys, Base::read).optional()?)
}

/// Returns the mark of a stream at a record.
pub(super) fn at(connection: &Connection, stream: u64, seq: u64) -> Result<Option<Base>, Fault> {
    Ok(last(connection, stream, seq)?.filter(|base| base.mark.seq == seq))
}

/// Returns all marks of a stream behind a record.
pub(super) fn behind(connection: &Connection, stream: u64, seq: u64) -> Result<Vec<Base>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {BASE_COLUMNS} FROM marks WHERE key > ?1 AND key < ?2 ORDER BY key"
    ))?;
    let keys = [key(stream, seq), key(stream + 1, 0)];
    let marks = statement.query_map(keys, Base::read)?;
    Ok(marks.collect::<Result<_, _>>()?)
}

/// Removes the marks of a stream behind a record.
pub(super) fn remove(connection: &Connection, stream: u64, behind: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM marks WHERE key > ?1 AND key < ?2")?
        .execute([key(stream, behind), key(stream + 1, 0)])?;
    Ok(())
}
