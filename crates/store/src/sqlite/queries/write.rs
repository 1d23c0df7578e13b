//! Writing rows to the tables, with the position up to which they are exact then.

use std::collections::HashMap;

use rusqlite::Connection;

use super::open;
use super::tables::{put_run, put_thread, put_turn, put_wait};
use super::tail::ReadModelRows;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ancestry::{is_retained, shared_upto};
use crate::sqlite::journal::named;
use crate::sqlite::numbers::int;

/// Writes rows and the position up to which the tables are then exact.
pub(crate) fn write(db: &Connection, rows: &ReadModelRows, upto: u64) -> DbResult<()> {
    write_part(db, rows)?;
    db.execute_cached(
        "UPDATE state SET folded = ?1 WHERE folded < ?1",
        [int(upto)],
    )?;
    Ok(())
}

/// Writes a part of the rows, without those of streams that were removed since.
pub(super) fn write_part(db: &Connection, rows: &ReadModelRows) -> DbResult<()> {
    let mut visible = VisibleRecords {
        db,
        by_stream: HashMap::new(),
    };
    for (stream, thread) in &rows.threads {
        if visible.last_of(*stream)? == u64::MAX {
            put_thread(db, *stream, thread)?;
        }
    }
    for (stream, turn) in rows.turns.values() {
        if turn.first_seq <= visible.last_of(*stream)? {
            put_turn(db, *stream, turn)?;
        }
    }
    for ((stream, _), wait) in &rows.waits {
        if visible.last_of(*stream)? == u64::MAX {
            put_wait(db, *stream, wait)?;
        }
    }
    for (stream, run) in &rows.runs {
        if visible.last_of(*stream)? == u64::MAX {
            put_run(db, run)?;
        }
    }
    for stream in rows.touched.keys() {
        open::note(db, *stream)?;
    }
    Ok(())
}

/// A cache of the visible records of streams.
struct VisibleRecords<'a> {
    db: &'a Connection,
    by_stream: HashMap<u64, u64>,
}

impl VisibleRecords<'_> {
    /// Returns the last record of a stream that is visible: all of an existing stream, the shared records of one that was removed, and 0 for any
    /// other.
    fn last_of(&mut self, stream: u64) -> DbResult<u64> {
        if let Some(upto) = self.by_stream.get(&stream) {
            return Ok(*upto);
        }
        let upto = match named(self.db, stream)? {
            Some(_) => u64::MAX,
            None if is_retained(self.db, stream)? => shared_upto(self.db, stream)?,
            None => 0,
        };
        self.by_stream.insert(stream, upto);
        Ok(upto)
    }
}
