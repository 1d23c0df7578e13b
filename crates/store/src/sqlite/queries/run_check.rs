//! Comparing the row of a run from outside with its records.

use rusqlite::Connection;
use windlass_core::runs::{RunRecord, RunStatus, RunSummary};

use super::super::error::Fault;
use super::super::runs::as_stored;
use super::tables::find_run;
use super::tail::folded;

/// A comparison of one run, record by record.
#[derive(Debug)]
pub(in super::super) struct RunCheck {
    stream: u64,
    /// Behind this position the row may be missing, or older than its run.
    folded: u64,
    summary: Option<RunSummary>,
    /// As the records up to that position say.
    exact: Option<RunSummary>,
    differences: Vec<String>,
}

impl RunCheck {
    pub(in super::super) fn begin(connection: &Connection, stream: u64) -> Result<Self, Fault> {
        Ok(Self {
            stream,
            folded: folded(connection)?,
            summary: None,
            exact: None,
            differences: Vec::new(),
        })
    }

    /// Takes the next record. A run begins once, ends once, and its turns are numbered from 0.
    pub(in super::super) fn step(&mut self, record: &RunRecord, (seq, position): (u64, u64)) {
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
            (None, RunRecord::Started(started)) => self.summary = Some(RunSummary::of(started)),
            (Some(summary), record) => summary.apply(record),
            (None, _) => {}
        }
        if let Some(summary) = &mut self.summary {
            as_stored(summary);
        }
        if position <= self.folded {
            self.exact.clone_from(&self.summary);
        }
    }

    /// Returns what is wrong.
    pub(in super::super) fn end(mut self, connection: &Connection) -> Result<Vec<String>, Fault> {
        let what = match (find_run(connection, self.stream), &self.exact) {
            (Ok(None), Some(_)) => "the row of the run is missing".to_owned(),
            (Ok(None), None) => return Ok(self.differences),
            (Ok(Some(run)), _) if run.epoch == 0 => {
                "nobody has ever had the right to write to the run".to_owned()
            }
            // It may have been written since, with what came after.
            (Ok(Some(run)), exact)
                if [exact, &self.summary].contains(&&Some(run.summary.clone())) =>
            {
                return Ok(self.differences);
            }
            (Ok(Some(_)), _) => "the row of the run is not what its records say".to_owned(),
            (Err(Fault::Sql(error)), _) => format!("the row of the run cannot be read: {error}"),
            (Err(fault), _) => return Err(fault),
        };
        self.differences.push(what);
        Ok(self.differences)
    }
}
