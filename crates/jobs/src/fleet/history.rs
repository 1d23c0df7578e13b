//! The history of a fleet run, read from its records.

use chrono::{DateTime, Utc};
use windlass_store::StreamKey;

use super::Fleet;
use super::core::OpenFleetRuns;
use super::run::{FleetEvent, FleetRun};
use crate::error::JobError;
use crate::ledger::{JobKind, read_record};

/// Number of records read at a time.
const PAGE: usize = 256;
/// Maximum number of pages read for one response.
const MAX_PAGES: usize = 16;

/// A record of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetRecord {
    /// Sequence number in the stream of all runs: increasing, with gaps.
    pub seq: u64,
    /// Time of the record.
    pub at: DateTime<Utc>,
    /// The recorded event.
    pub event: FleetEvent,
}

/// A page of a run's records, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetHistory {
    /// The records of this page.
    pub records: Vec<FleetRecord>,
    /// Sequence number up to which the page is complete; the next page starts after it.
    pub read_to: u64,
    /// Whether more records exist now.
    pub has_more: bool,
    /// Whether records before or between these were pruned.
    pub is_pruned: bool,
}

impl Fleet {
    /// Returns at most `limit` records of a run after a sequence number. All runs share a stream, which is read from the run's first record
    /// or from that number.
    pub async fn history(
        &self,
        run: &FleetRun,
        after: u64,
        limit: usize,
    ) -> Result<FleetHistory, JobError> {
        let stream = StreamKey::new(OpenFleetRuns::STREAM);
        let mut history = FleetHistory {
            read_to: after.max(run.first_seq.saturating_sub(1)),
            ..FleetHistory::default()
        };
        for _ in 0..MAX_PAGES {
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
                let (run_id, change) = read_record::<OpenFleetRuns>(event)?;
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
        // Records of other runs fill the pages; the client continues from here.
        history.has_more = true;
        Ok(history)
    }
}
