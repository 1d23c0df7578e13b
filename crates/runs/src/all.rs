//! All runs in one list: runs reported by other programs, and turns of Windlass threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::runs::{RunRecord, TurnTrace, turn_of_run};
use windlass_store::{
    Journal, JournalError, Queries, RunFilter, RunKind, RunLog, RunPage, StreamKey, TurnRun,
};

use crate::limits::{RunLimits, size};
use crate::record::fit;

/// Events read at a time.
const EVENTS: usize = 256;
/// Maximum number of remembered trace cursors.
const MARKS: usize = 256;

pub use windlass_store::RunRow as AnyRun;

/// Access to the turns of Windlass threads.
#[derive(Clone)]
pub struct OwnTurns {
    /// The journal that contains the turns.
    pub journal: Arc<dyn Journal>,
    /// The queries that find turns.
    pub queries: Arc<dyn Queries>,
}

/// Read access to all runs; clones share state.
#[derive(Clone)]
pub struct AllRuns {
    log: Arc<dyn RunLog>,
    turns: Option<OwnTurns>,
    limits: RunLimits,
    marks: Arc<Mutex<Vec<TraceCursor>>>,
}

impl std::fmt::Debug for AllRuns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AllRuns").finish_non_exhaustive()
    }
}

impl AllRuns {
    /// Combines a log of reported runs with the turns of threads.
    #[must_use]
    pub fn new(log: Arc<dyn RunLog>, turns: Option<OwnTurns>, limits: RunLimits) -> Self {
        Self {
            log,
            turns,
            limits,
            marks: Arc::default(),
        }
    }

    /// Returns the turn with the run's ID; `None` if the run is not a turn.
    pub async fn turn(&self, run_id: &str) -> Result<Option<TurnRun>, JournalError> {
        let Some(turns) = self
            .turns
            .as_ref()
            .filter(|_| turn_of_run(run_id).is_some())
        else {
            return Ok(None);
        };
        Ok(match turns.queries.run(run_id).await? {
            Some(AnyRun::Turn(turn)) => Some(turn),
            _ => None,
        })
    }

    /// Returns a run by ID.
    pub async fn get(&self, run_id: &str) -> Result<Option<AnyRun>, JournalError> {
        if let Some(run) = self.turn(run_id).await? {
            return Ok(Some(AnyRun::Turn(run)));
        }
        Ok(self.log.get(run_id).await?.map(AnyRun::Reported))
    }

    /// Lists runs, newest first. The cost is proportional to the result.
    pub async fn list(&self, filter: RunFilter, limit: usize) -> Result<Vec<AnyRun>, JournalError> {
        let mut runs = Vec::new();
        if let Some(turns) = &self.turns {
            let of_turns = RunFilter {
                kind: Some(RunKind::Turn),
                ..filter.clone()
            };
            runs.extend(turns.queries.runs(of_turns, limit).await?);
        }
        let reported = self.log.list(filter, limit).await?;
        runs.extend(reported.into_iter().map(AnyRun::Reported));
        runs.sort_by_key(|run| std::cmp::Reverse(run.position()));
        runs.truncate(limit);
        Ok(runs)
    }

    /// Returns the records of a run after a sequence number: at most `limit`, ending with the record that reaches `max_bytes`.
    pub async fn read(
        &self,
        run: &AnyRun,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<RunPage, JournalError> {
        match (run, &self.turns) {
            (AnyRun::Turn(turn), Some(turns)) => {
                let most = (limit, max_bytes);
                let mut page = self.read_turn(&*turns.journal, turn, after, most).await?;
                page.head = page.head.max(run.head());
                Ok(page)
            }
            (run, _) => {
                let run_id = &run.summary().run_id;
                self.log.read(run_id, after, limit, max_bytes).await
            }
        }
    }

    /// Converts the events of a turn to records. A reader that continues resumes from its remembered cursor.
    async fn read_turn(
        &self,
        turns: &dyn Journal,
        turn: &TurnRun,
        after: u64,
        (limit, max_bytes): (usize, usize),
    ) -> Result<RunPage, JournalError> {
        let mut mark = self.mark(turn, after);
        let mut page = RunPage::default();
        let mut bytes = 0;
        'reading: while !mark.is_ended && page.records.len() < limit && bytes < max_bytes {
            let events = turns.read(&mark.stream, mark.seq, EVENTS).await?.events;
            if events.is_empty() {
                break;
            }
            for event in events {
                mark.seq = event.seq();
                let Some(record) = mark.trace.apply(&event) else {
                    continue;
                };
                mark.records += 1;
                mark.is_ended = matches!(record, RunRecord::Ended(_));
                if mark.records > after {
                    let record = fit(record, &self.limits);
                    bytes += size(&record);
                    page.records.push(record);
                }
                if mark.is_ended || page.records.len() >= limit || bytes >= max_bytes {
                    break 'reading;
                }
            }
        }
        page.head = mark.records;
        self.remember(mark);
        Ok(page)
    }

    /// Returns a receiver that changes when a run may have more records.
    pub async fn watch(&self, run: &AnyRun) -> Result<watch::Receiver<u64>, JournalError> {
        match (run, &self.turns) {
            (AnyRun::Turn(turn), Some(turns)) => turns.journal.watch(&turn.stream).await,
            (run, _) => self.log.watch(&run.summary().run_id).await,
        }
    }

    /// A panic elsewhere leaves plain data intact, so a poisoned lock is still valid.
    fn marks(&self) -> MutexGuard<'_, Vec<TraceCursor>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the cursor at which a reader stopped, or creates one at the trace's beginning.
    fn mark(&self, turn: &TurnRun, after: u64) -> TraceCursor {
        let is_it = |mark: &TraceCursor| (mark.position, mark.records) == (turn.position, after);
        let marks = self.marks();
        match marks.iter().rfind(|mark| is_it(mark)) {
            Some(mark) => mark.clone(),
            None => TraceCursor {
                position: turn.position,
                stream: turn.stream.clone(),
                seq: turn.first_seq - 1,
                records: 0,
                is_ended: false,
                trace: TurnTrace::new(turn.turn_id, turn.summary.agent_id.clone()),
            },
        }
    }

    /// Remembers a cursor. Each reader of a run has one: continuing replaces the previous cursor.
    fn remember(&self, mark: TraceCursor) {
        let mut marks = self.marks();
        marks.retain(|known| known.position != mark.position || known.records > mark.records);
        if marks.len() >= MARKS {
            marks.remove(0);
        }
        if !mark.is_ended {
            marks.push(mark);
        }
    }
}

/// A position in the trace of a turn.
#[derive(Debug, Clone)]
struct TraceCursor {
    position: u64,
    stream: StreamKey,
    /// Sequence number of the newest event that was processed.
    seq: u64,
    /// Number of records produced so far.
    records: u64,
    is_ended: bool,
    trace: TurnTrace,
}
