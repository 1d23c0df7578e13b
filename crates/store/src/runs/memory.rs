//! Runs in memory. Only the newest ended runs are retained.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use windlass_core::runs::{RunRecord, RunStarted, RunStatus, RunSummary};

use super::{BeginOutcome, RunFilter, RunLog, RunPage, StoredRun};
use crate::journal::JournalError;
use windlass_core::lock::lock;

/// The default number of ended runs to retain.
const MAX_ENDED: usize = 10_000;

/// Runs in memory.
#[derive(Debug)]
pub struct MemoryRunLog {
    max_ended: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    position: u64,
    runs: HashMap<u64, MemoryRun>,
    by_id: HashMap<Arc<str>, u64>,
    by_agent: BTreeSet<(Arc<str>, RunStatus, u64)>,
    by_status: BTreeSet<(RunStatus, u64)>,
    ended: BTreeSet<u64>,
}

#[derive(Debug)]
struct MemoryRun {
    run: StoredRun,
    agent: Arc<str>,
    records: Vec<RunRecord>,
    watchers: Option<watch::Sender<u64>>,
}

impl Default for MemoryRunLog {
    fn default() -> Self {
        Self::with_max_ended(MAX_ENDED)
    }
}

impl MemoryRunLog {
    /// Creates an empty log that retains a number of ended runs.
    #[must_use]
    pub fn with_max_ended(max_ended: usize) -> Self {
        Self {
            max_ended,
            state: Mutex::default(),
        }
    }

    pub(crate) fn find(&self, run_id: &str) -> Option<StoredRun> {
        lock(&self.state)
            .find(run_id)
            .map(|stored| stored.run.clone())
    }

    /// Returns the runs that match a filter, up to a limit for each status.
    pub(crate) fn rows(&self, filter: &RunFilter, limit: usize) -> Vec<StoredRun> {
        let state = lock(&self.state);
        let end = filter.before.unwrap_or(u64::MAX);
        let mut found = Vec::new();
        for status in filter.statuses() {
            let positions: Vec<u64> = match &filter.agent_id {
                Some(agent) => {
                    let agent: Arc<str> = agent.as_str().into();
                    let range = (Arc::clone(&agent), status, 0)..(agent, status, end);
                    let runs = state.by_agent.range(range).rev().take(limit);
                    runs.map(|(_, _, position)| *position).collect()
                }
                None => {
                    let runs = state.by_status.range((status, 0)..(status, end)).rev();
                    runs.take(limit).map(|(_, position)| *position).collect()
                }
            };
            let runs = positions.iter().filter_map(|at| state.runs.get(at));
            found.extend(runs.map(|stored| stored.run.clone()));
        }
        found
    }
}

impl State {
    fn find(&self, run_id: &str) -> Option<&MemoryRun> {
        self.runs.get(self.by_id.get(run_id)?)
    }

    /// Finds the run that a caller wants to change. Fails unless it is open and has the caller's epoch.
    fn claimed(&mut self, run: &StoredRun) -> Result<&mut MemoryRun, JournalError> {
        let removed = JournalError::Removed(run.position);
        let stored = self.runs.get_mut(&run.position).ok_or(removed)?;
        if stored.run.epoch != run.epoch {
            return Err(JournalError::Fenced {
                stream: run.position,
                current: stored.run.epoch,
                claimed: run.epoch,
            });
        }
        let head = stored.records.len() as u64;
        if head != run.head() || run.summary.status != RunStatus::InProgress {
            return Err(JournalError::OutOfSequence {
                stream: run.position,
                head,
                first_seq: run.head() + 1,
            });
        }
        Ok(stored)
    }

    fn remove(&mut self, position: u64) {
        let Some(stored) = self.runs.remove(&position) else {
            return;
        };
        let status = stored.run.summary.status;
        self.by_id.remove(stored.run.summary.run_id.as_str());
        self.by_agent.remove(&(stored.agent, status, position));
        self.by_status.remove(&(status, position));
        self.ended.remove(&position);
    }
}

