//! Following a run: what is there, then what comes, without a gap.
//!
//! A follower is woken and reads the log from its own cursor. A slow one falls behind; it loses nothing and holds
//! nobody up.

use std::collections::VecDeque;

use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStatus};
use windlass_store::JournalError;

use crate::all::{AllRuns, AnyRun};
use crate::caller::Caller;
use crate::error::RunError;
use crate::list::checked_limit;
use crate::runs::Runs;

/// How many records a follower reads at a time.
const AHEAD: usize = 64;

/// What a run has so far, and the way to what comes.
#[derive(Debug)]
pub struct Snapshot {
    /// Whose run it is.
    pub agent_id: String,
    /// The turns so far.
    pub turns: Vec<RunRecord>,
    /// Where it is.
    pub status: RunStatus,
    /// Shows what comes.
    pub follower: Follower,
}

/// A page of what a run has so far.
#[derive(Debug)]
pub struct SnapshotPage {
    /// Whose run it is.
    pub agent_id: String,
    /// The turns of this page.
    pub turns: Vec<RunRecord>,
    /// How many were asked for.
    pub limit: usize,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<u64>,
    /// How many turns there are now.
    pub live_cursor: u64,
    /// Where the run is.
    pub status: RunStatus,
    /// Shows what comes; only with the last page.
    pub follower: Option<Follower>,
}

/// One record that a subscriber hears of.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// How many turns the run has with it.
    pub cursor: u64,
    /// Where the run is with it.
    pub status: RunStatus,
    /// The record.
    pub record: RunRecord,
}

impl Runs {
    /// Returns all turns so far and follows the run. `None`: there is no such run for this caller.
    pub async fn subscribe(
        &self,
        caller: &Caller,
        run_id: &str,
    ) -> Result<Option<Snapshot>, RunError> {
        let limits = &self.settings.limits;
        let most = usize::try_from(limits.turns_per_run).unwrap_or(usize::MAX);
        let Some(run) = self.readable(caller, run_id).await? else {
            return Ok(None);
        };
        let bell = self.all.watch(&run).await?;
        let page = self
            .all
            .read(&run, 0, most.saturating_add(2), limits.page_bytes)
            .await?;
        if (page.records.len() as u64) < page.head {
            return Err(RunError::Limit(format!(
                "run `{run_id}` is too long for one answer; subscribe in pages with `cursor` and `limit`"
            )));
        }
        let agent_id = run.summary().agent_id.clone();
        let follower = Follower::after(self, run, &page.records, 0, bell);
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
        caller: &Caller,
        run_id: &str,
        cursor: u64,
        limit: Option<usize>,
    ) -> Result<Option<SnapshotPage>, RunError> {
        let limits = &self.settings.limits;
        let limit = checked_limit("runs.subscribe", limit, limits.trace_page)?;
        let Some(run) = self.readable(caller, run_id).await? else {
            return Ok(None);
        };
        let bell = self.all.watch(&run).await?;
        // The first record is the start, so turn `cursor` has the number `cursor + 2`. One more record may be the end.
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
            (end >= page.head).then(|| Follower::after(self, run, &records, cursor, bell));
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

/// Shows the records of a run as they come.
pub struct Follower {
    all: AllRuns,
    run: AnyRun,
    bell: watch::Receiver<u64>,
    /// The number of the newest record that was read.
    seq: u64,
    cursor: u64,
    status: RunStatus,
    read: VecDeque<RunRecord>,
    page_bytes: usize,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("run_id", &self.run.summary().run_id)
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// Stands behind records that follow on turn number `cursor`.
    fn after(
        runs: &Runs,
        run: AnyRun,
        records: &[RunRecord],
        cursor: u64,
        bell: watch::Receiver<u64>,
    ) -> Self {
        let has_start = matches!(records.first(), Some(RunRecord::Started(_)));
        let before = cursor + u64::from(!has_start);
        let mut follower = Self {
            all: runs.all.clone(),
            run,
            bell,
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
            // First the bell, then the look: what is appended between the two rings.
            self.bell.borrow_and_update();
            let page = self
                .all
                .read(&self.run, self.seq, AHEAD, self.page_bytes)
                .await
                .map_err(|error: JournalError| RunError::from(error))?;
            self.seq += page.records.len() as u64;
            self.read.extend(page.records);
            if self.read.is_empty() && self.bell.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}
