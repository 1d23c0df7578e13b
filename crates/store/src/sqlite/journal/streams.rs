//! Which streams there are.

use rusqlite::{Connection, OptionalExtension, Row};

use super::spans::{newest_position, newest_seq};
use crate::journal::StreamKey;
use crate::sqlite::error::Fault;
use crate::sqlite::numbers::{int, uint};

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

/// All of this follows from the newest record of a stream, which is never pruned.
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
pub(in super::super) fn list(reader: &Connection) -> Result<Vec<StreamInfo>, Fault> {
    let mut statement = reader.prepare_cached(&format!(
        "{INFO} WHERE streams.key < 'run:' OR streams.key >= 'run;' ORDER BY streams.key"
    ))?;
    let streams = statement.query_map([], info)?;
    Ok(streams.collect::<Result<_, _>>()?)
}

/// Lists the streams without reading their records, and returns the error that ended the listing early, if any.
pub(in super::super) fn names(reader: &Connection) -> (Vec<StreamInfo>, Option<Fault>) {
    let mut streams = Vec::new();
    let mut name_all = || -> Result<(), Fault> {
        let mut statement =
            reader.prepare_cached("SELECT key, id, 0, 0 FROM streams ORDER BY id")?;
        for stream in statement.query_map([], info)? {
            streams.push(stream?);
        }
        Ok(())
    };
    let trouble = name_all().err();
    (streams, trouble)
}

pub(in super::super) fn find(
    reader: &Connection,
    key: &StreamKey,
) -> Result<Option<StreamInfo>, Fault> {
    let mut statement = reader.prepare_cached(&format!("{INFO} WHERE streams.key = ?1"))?;
    Ok(statement.query_row([key.as_str()], info).optional()?)
}

/// Returns the name of a stream.
pub(in super::super) fn named(
    connection: &Connection,
    stream: u64,
) -> Result<Option<StreamKey>, Fault> {
    let mut statement = connection.prepare_cached("SELECT key FROM streams WHERE id = ?1")?;
    let name = statement.query_row([int(stream)], |row| row.get::<_, String>(0));
    Ok(name.optional()?.map(StreamKey::new))
}
