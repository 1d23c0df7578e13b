//! Removing a stream with all that only it holds.

use rusqlite::{Connection, OptionalExtension};

use super::super::doorbells::Ring;
use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::writer::Work;
use super::super::{places, projection};
use crate::journal::StreamKey;

pub(in super::super) fn remove(work: &mut Work<'_>, key: &StreamKey) -> Result<bool, Fault> {
    let connection = work.connection;
    let stream: Option<u64> = connection
        .prepare_cached("SELECT id FROM streams WHERE key = ?1")?
        .query_row([key.as_str()], |row| uint(row, 0))
        .optional()?;
    let Some(stream) = stream else {
        return Ok(false);
    };
    let blobs = blobs_of(connection, stream)?;
    // The row of a run has the position of its first record; a session has none.
    connection
        .prepare_cached(
            "DELETE FROM runs WHERE position = (SELECT position FROM placed WHERE stream = ?1 AND seq = 1)",
        )?
        .execute([int(stream)])?;
    places::remove(connection, stream, 0, u64::MAX)?;
    connection
        .prepare_cached("DELETE FROM pruned WHERE stream = ?1")?
        .execute([int(stream)])?;
    projection::remove(connection, stream)?;
    connection
        .prepare_cached("DELETE FROM streams WHERE id = ?1")?
        .execute([int(stream)])?;
    drop_blobs(connection, &blobs)?;
    work.state.heads.forget(stream);
    work.state.projections.give_up(stream);
    work.state.lost_records = true;
    work.state.rings.push(Ring::Removed(key.clone()));
    Ok(true)
}

fn blobs_of(connection: &Connection, stream: u64) -> Result<Vec<Vec<u8>>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT body FROM placed WHERE stream = ?1 AND form = 1")?;
    let names = statement.query_map([int(stream)], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Removes blobs, except those that a record still names.
pub(in super::super) fn drop_blobs(
    connection: &Connection,
    names: &[Vec<u8>],
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM blobs WHERE hash = ?1 \
         AND NOT EXISTS (SELECT 1 FROM records WHERE form = 1 AND body = ?1)",
    )?;
    for name in names {
        statement.execute([name])?;
    }
    Ok(())
}
