//! Compares the row of an externally reported run with its records.

use rusqlite::Connection;
use windlass_core::runs::{RunRecord, RunStatus, RunSummary};

use super::tables::find_run;
use super::tail::folded;
use crate::runs::StoredRun;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::stores::runs::as_stored;

/// A comparison of one run, record by record.
#[derive(Debug)]
pub(crate) struct RunCheck {
    /// After this position the row may be missing or outdated.
    folded: u64,
    row: RowState,
    summary: Option<RunSummary>,
    differences: Vec<String>,
}

#[derive(Debug)]
enum RowState {
    /// `is_needed`: a record up to the position exists.
    Missing {
        is_needed: bool,
    },
    /// `is_right`: it equals the run as of that position or of a later record. Rows are written in several commits, and
    /// the position after the last of them, so a row can be newer than the position and older than its run.
    Found {
        row: StoredRun,
        is_right: bool,
    },
    Unreadable,
}

impl RunCheck {
    pub(crate) fn begin(db: &Connection, stream: u64) -> DbResult<Self> {
        let mut differences = Vec::new();
        let row = match find_run(db, stream) {
            Ok(None) => RowState::Missing { is_needed: false },
            Ok(Some(row)) => RowState::Found {
                row,
                is_right: false,
            },
            Err(DbError::Sql(error)) => {
                differences.push(format!("the row of the run cannot be read: {error}"));
                RowState::Unreadable
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            folded: folded(db)?,
            row,
            summary: None,
            differences,
        })
    }

    /// Checks the next record. A run begins once, ends once, and its turns are numbered from 0.
    pub(crate) fn step(&mut self, record: &RunRecord, (seq, position): (u64, u64)) {
        let wrong = match (&self.summary, record) {
            (None, RunRecord::Started(_)) => None,
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
        match (&mut self.summary, record) {
            (None, RunRecord::Started(started)) => self.summary = Some(RunSummary::new(started)),
            (Some(summary), record) => summary.apply(record),
            (None, _) => {}
        }
        if let Some(summary) = &mut self.summary {
            as_stored(summary);
        }
        let is_exact = position <= self.folded;
        match (&mut self.row, &self.summary) {
            (RowState::Missing { is_needed }, Some(_)) => *is_needed |= is_exact,
            (RowState::Found { row, is_right }, Some(summary)) => {
                let is_same = row.summary == *summary;
                *is_right = is_same || (*is_right && !is_exact);
            }
            _ => {}
        }
    }

    /// Returns the differences.
    pub(crate) fn end(mut self) -> Vec<String> {
        let what = match &self.row {
            RowState::Missing { is_needed: true } => Some("the row of the run is missing"),
            RowState::Found { row, .. } if row.epoch == 0 => {
                Some("no client has ever had the right to write to the run")
            }
            RowState::Found {
                is_right: false, ..
            } => Some("the row of the run differs from its records"),
            RowState::Missing { .. } | RowState::Found { .. } | RowState::Unreadable => None,
        };
        self.differences.extend(what.map(str::to_owned));
        self.differences
    }
}
