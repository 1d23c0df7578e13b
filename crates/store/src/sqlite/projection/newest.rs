//! Rows of threads that are newer than the table.
//!
//! The row of a thread changes at least twice in a turn, and a commit writes whole pages: written each time, such rows cost
//! as much as the records. So the newest ones stay in memory and go to the table together, many at a time.
//! `state.projected` says up to which position the table is exact. After a crash, the rows of streams with newer
//! records are folded again, and so does whoever reads the database of another process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::super::error::Fault;
use super::super::journal::named;
use super::super::numbers::{int, uint};
use super::load;
use super::rows::ThreadRow;
use crate::runs::is_run_stream;

/// How many rows stay in memory.
pub(crate) const MAX_ROWS: usize = 512;
/// How many records may be newer than the table is exact: what is looked through after a crash.
pub(crate) const MAX_RECORDS: u64 = 8192;

/// The newest rows by their streams.
pub(super) type ThreadRows = HashMap<u64, ThreadRow>;

/// What the writer and those who list share.
#[derive(Debug, Default)]
pub(crate) struct Newest(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    by_stream: ThreadRows,
    /// Raised when a row goes, so that a reader notices when the table and the rows do not belong together.
    generation: u64,
}

impl Newest {
    pub(super) fn new(by_stream: ThreadRows) -> Self {
        Self(Mutex::new(Rows {
            by_stream,
            generation: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn rows(&self) -> (ThreadRows, u64) {
        let rows = self.lock();
        (rows.by_stream.clone(), rows.generation)
    }

    pub(super) fn row(&self, stream: u64) -> Option<ThreadRow> {
        self.lock().by_stream.get(&stream).copied()
    }

    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn len(&self) -> usize {
        self.lock().by_stream.len()
    }

    /// Takes over what a commit has made durable: rows that are newer than the table, and streams whose rows are in it.
    pub(super) fn publish(&self, news: impl Iterator<Item = (u64, Option<ThreadRow>)>) {
        let mut rows = self.lock();
        for (stream, row) in news {
            match row {
                Some(row) => drop(rows.by_stream.insert(stream, row)),
                None if rows.by_stream.remove(&stream).is_some() => rows.generation += 1,
                None => {}
            }
        }
    }

    /// Forgets all rows: the table has them.
    pub(super) fn clear(&self) {
        let mut rows = self.lock();
        rows.by_stream.clear();
        rows.generation += 1;
    }
}

/// Returns up to which position the table is exact.
pub(super) fn projected(connection: &Connection) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT projected FROM state")?;
    Ok(statement.query_row([], |row| uint(row, 0))?)
}

/// Notes up to which position the table is exact.
pub(super) fn note_projected(connection: &Connection, position: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE state SET projected = ?1")?
        .execute([int(position)])?;
    Ok(())
}

pub(super) const TAIL_QUERY: &str = "SELECT DISTINCT stream FROM records WHERE position > ?1";

/// Folds the rows of all streams with records behind the position up to which the table is exact. A stream that cannot be
/// read has none.
pub(super) fn fold_newest(connection: &Connection) -> Result<ThreadRows, Fault> {
    let after = projected(connection)?;
    let mut statement = connection.prepare_cached(TAIL_QUERY)?;
    let streams = statement.query_map([int(after)], |row| uint(row, 0))?;
    let mut rows = ThreadRows::new();
    for stream in streams {
        let stream = stream?;
        let name = named(connection, stream)?;
        let Some(name) = name.filter(|name| !is_run_stream(name)) else {
            continue;
        };
        match load::fold(connection, &name, stream) {
            Ok((fold, _)) => drop(rows.insert(stream, fold.thread())),
            Err(Fault::Journal(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(rows)
}
