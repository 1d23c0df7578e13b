//! Streams with an open turn or a waiting input, for the resume at startup.
//!
//! The newest record of a stream shows whether a turn is open. The table is updated when rows are written, for the streams that have newer records.
//! So every open stream is in the table or has a record after that position, and the cost does not depend on the number of streams.

use rusqlite::Connection;

use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::spans::newest_position;
use crate::sqlite::numbers::int;

/// Notes whether a turn of a stream is open.
pub(super) fn note(db: &Connection, stream: u64) -> DbResult<()> {
    let is_open = db.has_rows(
        concat!(
            "SELECT 1 FROM streams CROSS JOIN records ON position = ",
            newest_position!("?1"),
            " WHERE id = ?1 AND open_from > 0"
        ),
        [int(stream)],
    )?;
    let change = if is_open {
        "INSERT OR IGNORE INTO open_streams (stream) VALUES (?1)"
    } else {
        "DELETE FROM open_streams WHERE stream = ?1"
    };
    db.execute_cached(change, [int(stream)])?;
    Ok(())
}

/// Rebuilds the table.
pub(super) fn fill(db: &Connection) -> DbResult<()> {
    db.execute_batch(concat!(
        "DELETE FROM open_streams; INSERT INTO open_streams SELECT streams.id FROM streams \
         CROSS JOIN records AS newest ON newest.position = ",
        newest_position!("streams.id"),
        " WHERE newest.open_from > 0"
    ))?;
    Ok(())
}

pub(super) const OPEN: &str = concat!(
    "SELECT streams.key FROM (SELECT stream FROM open_streams UNION \
     SELECT stream FROM records WHERE position > (SELECT folded FROM state)) AS known \
     CROSS JOIN streams ON streams.id = known.stream CROSS JOIN records AS newest ON newest.position = ",
    newest_position!("known.stream"),
    " WHERE newest.open_from > 0 AND streams.key > ?1 ORDER BY streams.key LIMIT ?2"
);

/// Lists the streams by name, after a given one.
pub(crate) fn open_streams(
    reader: &Connection,
    after: &str,
    limit: usize,
) -> DbResult<Vec<StreamKey>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(reader.list_rows(OPEN, (after, limit), |row| {
        Ok(StreamKey::new(row.get::<_, String>(0)?))
    })?)
}
