//! Fleets: runs of many tasks over workers that are threads of this daemon.

mod core;
mod dispatch;
mod run;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use self::core::{Core, read_run};
use crate::clock::Clock;
use crate::error::{WorkError, check_name};
use crate::ledger::WorkStore;

pub use run::{
    FleetCommand, FleetEvent, FleetPlan, FleetRefused, FleetRun, FleetRunId, FleetRunMarker,
    FleetRunStatus, FleetTask, FleetTaskSpec, FleetTaskStatus, ReleaseCause, Told, Worker,
    WorkerSpec, is_stale,
};

/// Rows of runs that have not ended.
const OPEN: &str = "work.fleet";
/// Rows of runs that have, with their plans.
const ENDED: &str = "work.fleet.ended";
/// Rows of plans of open runs, written once: they are big, and do not change.
const PLAN: &str = "work.fleet.plan";

/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
/// The longest page of a list.
const LIST: usize = 50;

/// What an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetSettings {
    /// How many workers of all runs work at once.
    pub workers: usize,
    /// How many runs may be open.
    pub open_runs: usize,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            workers: 8,
            open_runs: 32,
        }
    }
}

/// The fleet; clones share it.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

struct Inner {
    store: WorkStore,
    clock: Arc<dyn Clock>,
    settings: FleetSettings,
    core: Mutex<Core>,
    bell: Notify,
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Takes up the open runs of a store. Nothing is carried out before [`run`](Self::run).
    pub async fn open(
        store: WorkStore,
        clock: Arc<dyn Clock>,
        settings: FleetSettings,
    ) -> Result<Self, WorkError> {
        if settings.workers == 0 {
            return Err(WorkError::invalid("workers", "must be at least 1"));
        }
        let core = Core::open(&store).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                settings,
                core: Mutex::new(core),
                bell: Notify::new(),
                changes: watch::Sender::new(0),
            }),
        })
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }

    async fn core(&self) -> Result<MutexGuard<'_, Core>, WorkError> {
        let mut core = self.inner.core.lock().await;
        core.make_sound(&self.inner.store).await?;
        Ok(core)
    }

    fn rang(&self) {
        self.inner.bell.notify_one();
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// Returns a doorbell that rings when a run has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Begins a run. When this returns it is durable.
    pub async fn create(&self, owner: &str, plan: FleetPlan) -> Result<FleetRun, WorkError> {
        check_name("owner", owner, OWNER_BYTES)?;
        plan.check()?;
        let now = self.now();
        let mut core = self.core().await?;
        let limit = self.inner.settings.open_runs;
        if core.runs.len() >= limit {
            let what = "open runs of the fleet";
            return Err(WorkError::TooMany { what, limit });
        }
        let id = self.inner.clock.uuid().into();
        let run = core.create(id, owner, plan, now).await?;
        drop(core);
        self.rang();
        Ok(run)
    }

    /// Finds a run.
    pub async fn get(&self, id: FleetRunId) -> Result<FleetRun, WorkError> {
        let found = read_run(&self.inner.store, id).await?;
        found.ok_or_else(|| WorkError::not_found("fleet run", id))
    }

    /// Lists runs, the newest first, from behind one on.
    pub async fn list(
        &self,
        before: Option<FleetRunId>,
        limit: usize,
    ) -> Result<Vec<FleetRun>, WorkError> {
        let limit = limit.clamp(1, LIST);
        let before = before.map(|id| id.to_string());
        let records = &self.inner.store.records;
        let open = records.page(OPEN, before.as_deref(), limit).await?;
        let ended = records.page(ENDED, before.as_deref(), limit).await?;
        let mut names: Vec<_> = open.into_iter().chain(ended).map(|row| row.name).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.dedup();
        names.truncate(limit);
        let mut runs = Vec::new();
        for name in names {
            if let Ok(id) = name.parse() {
                runs.push(self.get(id).await?);
            }
        }
        Ok(runs)
    }

    /// Interrupts a worker: its task is cancelled, and it takes another one.
    pub async fn interrupt(&self, id: FleetRunId, worker: &str) -> Result<FleetRun, WorkError> {
        self.tell(id, worker, Told::Interrupt).await
    }

    /// Restarts a worker: its turn is interrupted, and its task is begun anew on the same thread.
    pub async fn restart(&self, id: FleetRunId, worker: &str) -> Result<FleetRun, WorkError> {
        self.tell(id, worker, Told::Restart).await
    }

    async fn tell(&self, id: FleetRunId, worker: &str, what: Told) -> Result<FleetRun, WorkError> {
        let run = self.get(id).await?;
        let mut workers = run.plan.workers.iter();
        let index = workers.position(|spec| spec.worker_id == worker);
        let worker = index.ok_or_else(|| WorkError::not_found("worker", worker))?;
        self.command(id, FleetCommand::Tell { worker, what }).await
    }

    /// Stops a run: what waits is cancelled, what runs is interrupted. One that has ended is answered as it is.
    pub async fn stop(&self, id: FleetRunId) -> Result<FleetRun, WorkError> {
        match self.command(id, FleetCommand::Stop).await {
            Err(WorkError::Conflict { .. }) => self.get(id).await,
            stopped => stopped,
        }
    }

    async fn command(&self, id: FleetRunId, command: FleetCommand) -> Result<FleetRun, WorkError> {
        let now = self.now();
        let mut core = self.core().await?;
        let conflict = |refused: FleetRefused| WorkError::Conflict {
            what: "fleet run",
            id: id.to_string(),
            reason: match refused {
                FleetRefused::Ended => "has ended",
                FleetRefused::Idle => "has no task at that worker",
                FleetRefused::OtherAttempt => "has no such attempt running",
            },
        };
        let Some(run) = core.runs.get(&id) else {
            drop(core);
            self.get(id).await?;
            return Err(conflict(FleetRefused::Ended));
        };
        let events = run.decide(command).map_err(conflict)?;
        if events.is_empty() {
            return Ok(run.clone());
        }
        let after = core.write(now, vec![(id, events)]).await?;
        drop(core);
        self.rang();
        let mut after = after.into_iter();
        after
            .next()
            .ok_or_else(|| WorkError::not_found("fleet run", id))
    }

    /// Forgets ended runs that are older than this, and of the rest all but the newest; returns how many.
    pub async fn forget(&self, age: Duration, newest: usize) -> Result<usize, WorkError> {
        let age = TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX);
        let before = self.now().checked_sub_signed(age);
        let before = before.unwrap_or(DateTime::<Utc>::MIN_UTC);
        Ok(self.inner.store.records.trim(ENDED, before, newest).await?)
    }
}
