//! Batches: the rows of a stream that were written together.
//!
//! They go to the ends of their tables, where SQLite adds a row without moving others: rows in the order of their streams would
//! go into the middle, and each flush would write their neighbours' pages anew. So the key of a row is the number of its batch
//! and its place in the stream, and the table of batches says which ones a stream has and where each begins. Of two batches of
//! a stream, the one with the greater number has the greater places.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::error::Fault;
use super::super::numbers::{int, key, uint};
use super::super::schema::{BATCHES, FORKS, PROJECTIONS, version};

/// The tables whose rows lie in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Turns,
    Items,
    Messages,
}

impl Table {
    pub(super) const ALL: [Self; 3] = [Self::Turns, Self::Items, Self::Messages];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Items => "items",
            Self::Messages => "messages",
        }
    }
}

/// A place in each of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places(pub(super) [u64; 3]);

impl Places {
    pub(super) fn of(self, table: Table) -> u64 {
        self.0[table as usize]
    }
}

/// Rows of a stream that were written together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    pub(super) number: u64,
    /// Where it begins.
    pub(super) first: Places,
}

impl Batch {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            number: uint(row, 0)?,
            first: Places([uint(row, 1)?, uint(row, 2)?, uint(row, 3)?]),
        })
    }

    /// Returns the keys that its rows have within places.
    pub(super) fn keys(&self, places: &Range<u64>) -> [i64; 2] {
        [places.start, places.end].map(|place| key(self.number, place))
    }
}

/// The places that there can be.
pub(super) const EVERYWHERE: Range<u64> = 0..1 << 32;

/// Begins a batch behind all others, also those of which only rows are left, and returns its number.
pub(super) fn begin(connection: &Connection, stream: u64, first: Places) -> Result<u64, Fault> {
    let newest = connection
        .prepare_cached(
            "SELECT max(coalesce((SELECT max(batch) FROM batches), 0), coalesce((SELECT max(key) >> 32 FROM turns), 0), \
             coalesce((SELECT max(key) >> 32 FROM items), 0), coalesce((SELECT max(key) >> 32 FROM messages), 0))",
        )?
        .query_row([], |row| uint(row, 0))?;
    let number = newest + 1;
    let [turns, items, messages] = first.0;
    connection
        .prepare_cached(
            "INSERT INTO batches (batch, stream, turns, items, messages) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute([number, stream, turns, items, messages].map(int))?;
    Ok(number)
}

/// Goes through the batches of a stream that hold rows of a table within places, newest first. Each is looked up when it is
/// asked for.
pub(super) fn within(
    connection: &Connection,
    stream: u64,
    table: Table,
    places: Range<u64>,
) -> impl Iterator<Item = Result<Batch, Fault>> {
    let mut last: Option<Batch> = None;
    let mut is_over = places.is_empty();
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let next = match last {
            None => holding(connection, stream, table, places.end - 1),
            Some(batch) => upto(connection, stream, batch.number - 1),
        };
        last = next.as_ref().ok().copied().flatten();
        is_over = last.is_none_or(|batch| batch.first.of(table) <= places.start);
        next.transpose()
    })
}

/// Returns the newest batch of a stream that begins at a place or before it.
fn holding(
    connection: &Connection,
    stream: u64,
    table: Table,
    place: u64,
) -> Result<Option<Batch>, Fault> {
    let is_before = |batch: &Batch| batch.first.of(table) <= place;
    let newest = upto(connection, stream, i64::MAX as u64)?;
    let Some(newest) = newest.filter(|batch| !is_before(batch)) else {
        return Ok(newest);
    };
    // Numbers grow with places, so the range of those that it may have is halved.
    let (mut low, mut high) = (0, newest.number);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match upto(connection, stream, middle)? {
            Some(batch) if !is_before(&batch) => high = batch.number,
            batch => (low, found) = (middle + 1, batch.or(found)),
        }
    }
    Ok(found)
}

pub(super) const UPTO_QUERY: &str = "SELECT batch, turns, items, messages FROM batches \
                                     WHERE stream = ?1 AND batch <= ?2 ORDER BY batch DESC LIMIT 1";

