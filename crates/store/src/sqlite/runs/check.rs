//! Comparing the row of a run with its records.

use rusqlite::Connection;
use windlass_core::runs::{RunRecord, RunStatus, RunSummary};

use super::super::error::Fault;
use super::super::run_rows::projected;
use super::super::schema::LATE_RUNS;
use super::rows::{as_stored, written};
use crate::journal::StreamKey;

/// A comparison of one run, record by record.
#[derive(Debug)]
pub(in super::super) struct RunCheck {
    /// Behind this position the row may be missing, or older than its run.
    projected: u64,
    summary: Option<RunSummary>,
    /// The positions of its first record and of its last.
    positions: (u64, u64),
    differences: Vec<String>,
}

impl RunCheck {
    /// Begins, in a database of a version.
    pub(in super::super) fn begin(connection: &Connection, version: u32) -> Result<Self, Fault> {
        Ok(Self {
            projected: match version < LATE_RUNS {
                true => u64::MAX,
                false => projected(connection)?,
            },
            summary: None,
            positions: (0, 0),
            differences: Vec::new(),
        })
    }

    /// Takes the next record. A run begins once, ends once, and its turns are numbered from 0.
    pub(in super::super) fn step(&mut self, record: &RunRecord, (seq, position): (u64, u64)) {
        self.positions.1 = position;
        let wrong = match (&self.summary, record) {
            (None, RunRecord::Started(started)) => {
                self.summary = Some(RunSummary::of(started));
                self.positions.0 = position;
                return;
            }
            (None, _) => Some("comes before the start of the run"),
            (Some(_), RunRecord::Started(_)) => Some("starts the run again"),
            (Some(run), _) if run.status != RunStatus::InProgress => {
                Some("comes after the end of the run")
            }
            (Some(run), record) => {
                let is_next = record.index().is_none_or(|index| index == run.turn_count);
                (!is_next).then_some("is not the next turn")
            }
        };
        if let Some(what) = wrong {
            self.differences.push(format!("record {seq} {what}"));
        }
        if let Some(summary) = &mut self.summary {
            summary.apply(record);
        }
    }

    /// Returns what is wrong.
    pub(in super::super) fn end(
        mut self,
        connection: &Connection,
        key: &StreamKey,
    ) -> Result<Vec<String>, Fault> {
        let (first, last) = self.positions;
        let may_lag = last > self.projected;
        match (written(connection, key), self.summary) {
            (Ok(None), None) => {}
            (Ok(None), Some(_)) if first > self.projected => {}
            (Ok(None), Some(_)) => self
                .differences
                .push("the row of the run is missing".into()),
            (Ok(Some(run)), summary) => {
                let says = |summary| is_row(&run.summary, as_stored(summary), may_lag);
                if !summary.is_some_and(says) {
                    let what = "the row of the run is not what its records say";
                    self.differences.push(what.into());
                }
                if run.epoch == 0 {
                    let what = "nobody has ever had the right to write to the run";
                    self.differences.push(what.into());
                }
            }
            (Err(Fault::Sql(error)), _) => {
                let what = format!("the row of the run cannot be read: {error}");
                self.differences.push(what);
            }
            (Err(fault), _) => return Err(fault),
        }
        Ok(self.differences)
    }
}

/// Tells whether a row is that of a run as it is now, or where it `may_lag` as it was earlier.
fn is_row(row: &RunSummary, now: RunSummary, may_lag: bool) -> bool {
    match may_lag && row.status == RunStatus::InProgress {
        true => {
            row.turn_count <= now.turn_count
                && *row
                    == RunSummary {
                        status: row.status,
                        outcome: row.outcome,
                        ended_at: row.ended_at,
                        turn_count: row.turn_count,
                        ..now
                    }
        }
        false => *row == now,
    }
}