#[async_trait]
impl RunLog for MemoryRunLog {
    async fn begin(&self, started: RunStarted, client: &str) -> Result<BeginOutcome, JournalError> {
        let mut state = lock(&self.state);
        if let Some(stored) = state.find(&started.run_id) {
            return Ok(BeginOutcome::Existing(stored.run.clone()));
        }
        // Positions follow the time, so that reported runs and turns, which are stored separately, have one order (`RunPositions`).
        let by_time = u64::try_from(started.started_at.timestamp_micros()).unwrap_or(0) * 2;
        state.position = by_time.max(state.position + 2);
        let position = state.position;
        let run = StoredRun {
            position,
            summary: RunSummary::new(&started),
            client: client.to_owned(),
            epoch: 1,
            stream: 0,
        };
        let agent: Arc<str> = started.agent_id.as_str().into();
        state.by_id.insert(started.run_id.as_str().into(), position);
        state
            .by_agent
            .insert((Arc::clone(&agent), RunStatus::InProgress, position));
        state.by_status.insert((RunStatus::InProgress, position));
        let stored = MemoryRun {
            run: run.clone(),
            agent,
            records: vec![RunRecord::Started(started)],
            watchers: None,
        };
        state.runs.insert(position, stored);
        Ok(BeginOutcome::New(run))
    }

    async fn append(
        &self,
        run: &StoredRun,
        records: Vec<RunRecord>,
    ) -> Result<StoredRun, JournalError> {
        let mut state = lock(&self.state);
        let stored = state.claimed(run)?;
        for record in &records {
            stored.run.summary.apply(record);
        }
        stored.records.extend(records);
        if let Some(watchers) = &stored.watchers {
            watchers.send_replace(stored.records.len() as u64);
        }
        let (now, agent) = (stored.run.clone(), Arc::clone(&stored.agent));
        let (status, position) = (now.summary.status, now.position);
        if status != RunStatus::InProgress {
            let before = (Arc::clone(&agent), RunStatus::InProgress, position);
            state.by_agent.remove(&before);
            state.by_agent.insert((agent, status, position));
            state.by_status.remove(&(RunStatus::InProgress, position));
            state.by_status.insert((status, position));
            state.ended.insert(position);
            if state.ended.len() > self.max_ended
                && let Some(oldest) = state.ended.first().copied()
            {
                state.remove(oldest);
            }
        }
        Ok(now)
    }

    async fn take_over(&self, run: &StoredRun, client: &str) -> Result<StoredRun, JournalError> {
        let mut state = lock(&self.state);
        let stored = state.claimed(run)?;
        stored.run.epoch += 1;
        client.clone_into(&mut stored.run.client);
        Ok(stored.run.clone())
    }

    async fn get(&self, run_id: &str) -> Result<Option<StoredRun>, JournalError> {
        Ok(self.find(run_id))
    }

    async fn list(&self, filter: RunFilter, limit: usize) -> Result<Vec<StoredRun>, JournalError> {
        let mut found = self.rows(&filter, limit);
        found.sort_unstable_by_key(|run| std::cmp::Reverse(run.position));
        found.truncate(limit);
        Ok(found)
    }

    async fn read(
        &self,
        run_id: &str,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<RunPage, JournalError> {
        let state = lock(&self.state);
        let Some(stored) = state.find(run_id) else {
            return Ok(RunPage::default());
        };
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        let mut page = RunPage {
            records: Vec::new(),
            head: stored.records.len() as u64,
        };
        let mut bytes = 0;
        for record in stored.records.iter().skip(from).take(limit) {
            if bytes >= max_bytes {
                break;
            }
            bytes += serde_json::to_vec(record).map_or(0, |text| text.len());
            page.records.push(record.clone());
        }
        Ok(page)
    }

    async fn watch(&self, run_id: &str) -> Result<watch::Receiver<u64>, JournalError> {
        let mut state = lock(&self.state);
        let position = state.by_id.get(run_id).copied();
        let Some(stored) = position.and_then(|position| state.runs.get_mut(&position)) else {
            return Ok(watch::channel(0).1);
        };
        let head = stored.records.len() as u64;
        let watchers = stored
            .watchers
            .get_or_insert_with(|| watch::channel(head).0);
        Ok(watchers.subscribe())
    }

    async fn forget(
        &self,
        ended_before: DateTime<Utc>,
        limit: usize,
    ) -> Result<usize, JournalError> {
        let mut state = lock(&self.state);
        let is_old = |position: &&u64| {
            let ended_at = state
                .runs
                .get(position)
                .and_then(|stored| stored.run.summary.ended_at);
            ended_at.is_some_and(|at| at < ended_before)
        };
        let old: Vec<u64> = state
            .ended
            .iter()
            .filter(is_old)
            .take(limit)
            .copied()
            .collect();
        for position in &old {
            state.remove(*position);
        }
        Ok(old.len())
    }
}