/// Returns the newest batch of a stream that has no greater number.
fn upto(connection: &Connection, stream: u64, number: u64) -> Result<Option<Batch>, Fault> {
    let mut statement = connection.prepare_cached(UPTO_QUERY)?;
    let found = statement.query_row([stream, number].map(int), Batch::read);
    Ok(found.optional()?)
}

/// Returns all batches of a stream, oldest first.
pub(super) fn all(connection: &Connection, stream: u64) -> Result<Vec<Batch>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT batch, turns, items, messages FROM batches WHERE stream = ?1 ORDER BY batch",
    )?;
    let batches = statement.query_map([int(stream)], Batch::read)?;
    Ok(batches.collect::<Result<_, _>>()?)
}

fn numbers(connection: &Connection, stream: u64) -> Result<Vec<u64>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT batch FROM batches WHERE stream = ?1 ORDER BY batch")?;
    let numbers = statement.query_map([int(stream)], |row| uint(row, 0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Counts the rows of a table with keys from one up to another.
pub(super) fn count(
    connection: &Connection,
    table: Table,
    [from, to]: [i64; 2],
) -> Result<u64, Fault> {
    let query = format!(
        "SELECT count(*) FROM {} WHERE key >= ?1 AND key < ?2",
        table.name()
    );
    let mut statement = connection.prepare_cached(&query)?;
    Ok(statement.query_row([from, to], |row| uint(row, 0))?)
}

/// Removes the rows of a stream from places on, and the batches that are left without any.
pub(super) fn remove_from(
    connection: &Connection,
    stream: u64,
    places: Places,
) -> Result<(), Fault> {
    remove_some_from(connection, stream, places, u64::MAX).map(drop)
}

/// The same for at most so many rows; returns how many.
pub(super) fn remove_some_from(
    connection: &Connection,
    stream: u64,
    places: Places,
    limit: u64,
) -> Result<u64, Fault> {
    let within = |number, table| [key(number, places.of(table)), key(number + 1, 0)];
    remove(connection, stream, within, limit)
}

/// Removes the rows of a stream before places, at most so many; returns how many.
pub(super) fn remove_some_before(
    connection: &Connection,
    stream: u64,
    places: Places,
    limit: u64,
) -> Result<u64, Fault> {
    let within = |number, table| [key(number, 0), key(number, places.of(table))];
    remove(connection, stream, within, limit)
}

/// Removes the rows that lie within the keys of their batch and table, and the batches that are left without any.
fn remove(
    connection: &Connection,
    stream: u64,
    within: impl Fn(u64, Table) -> [i64; 2],
    limit: u64,
) -> Result<u64, Fault> {
    let mut removed = 0;
    for number in numbers(connection, stream)? {
        let mut left = 0;
        for table in Table::ALL {
            let name = table.name();
            let [from, to] = within(number, table);
            removed += connection
                .prepare_cached(&format!(
                    "DELETE FROM {name} WHERE key IN \
                     (SELECT key FROM {name} WHERE key >= ?1 AND key < ?2 LIMIT ?3)"
                ))?
                .execute([from, to, int(limit - removed)])? as u64;
            left += count(connection, table, [key(number, 0), key(number + 1, 0)])?;
        }
        if left == 0 {
            connection
                .prepare_cached("DELETE FROM batches WHERE batch = ?1")?
                .execute([int(number)])?;
        }
        if removed >= limit {
            break;
        }
    }
    Ok(removed)
}

/// Shows a database of an earlier version to a reader as if it had batches: one for each stream.
pub(crate) fn stand_in(connection: &Connection) -> Result<(), Fault> {
    let version = version(connection)?;
    if !(PROJECTIONS..BATCHES).contains(&version) {
        return Ok(());
    }
    let kept = match version < FORKS {
        true => "",
        false => " UNION ALL SELECT stream, stream, 0, 0, 0 FROM kept",
    };
    connection.execute_batch(&format!(
        "CREATE TEMP VIEW batches AS SELECT id AS stream, id AS batch, 0 AS turns, 0 AS items, 0 AS messages \
         FROM streams{kept}; \
         CREATE TEMP VIEW turns AS SELECT *, key >> 32 AS stream FROM main.turns"
    ))?;
    Ok(())
}
