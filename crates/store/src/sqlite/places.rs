//! Where the records of a stream are.
//!
//! The table of records grows at its end alone, and two tables say where those of a stream are: a large one, and a
//! small one for what came last (`schema/5.sql`). A commit writes to the small one only, of which there are few pages
//! however many streams there are; when it has [`MAX_RECENT`] rows they go to the large one together, in its order.
//! Both are as durable as the records, so nothing is to be made again after a crash. What is in the small
//! table comes behind all that the large one has of the same stream.

use rusqlite::Connection;

use super::error::Fault;
use super::numbers::{int, uint};
use super::schema::{PLACES, version};
use super::writer::Work;

/// How many places are recent.
const MAX_RECENT: u64 = 1024;

/// Names the position of a stream's newest record in a query; `$stream` is the stream there.
macro_rules! newest_position {
    ($stream:literal) => {
        concat!(
            "coalesce((SELECT position FROM recent_places WHERE stream = ",
            $stream,
            " ORDER BY seq DESC LIMIT 1), (SELECT position FROM places WHERE stream = ",
            $stream,
            " ORDER BY seq DESC LIMIT 1))"
        )
    };
}

/// Names the number of a stream's newest record in a query; it is NULL where there is none.
macro_rules! newest_seq {
    ($stream:literal) => {
        concat!(
            "coalesce((SELECT max(seq) FROM recent_places WHERE stream = ",
            $stream,
            "), (SELECT max(seq) FROM places WHERE stream = ",
            $stream,
            "))"
        )
    };
}

/// Names the position of a stream's oldest record in a query.
macro_rules! oldest_position {
    ($stream:literal) => {
        concat!(
            "coalesce((SELECT position FROM places WHERE stream = ",
            $stream,
            " ORDER BY seq LIMIT 1), (SELECT position FROM recent_places WHERE stream = ",
            $stream,
            " ORDER BY seq LIMIT 1))"
        )
    };
}

pub(super) use {newest_position, newest_seq, oldest_position};

/// Adds the place of a new record: its stream, its number there and its position.
pub(crate) const ADD_PLACE: &str =
    "INSERT INTO recent_places (stream, seq, position) VALUES (?1, ?2, ?3)";

/// What the writer knows of the small table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    /// How many rows it has, or had before some were taken out.
    rows: u64,
}

impl Recent {
    pub(crate) fn open(connection: &Connection) -> Result<Self, Fault> {
        let count = "SELECT count(*) FROM recent_places";
        let rows = connection.query_row(count, [], |row| uint(row, 0))?;
        Ok(Self { rows })
    }

    /// Notes that a row was added.
    pub(crate) fn note(&mut self) {
        self.rows += 1;
    }

    /// Tells whether the rows have become many.
    pub(crate) fn is_due(&self) -> bool {
        self.rows >= MAX_RECENT
    }

    /// Moves the rows to the large table if they have become many.
    pub(crate) fn settle_if_due(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if !self.is_due() {
            return Ok(());
        }
        connection
            .prepare_cached("INSERT INTO places SELECT * FROM recent_places ORDER BY stream, seq")?
            .execute([])?;
        connection
            .prepare_cached("DELETE FROM recent_places")?
            .execute([])?;
        self.rows = 0;
        Ok(())
    }
}

/// Returns the number of a stream's newest record; 0 where it has none.
pub(crate) fn newest(connection: &Connection, stream: u64) -> Result<u64, Fault> {
    let mut statement =
        connection.prepare_cached(concat!("SELECT coalesce(", newest_seq!("?1"), ", 0)"))?;
    Ok(statement.query_row([int(stream)], |row| uint(row, 0))?)
}

/// Takes the records of a stream out, from one number to another.
pub(crate) fn remove(
    connection: &Connection,
    stream: u64,
    first: u64,
    last: u64,
) -> Result<(), Fault> {
    let range = [int(stream), int(first), int(last)];
    for table in ["places", "recent_places"] {
        let which = "WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3";
        let records =
            format!("DELETE FROM records WHERE position IN (SELECT position FROM {table} {which})");
        connection.prepare_cached(&records)?.execute(range)?;
        let places = format!("DELETE FROM {table} {which}");
        connection.prepare_cached(&places)?.execute(range)?;
    }
    Ok(())
}

/// Makes both tables anew from the records. Of two records that claim one place, the second stays without; `verify` names
/// it.
pub(crate) fn rebuild(work: &mut Work<'_>) -> Result<(), Fault> {
    work.state.heads.forget_all();
    work.connection.execute_batch(
        "DELETE FROM recent_places; DELETE FROM places; \
         INSERT OR IGNORE INTO places SELECT stream, seq, position FROM records ORDER BY stream, seq",
    )?;
    Ok(())
}

/// Shows a database of an earlier version to a reader as if it had places.
pub(crate) fn stand_in(connection: &Connection) -> Result<(), Fault> {
    match (1..PLACES).contains(&version(connection)?) {
        true => make_stand_in(connection),
        false => Ok(()),
    }
}

/// Does something with a database on its way to the version that has places.
pub(crate) fn with_stand_in(
    connection: &Connection,
    work: fn(&Connection) -> Result<(), Fault>,
) -> Result<(), Fault> {
    make_stand_in(connection)?;
    work(connection)?;
    connection.flush_prepared_statement_cache();
    connection.execute_batch(
        "DROP VIEW temp.placed; DROP VIEW temp.recent_places; DROP VIEW temp.places",
    )?;
    Ok(())
}

fn make_stand_in(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch(
        "CREATE TEMP VIEW places AS SELECT stream, seq, position FROM records; \
         CREATE TEMP VIEW recent_places AS SELECT stream, seq, position FROM records WHERE 0; \
         CREATE TEMP VIEW placed AS SELECT * FROM records",
    )?;
    Ok(())
}
