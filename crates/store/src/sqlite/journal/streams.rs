//! The table of streams.

use rusqlite::{Connection, Row};

use super::spans::{newest_position, newest_seq};
use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::numbers::{first_number, first_value, int, uint};

/// A stream without its records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamInfo {
    pub key: StreamKey,
    /// Its number inside of this database.
    pub stream: u64,
    /// The number of its newest record.
    pub head: u64,
    /// The first record of the oldest turn that has no end; `None` when every turn has ended.
    pub open_from: Option<u64>,
}

/// The head and the open turn of a stream follow from its newest record, which is never pruned.
const INFO: &str = concat!(
    "SELECT streams.key, streams.id, coalesce(",
    newest_seq!("streams.id"),
    ", 0), coalesce(newest.open_from, 0) FROM streams LEFT JOIN records AS newest ON newest.position = ",
    newest_position!("streams.id")
);

fn info(row: &Row<'_>) -> rusqlite::Result<StreamInfo> {
    Ok(StreamInfo {
        key: StreamKey::new(row.get::<_, String>(0)?),
        stream: uint(row, 1)?,
        head: uint(row, 2)?,
        open_from: Some(uint(row, 3)?).filter(|from| *from > 0),
    })
}

/// Lists the streams of sessions. Streams of runs are numerous and have their own rows.
pub(crate) fn list(reader: &Connection) -> DbResult<Vec<StreamInfo>> {
    Ok(reader.list_rows(
        &format!("{INFO} WHERE streams.key < 'run:' OR streams.key >= 'run;' ORDER BY streams.key"),
        [],
        info,
    )?)
}

/// Lists the streams without reading their records, and returns the error that ended the listing early, if any.
pub(crate) fn names(reader: &Connection) -> (Vec<StreamInfo>, Option<DbError>) {
    list_names(reader, "SELECT key, id, 0, 0 FROM streams ORDER BY id")
}

pub(super) fn list_names(reader: &Connection, query: &str) -> (Vec<StreamInfo>, Option<DbError>) {
    let mut streams = Vec::new();
    let mut list_all = || -> DbResult<()> {
        for stream in reader.prepare_cached(query)?.query_map([], info)? {
            streams.push(stream?);
        }
        Ok(())
    };
    let error = list_all().err();
    (streams, error)
}

pub(crate) fn find(reader: &Connection, key: &StreamKey) -> DbResult<Option<StreamInfo>> {
    Ok(reader.find_row(
        &format!("{INFO} WHERE streams.key = ?1"),
        [key.as_str()],
        info,
    )?)
}

/// Returns the name of a stream.
pub(crate) fn named(db: &Connection, stream: u64) -> DbResult<Option<StreamKey>> {
    Ok(db
        .find_row(
            "SELECT key FROM streams WHERE id = ?1",
            [int(stream)],
            first_value::<String>,
        )?
        .map(StreamKey::new))
}

/// Returns the number of a stream.
pub(crate) fn number(db: &Connection, key: &StreamKey) -> DbResult<Option<u64>> {
    let sql = "SELECT id FROM streams WHERE key = ?1";
    Ok(db.find_row(sql, [key.as_str()], first_number)?)
}
