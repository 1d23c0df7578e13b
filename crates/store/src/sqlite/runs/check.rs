//! Comparing the row of a run with its records.

use rusqlite::Connection;
use windlass_core::runs::{RunRecord, RunStatus, RunSummary};

use super::super::error::Fault;
use super::rows;
use crate::journal::StreamKey;
use crate::runs::PREFIX;

/// A comparison of one run, record by record.
#[derive(Debug, Default)]
pub(in super::super) struct RunCheck {
    summary: Option<RunSummary>,
    differences: Vec<String>,
}

impl RunCheck {
    /// Takes the next record. A run begins once, ends once, and its turns are numbered from 0.
    pub(in super::super) fn step(&mut self, record: &RunRecord, seq: u64) {
        let wrong = match (&self.summary, record) {
            (None, RunRecord::Started(started)) => {
                self.summary = Some(RunSummary::of(started));
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
        let run_id = key.as_str().strip_prefix(PREFIX).unwrap_or_default();
        match (rows::get(connection, run_id), self.summary) {
            (Ok(None), None) => {}
            (Ok(None), Some(_)) => self
                .differences
                .push("the row of the run is missing".into()),
            (Ok(Some(run)), summary) => {
                if summary.is_none_or(|summary| as_stored(summary) != run.summary) {
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

/// Rows keep times to the microsecond.
fn as_stored(mut summary: RunSummary) -> RunSummary {
    use chrono::SubsecRound;
    summary.started_at = summary.started_at.trunc_subsecs(6);
    summary.ended_at = summary.ended_at.map(|at| at.trunc_subsecs(6));
    summary
}
