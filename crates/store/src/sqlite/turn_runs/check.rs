//! Comparing the rows with what the events fold to.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;
use windlass_core::runs::RunStatus;

use super::super::error::Fault;
use super::super::numbers::int;
use super::super::run_rows::projected;
use super::rows::{COLUMNS, owner, read};
use crate::journal::turn_runs::{RunFold, RunNews, RunRow};

/// A comparison of the runs of one stream, event by event.
pub(in super::super) struct TurnRunCheck<'a> {
    connection: &'a Connection,
    stream: u64,
    fold: RunFold,
    owner: Option<Arc<str>>,
    /// The rows that there should be, with the position of what changed them last.
    expected: BTreeMap<u64, (RunRow, u64)>,
}

impl<'a> TurnRunCheck<'a> {
    pub(in super::super) fn begin(connection: &'a Connection, stream: u64) -> Result<Self, Fault> {
        let owner = owner(connection, stream)?;
        Ok(Self {
            connection,
            stream,
            fold: RunFold::of(owner.clone()),
            owner,
            expected: BTreeMap::new(),
        })
    }

    /// Takes the next event of the stream, and its position.
    pub(in super::super) fn step(&mut self, event: &Event, position: u64) {
        if !RunFold::concerns(&event.data) {
            return;
        }
        match self.fold.apply(event, (self.stream, position)) {
            Some(RunNews::Row(row)) => {
                self.expected.insert(row.position, (row, position));
            }
            Some(RunNews::Forked) => self.expected.clear(),
            Some(RunNews::Owner) | None => {}
        }
    }

    /// Returns what is wrong.
    pub(in super::super) fn end(self) -> Result<Vec<String>, Fault> {
        let mut differences = Vec::new();
        if self.fold.agent() != self.owner.as_deref() {
            differences.push("the row of its owner is not what the journal says".to_owned());
        }
        let mut stored = match self.stored() {
            Ok(stored) => stored,
            Err(Fault::Sql(error)) => {
                differences.push(format!("the row of a turn's run cannot be read: {error}"));
                return Ok(differences);
            }
            Err(fault) => return Err(fault),
        };
        let projected = projected(self.connection)?;
        for (position, (row, changed)) in &self.expected {
            let wrong = match stored.remove(position) {
                None => (*position <= projected).then_some("is missing"),
                Some(stored) => {
                    let may_lag = stored.status == RunStatus::InProgress && *changed > projected;
                    let is_same = match may_lag {
                        true => begins_like(&stored, row),
                        false => stored == *row,
                    };
                    (!is_same).then_some("is not what the journal says")
                }
            };
            let named = wrong.map(|what| format!("the row of the run {} {what}", row.turn));
            differences.extend(named);
        }
        if !stored.is_empty() {
            differences.push(format!("{} rows of runs are too many", stored.len()));
        }
        Ok(differences)
    }

    fn stored(&self) -> Result<BTreeMap<u64, RunRow>, Fault> {
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM turn_runs WHERE position IN (SELECT position FROM placed WHERE stream = ?1)"
        ))?;
        let rows = statement.query_map([int(self.stream)], read)?;
        let rows = rows.map(|row| row.map(|row| (row.position, row)));
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Tells whether a row is that of a turn as it was earlier.
fn begins_like(earlier: &RunRow, now: &RunRow) -> bool {
    let RunRow {
        status,
        outcome,
        waiting,
        ended_at,
        turns,
        ..
    } = earlier.clone();
    let as_then = RunRow {
        status,
        outcome,
        waiting,
        ended_at,
        turns,
        ..now.clone()
    };
    *earlier == as_then && turns <= now.turns
}
