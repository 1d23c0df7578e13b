//! What happened to a run, as its records say.

use chrono::{DateTime, Utc};
use windlass_store::StreamKey;

use super::Fleet;
use super::core::OpenRuns;
use super::run::{FleetEvent, FleetRun};
use crate::error::JobError;
use crate::ledger::{Machine, read_record};

/// How many records are read at a time.
const PAGE: usize = 256;
/// How many pages are read for one answer.
const PAGES: usize = 16;

/// A record of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRecord {
    /// Its number; numbers of a run grow, and have gaps where other runs have their records.
    pub seq: u64,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// What happened.
    pub event: FleetEvent,
}

/// Some records of a run, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetHistory {
    /// The records.
    pub records: Vec<FleetRecord>,
    /// Up to which number everything is in it: where the next one begins.
    pub read_to: u64,
    /// Whether there are further records now.
    pub has_more: bool,
    /// Whether records before or between these are no longer kept.
    pub is_pruned: bool,
}

impl Fleet {
    /// Returns records of a run behind a number, at most `limit`. All runs share a stream, so it is read from the first record of the run
    /// on, or from that number.
    pub async fn history(
        &self,
        run: &FleetRun,
        after: u64,
        limit: usize,
    ) -> Result<FleetHistory, JobError> {
        let stream = StreamKey::new(OpenRuns::STREAM);
        let mut history = FleetHistory {
            read_to: after.max(run.first_seq.saturating_sub(1)),
            ..FleetHistory::default()
        };
        for _ in 0..PAGES {
            let journal = &self.inner.ledger.store.journal;
            let page = journal.read(&stream, history.read_to, PAGE).await?;
            let is_last = page.events.len() < PAGE;
            history.is_pruned |= !page.pruned.is_empty();
            for event in &page.events {
                let seq = event.sequence.unwrap_or_default();
                if history.records.len() >= limit {
                    history.has_more = true;
                    return Ok(history);
                }
                history.read_to = seq;
                let (run_id, change) = read_record::<OpenRuns>(event)?;
                if run_id != run.id {
                    continue;
                }
                let is_end = change == FleetEvent::Completed;
                history.records.push(FleetRecord {
                    seq,
                    at: event.ts,
                    event: change,
                });
                if is_end {
                    return Ok(history);
                }
            }
            if is_last {
                return Ok(history);
            }
        }
        // Others have so many that whoever asks goes on from here.
        history.has_more = true;
        Ok(history)
    }
}
