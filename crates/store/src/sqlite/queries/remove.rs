//! Removal of rows with their streams, and of rows whose records were pruned earlier.

use std::ops::RangeInclusive;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use windlass_core::events::TokenUsage;

use super::retained::retain_turn;
use super::tables::{TURN, turns_of};
use crate::queries::TurnRow;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::journal::ancestry::shared_upto;
use crate::sqlite::journal::named;
use crate::sqlite::numbers::{first_value, int};

/// Removes a stream from all lists. Rows of its turns stay until they are [trimmed](trim).
pub(crate) fn hide(db: &Connection, stream: u64) -> DbResult<()> {
    let tables = ["threads", "thread_records", "waits", "runs", "open_streams"];
    delete_from(db, &tables, stream)
}

pub(super) fn delete_from(db: &Connection, tables: &[&str], stream: u64) -> DbResult<()> {
    for table in tables {
        let sql = format!("DELETE FROM {table} WHERE stream = ?1");
        db.execute_cached(&sql, [int(stream)])?;
    }
    Ok(())
}

/// Removes rows of turns that begin after a record, up to a limit; returns how many.
pub(crate) fn trim(db: &Connection, (stream, after): (u64, u64), limit: u64) -> DbResult<u64> {
    let sql = "DELETE FROM turns WHERE place IN (SELECT place FROM turns INDEXED BY turns_by_stream \
             WHERE stream = ?1 AND first > ?2 LIMIT ?3)";
    let removed = db.execute_cached(sql, [stream, after, limit].map(int))?;
    Ok(removed as u64)
}

/// Deletes rows of turns whose records were pruned, the oldest first and up to a limit; returns how many. Their usage is added to the row of the
/// thread. Rows that forks show stay.
pub(crate) fn forget(db: &Connection, stream: u64, limit: u64) -> DbResult<u64> {
    if shared_upto(db, stream)? > 0 {
        return Ok(0);
    }
    let Some(key) = named(db, stream)? else {
        return Ok(0);
    };
    let query = format!(
        "SELECT {TURN} FROM turns INDEXED BY turns_by_stream WHERE stream = ?1 AND pruned = 1 ORDER BY first LIMIT ?2"
    );
    let turns = turns_of(db, &query, [stream, limit].map(int), &key)?;
    let mut gone = ForgottenTurns::of(db, stream)?;
    for turn in &turns {
        gone.add(turn);
        retain_turn(db, turn)?;
        db.execute_cached("DELETE FROM turns WHERE place = ?1", [int(turn.position)])?;
        let last = turn.last_seq.unwrap_or(turn.seq);
        db.execute_cached(
            "DELETE FROM waits WHERE stream = ?1 AND seq BETWEEN ?2 AND ?3",
            [stream, turn.first_seq, last].map(int),
        )?;
    }
    if !turns.is_empty() {
        gone.put(db, stream)?;
    }
    Ok(turns.len() as u64)
}

/// Totals of turns whose rows were removed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct ForgottenTurns {
    pub(super) turns: u64,
    pub(super) items: u64,
    pub(super) usage: Option<TokenUsage>,
}

impl ForgottenTurns {
    /// Reads the totals of a thread.
    pub(super) fn of(db: &Connection, stream: u64) -> DbResult<Self> {
        let noted: Option<Option<String>> = db.find_row(
            "SELECT gone FROM threads WHERE stream = ?1",
            [int(stream)],
            first_value,
        )?;
        let noted = noted.flatten().map(|text| serde_json::from_str(&text));
        let noted = noted.transpose().map_err(|error| SqliteError::DamagedRow {
            what: "what the row of a thread says of forgotten turns".to_owned(),
            why: error.to_string(),
        })?;
        Ok(noted.unwrap_or_default())
    }

    pub(super) fn add(&mut self, turn: &TurnRow) {
        self.turns += 1;
        self.items += turn.view.outline.item_ids.len() as u64;
        if let Some(usage) = &turn.view.usage {
            self.usage.get_or_insert_default().add(usage);
        }
    }

    pub(super) fn put(&self, db: &Connection, stream: u64) -> DbResult<()> {
        let noted = serde_json::to_string(self)
            .map_err(|error| DbError::unavailable(format!("a row has no JSON: {error}")))?;
        db.execute_cached(
            "UPDATE threads SET gone = ?2 WHERE stream = ?1",
            (int(stream), noted),
        )?;
        Ok(())
    }
}

/// Marks turns as pruned: their rows stay, but they are no longer listed as runs.
pub(crate) fn mark_pruned(
    db: &Connection,
    stream: u64,
    gone: &RangeInclusive<u64>,
) -> DbResult<()> {
    db.execute_cached(
        "UPDATE turns SET pruned = 1 WHERE stream = ?1 AND first BETWEEN ?2 AND ?3",
        [stream, *gone.start(), *gone.end()].map(int),
    )?;
    Ok(())
}
