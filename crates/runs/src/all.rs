//! All runs in one list: runs reported by other programs, and turns of Windlass threads.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use windlass_core::bounds::json_bytes;
use windlass_core::lock::lock;
use windlass_core::runs::{RunRecord, TurnTrace, turn_of_run};
use windlass_store::{
    Journal, JournalError, Queries, RunFilter, RunKind, RunLog, RunPage, StreamKey, TurnRun,
};

use crate::limits::RunLimits;
use crate::record::fit;

/// Events read at a time.
const EVENTS: usize = 256;
/// Maximum number of cached trace cursors.
const MAX_CURSORS: usize = 256;

pub use windlass_store::RunRow as AnyRun;

/// Access to the turns of Windlass threads.
#[derive(Clone)]
pub struct ThreadTurns {
    /// The journal that contains the turns.
    pub journal: Arc<dyn Journal>,
    /// The queries that find turns.
    pub queries: Arc<dyn Queries>,
}

/// Read access to all runs; clones share state.
#[derive(Clone)]
pub struct AllRuns {
    log: Arc<dyn RunLog>,
    turns: Option<ThreadTurns>,
    limits: RunLimits,
    cursors: Arc<Mutex<Vec<TraceCursor>>>,
}

impl AllRuns {
    /// Combines a log of reported runs with the turns of threads.
    #[must_use]
    pub fn new(log: Arc<dyn RunLog>, turns: Option<ThreadTurns>, limits: RunLimits) -> Self {
        Self {
            log,
            turns,
            limits,
            cursors: Arc::default(),
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
        if let Some(turns) = &self.turns
            && filter.kind != Some(RunKind::Reported)
        {
            let of_turns = RunFilter {
                kind: Some(RunKind::Turn),
                ..filter.clone()
            };
            runs.extend(turns.queries.runs(of_turns, limit).await?);
        }
        if filter.kind != Some(RunKind::Turn) {
            let reported = self.log.list(filter, limit).await?;
            runs.extend(reported.into_iter().map(AnyRun::Reported));
        }
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

    /// Converts the events of a turn to records. A reader that continues resumes from its cached cursor.
    async fn read_turn(
        &self,
        turns: &dyn Journal,
        turn: &TurnRun,
        after: u64,
        (limit, max_bytes): (usize, usize),
    ) -> Result<RunPage, JournalError> {
        let mut cursor = self.cursor(turn, after);
        let mut page = RunPage::default();
        let mut bytes = 0;
        'reading: while !cursor.is_ended && page.records.len() < limit && bytes < max_bytes {
            let events = turns.read(&cursor.stream, cursor.seq, EVENTS).await?.events;
            if events.is_empty() {
                break;
            }
            for event in events {
                cursor.seq = event.seq();
                let Some(record) = cursor.trace.apply(&event) else {
                    continue;
                };
                cursor.records += 1;
                cursor.is_ended = matches!(record, RunRecord::Ended(_));
                if cursor.records > after {
                    let record = fit(record, &self.limits);
                    bytes += json_bytes(&record);
                    page.records.push(record);
                }
                if cursor.is_ended || page.records.len() >= limit || bytes >= max_bytes {
                    break 'reading;
                }
            }
        }
        page.head = cursor.records;
        self.store_cursor(cursor);
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
    fn cursors(&self) -> MutexGuard<'_, Vec<TraceCursor>> {
        lock(&self.cursors)
    }

    /// Removes and returns the cursor at which a reader stopped, or creates one at the trace's beginning.
    fn cursor(&self, turn: &TurnRun, after: u64) -> TraceCursor {
        let matches =
            |cursor: &TraceCursor| (cursor.position, cursor.records) == (turn.position, after);
        let cursors = self.cursors();
        match cursors.iter().rfind(|cursor| matches(cursor)) {
            Some(cursor) => cursor.clone(),
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

    /// Caches a cursor. Each reader of a run has one: continuing replaces the previous cursor.
    fn store_cursor(&self, cursor: TraceCursor) {
        let mut cursors = self.cursors();
        cursors
            .retain(|cached| cached.position != cursor.position || cached.records > cursor.records);
        if cursors.len() >= MAX_CURSORS {
            cursors.remove(0);
        }
        if !cursor.is_ended {
            cursors.push(cursor);
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
