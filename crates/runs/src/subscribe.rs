//! Following a run: its existing records, then new ones, without a gap.
//!
//! A follower is woken and reads the log from its own cursor. A slow follower lags; it loses nothing and delays no other one.

use std::collections::VecDeque;

use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStatus};
use windlass_macros::OpaqueDebug;
use windlass_store::JournalError;

use crate::all::{AllRuns, AnyRun};
use crate::caller::RunCaller;
use crate::error::RunError;
use crate::list::checked_limit;
use crate::runs::Runs;

/// Records that a follower reads at a time.
const AHEAD: usize = 64;

/// A run's existing turns and a follower of new ones.
#[derive(Debug)]
pub struct Snapshot {
    /// ID of the owning agent.
    pub agent_id: String,
    /// The turns so far.
    pub turns: Vec<RunRecord>,
    /// Status at the time of the request.
    pub status: RunStatus,
    /// Yields new records.
    pub follower: Follower,
}

/// A page of a run's existing turns.
#[derive(Debug)]
pub struct SnapshotPage {
    /// ID of the owning agent.
    pub agent_id: String,
    /// The turns of this page.
    pub turns: Vec<RunRecord>,
    /// The effective limit.
    pub limit: usize,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<u64>,
    /// Current number of turns.
    pub live_cursor: u64,
    /// Status at the time of the request.
    pub status: RunStatus,
    /// Yields new records; only in the last page.
    pub follower: Option<Follower>,
}

/// One record that is delivered to a subscriber.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Number of turns up to and including this record.
    pub cursor: u64,
    /// Status of the run after this record.
    pub status: RunStatus,
    /// The delivered record.
    pub record: RunRecord,
}

impl Runs {
    /// Returns all existing turns and follows the run. `None`: the run does not exist for this caller.
    pub async fn subscribe(
        &self,
        caller: &RunCaller,
        run_id: &str,
    ) -> Result<Option<Snapshot>, RunError> {
        let limits = &self.settings.limits;
        let max = usize::try_from(limits.turns_per_run).unwrap_or(usize::MAX);
        let Some(run) = self.readable(caller, run_id).await? else {
            return Ok(None);
        };
        let updates = self.all.watch(&run).await?;
        let page = self
            .all
            .read(&run, 0, max.saturating_add(2), limits.page_bytes)
            .await?;
        if (page.records.len() as u64) < page.head {
            return Err(RunError::Limit(format!(
                "run `{run_id}` is too long for one answer; subscribe in pages with `cursor` and `limit`"
            )));
        }
        let agent_id = run.summary().agent_id.clone();
        let follower = Follower::after(self, run, &page.records, 0, updates);
        Ok(Some(Snapshot {
            agent_id,
            status: follower.status,
            turns: only_turns(page.records),
            follower,
        }))
    }

    /// Returns a page of turns, and follows the run once the page reaches its end.
    pub async fn subscribe_paged(
        &self,
        caller: &RunCaller,
        run_id: &str,
        cursor: u64,
        limit: Option<usize>,
    ) -> Result<Option<SnapshotPage>, RunError> {
        let limits = &self.settings.limits;
        let limit = checked_limit("runs.subscribe", limit, limits.trace_page)?;
        let Some(run) = self.readable(caller, run_id).await? else {
            return Ok(None);
        };
        let updates = self.all.watch(&run).await?;
        // The first record is the start, so turn `cursor` is record `cursor + 2`. One more record may be the end.
        let after = cursor.saturating_add(1);
        let page = self
            .all
            .read(&run, after, limit + 1, limits.page_bytes)
            .await?;
        let mut records = page.records;
        if records.len() > limit && records.last().is_some_and(RunRecord::is_turn) {
            records.pop();
        }
        let (agent_id, known) = (run.summary().agent_id.clone(), run.summary().status);
        let ended =
            known != RunStatus::InProgress || matches!(records.last(), Some(RunRecord::Ended(_)));
        let end = after.saturating_add(records.len() as u64);
        let live_cursor = page.head.saturating_sub(1 + u64::from(ended));
        let follower =
            (end >= page.head).then(|| Follower::after(self, run, &records, cursor, updates));
        let status = follower.as_ref().map_or(known, |follower| follower.status);
        let turns = only_turns(records);
        let shown = cursor.saturating_add(turns.len() as u64);
        Ok(Some(SnapshotPage {
            agent_id,
            limit,
            next_cursor: follower.is_none().then_some(shown),
            turns,
            live_cursor,
            status,
            follower,
        }))
    }
}

fn only_turns(mut records: Vec<RunRecord>) -> Vec<RunRecord> {
    records.retain(RunRecord::is_turn);
    records
}

/// Yields the records of a run as they are appended.
#[derive(OpaqueDebug)]
pub struct Follower {
    all: AllRuns,
    run: AnyRun,
    updates: watch::Receiver<u64>,
    /// Sequence number of the last record read.
    seq: u64,
    cursor: u64,
    status: RunStatus,
    read: VecDeque<RunRecord>,
    page_bytes: usize,
}

impl Follower {
    /// Starts after turn number `cursor`.
    fn after(
        runs: &Runs,
        run: AnyRun,
        records: &[RunRecord],
        cursor: u64,
        updates: watch::Receiver<u64>,
    ) -> Self {
        let has_start = matches!(records.first(), Some(RunRecord::Started(_)));
        let before = cursor + u64::from(!has_start);
        let mut follower = Self {
            all: runs.all.clone(),
            run,
            updates,
            seq: before + records.len() as u64,
            cursor,
            status: RunStatus::InProgress,
            read: VecDeque::new(),
            page_bytes: runs.settings.limits.page_bytes,
        };
        records.iter().for_each(|record| follower.note(record));
        follower
    }

    fn note(&mut self, record: &RunRecord) {
        match record {
            RunRecord::Started(_) => {}
            RunRecord::Turn(_) | RunRecord::ModelTurn(_) => self.cursor += 1,
            RunRecord::Ended(ended) => {
                self.status = match &ended.termination {
                    windlass_core::runs::Termination::Outcome { .. } => RunStatus::Completed,
                    windlass_core::runs::Termination::Incomplete => RunStatus::Incomplete,
                    windlass_core::runs::Termination::Cancelled { .. } => RunStatus::Cancelled,
                }
            }
        }
    }

    /// Waits for the next record; `None` after the end of the run.
    pub async fn next(&mut self) -> Result<Option<RunEvent>, RunError> {
        loop {
            if let Some(record) = self.read.pop_front() {
                self.note(&record);
                return Ok(Some(RunEvent {
                    cursor: self.cursor,
                    status: self.status,
                    record,
                }));
            }
            if self.status != RunStatus::InProgress {
                return Ok(None);
            }
            // Mark the notification as seen before reading, so that a record appended in between notifies again.
            self.updates.borrow_and_update();
            let page = self
                .all
                .read(&self.run, self.seq, AHEAD, self.page_bytes)
                .await
                .map_err(|error: JournalError| RunError::from(error))?;
            self.seq += page.records.len() as u64;
            self.read.extend(page.records);
            if self.read.is_empty() && self.updates.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
