//! The rows of runs, as far as their tables do not have them yet: of turns, and of runs from outside.
//!
//! A row changes when its run starts, goes on, waits and ends, and a commit writes whole pages. So the newest rows stay in memory and
//! go to the tables together, as those of threads do, most of them once; `state.turn_runs` says up to which position the tables are
//! exact. Whoever lists sees both. After a crash, and in another process that only reads, what is newer is folded.

mod list;
mod newest;
mod unwritten;

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use super::error::Fault;
use super::numbers::{int, uint};
use super::turn_runs::TurnRuns;
use super::{runs, turn_runs};
use crate::journal::turn_runs::RunRow;
use crate::runs::KeptRun;

pub(super) use list::{Part, list};
use newest::Load;
pub(super) use newest::{NewestRuns, Rows};
pub(super) use unwritten::Unwritten;

/// How many rows of a kind stay in memory.
const MAX_ROWS: usize = 1024;
/// How many bytes they may have.
const MAX_BYTES: usize = 1024 * 1024;
/// How many records may be newer than the tables are exact: what is looked through after a crash.
const MAX_RECORDS: u64 = 2048;

/// What the writer remembers of runs.
#[derive(Debug)]
pub(crate) struct RunRows {
    pub(crate) turns: TurnRuns,
    pub(crate) outside: Unwritten<KeptRun>,
    projected: u64,
    /// What it will be once this commit is durable, where all rows go to the tables.
    projecting: Option<u64>,
}

impl RunRows {
    /// Goes on from what is stored; rows that the tables lack are folded.
    pub(crate) fn open(connection: &Connection) -> Result<Self, Fault> {
        // One look at the database for all queries: each for itself would lock it.
        let transaction = connection.unchecked_transaction()?;
        let behind = behind(&transaction)?;
        Ok(Self {
            turns: TurnRuns::new(turn_runs::fold_tail(&transaction, &behind)?),
            outside: Unwritten::new(runs::fold_tail(&transaction, &behind)?),
            projected: projected(&transaction)?,
            projecting: None,
        })
    }

    /// Returns the newest rows, to be shared with those who list.
    pub(crate) fn newest(&self) -> (Arc<NewestRuns<RunRow>>, Arc<NewestRuns<KeptRun>>) {
        (self.turns.rows.newest(), self.outside.newest())
    }

    /// Writes all rows that are newer than the tables if they have become many; `position` is that of the newest record.
    pub(crate) fn persist_if_due(
        &mut self,
        connection: &Connection,
        position: u64,
    ) -> Result<(), Fault> {
        match self.is_due(position) {
            true => self.persist(connection, position),
            false => Ok(()),
        }
    }

    /// Tells whether rows have become many.
    pub(crate) fn is_due(&self, position: u64) -> bool {
        let is_much = |load: Load| load.rows > MAX_ROWS || load.bytes > MAX_BYTES;
        let is_due = is_much(self.turns.rows.load())
            || is_much(self.outside.load())
            || position - self.projected.min(position) >= MAX_RECORDS;
        is_due && self.projecting.is_none()
    }

    /// Writes all rows that are newer than the tables. Nothing may come after it in the same commit.
    pub(crate) fn persist(&mut self, connection: &Connection, position: u64) -> Result<(), Fault> {
        turn_runs::put(connection, self.turns.rows.rows(|_| true).into_values())?;
        runs::put(connection, self.outside.rows(|_| true).into_values())?;
        note_projected(connection, position)?;
        self.projecting = Some(position);
        Ok(())
    }

    /// Tells whether the tables lack nothing.
    pub(crate) fn is_persisted(&self, position: u64) -> bool {
        self.projected == position
    }

    /// Shows what the commit has made durable.
    pub(crate) fn publish(&mut self) {
        match self.projecting.take() {
            Some(position) => {
                self.projected = position;
                self.turns.rows.clear();
                self.outside.clear();
            }
            None => {
                self.turns.rows.publish();
                self.outside.publish();
            }
        }
    }

    /// Begins a job: what it changes here can be taken back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.turns.begin();
        self.outside.begin();
    }

    pub(crate) fn take_back(&mut self) {
        self.turns.take_back();
        self.outside.take_back();
        self.projecting = None;
    }

    /// Notes that the right to write to a run has changed hands.
    pub(crate) fn note_epoch(&mut self, stream: u64, epoch: u64) {
        let rows = self.outside.rows(|run| run.stream == stream);
        for run in rows.into_values() {
            let run = Arc::unwrap_or_clone(run);
            self.outside.note(Arc::new(KeptRun { epoch, ..run }));
        }
    }

    /// Forgets a stream whose rows are no longer, or no longer those that were shown.
    pub(crate) fn give_up(&mut self, stream: u64) {
        self.turns.give_up(stream);
        self.outside.give_up(stream);
    }

    /// Forgets what a commit that failed has done.
    pub(crate) fn forget_all(&mut self) {
        self.turns.forget_all();
        self.outside.forget_news();
        self.projecting = None;
    }
}

/// Returns up to which position the tables are exact.
pub(super) fn projected(connection: &Connection) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached("SELECT turn_runs FROM state")?;
    Ok(statement.query_row([], |row| uint(row, 0))?)
}

/// Notes up to which position the tables are exact.
pub(super) fn note_projected(connection: &Connection, position: u64) -> Result<(), Fault> {
    connection
        .prepare_cached("UPDATE state SET turn_runs = ?1")?
        .execute([int(position)])?;
    Ok(())
}

/// Streams that have records behind the position up to which the tables are exact, with the number of the first of them.
pub(super) type Behind = HashMap<u64, u64>;

pub(super) fn behind(connection: &Connection) -> Result<Behind, Fault> {
    let after = projected(connection)?;
    let mut statement =
        connection.prepare_cached("SELECT stream, seq FROM records WHERE position > ?1")?;
    let mut records = statement.query([int(after)])?;
    let mut first = Behind::new();
    while let Some(record) = records.next()? {
        // Positions follow numbers, so the first one that is seen is the smallest.
        let (stream, seq) = (uint(record, 0)?, uint(record, 1)?);
        first.entry(stream).or_insert(seq);
    }
    Ok(first)
}
