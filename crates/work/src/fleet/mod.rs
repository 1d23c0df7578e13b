//! Fleets: runs of many tasks over workers that are threads of this daemon.

mod core;
mod dispatch;
mod history;
mod plan;
mod run;
mod task;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

use self::core::{Core, RequestRow, read_run};
use self::dispatch::LeaseKey;
use crate::clock::Clock;
use crate::error::{WorkError, check_name, check_share};
use crate::hands::{ActiveHold, Assignment};
use crate::kept::{BYTES_OF_OWNER, Kept};
use crate::ledger::{WorkStore, lock, look};
use crate::spec::WorkSpec;
use crate::turns::Holds;

pub use history::{FleetHistory, FleetRecord};
pub use plan::{FleetBegins, FleetPlan, FleetTaskSpec, WorkerSpec};
pub use run::{
    FleetCommand, FleetEvent, FleetRefused, FleetRun, FleetRunId, FleetRunMarker, FleetRunStatus,
    Told, Worker, is_stale,
};
pub use task::{FleetTask, FleetTaskStatus, ReleaseCause};

/// Rows of runs that have not ended.
const OPEN: &str = "work.fleet";
/// Rows of runs that have, with their plans.
const ENDED: &str = "work.fleet.ended";
/// Rows of plans of open runs, written once: they are big, and do not change.
const PLAN: &str = "work.fleet.plan";

/// Rows of ended runs by their owner: his name, a space and that of the run.
const OWNED: &str = "work.fleet.owned";
/// The index of ended runs by owner, in the order of their ends.
const KEPT: &str = "work.fleet.kept";
/// Rows of requests that made a run, so that one that comes again finds it.
const REQUEST: &str = "work.fleet.request";
/// How long a request can come again.
const REPEATED_WITHIN: TimeDelta = TimeDelta::hours(24);
/// Rows of tasks of open runs.
const TASK: &str = "work.fleet.task";

/// Rows of ended runs and their indexes, which a store may remove where there is no room for histories.
pub(crate) const EXPENDABLE: [&str; 3] = [ENDED, KEPT, OWNED];

/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
/// The longest page of a list.
const LIST: usize = 100;
/// How many rows are counted together.
const COUNTED: usize = 1000;

/// The most workers that work at once.
pub const MAX_WORKERS: usize = 64;
/// The most runs that are open. Open runs are in memory, with what their tasks were told.
pub const MAX_OPEN_RUNS: usize = 256;

/// What an operator can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetSettings {
    /// How many workers of all runs work at once, from 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// How many runs may be open, from 1 to [`MAX_OPEN_RUNS`]; half of them may be one owner's.
    pub open_runs: usize,
    /// How many ended runs of each owner are kept; the oldest go first.
    pub ended_runs_of_owner: usize,
    /// How many bytes the ended runs of one owner may have. Open ones are bounded by their number and the size of a plan.
    pub bytes_of_owner: u64,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            workers: 8,
            open_runs: 32,
            ended_runs_of_owner: 10_000,
            bytes_of_owner: BYTES_OF_OWNER,
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
    holds: Holds<LeaseKey>,
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
        for (field, value, most) in [
            ("workers", settings.workers, MAX_WORKERS),
            ("open_runs", settings.open_runs, MAX_OPEN_RUNS),
        ] {
            if !(1..=most).contains(&value) {
                let reason = format!("must be from 1 to {most}, not {value}");
                return Err(WorkError::invalid(field, reason));
            }
        }
        let kept = Kept {
            index: KEPT,
            newest: settings.ended_runs_of_owner,
            bytes: settings.bytes_of_owner,
        };
        let core = Core::open(&store, kept).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                clock,
                settings,
                core: Mutex::new(core),
                bell: Notify::new(),
                changes: watch::Sender::new(0),
                holds: Holds::default(),
            }),
        })
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }

    async fn core(&self) -> Result<MutexGuard<'_, Core>, WorkError> {
        lock(&self.inner.core, &self.inner.store).await
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

    /// Begins a run. When this returns it is durable. A `request` that made one already is answered with that one.
    pub async fn create(
        &self,
        owner: &str,
        plan: FleetPlan,
        request: Option<&str>,
    ) -> Result<FleetRun, WorkError> {
        check_name("owner", owner, OWNER_BYTES)?;
        plan.check()?;
        let now = self.now();
        let mut core = self.core().await?;
        if let Some(request) = request {
            let store = &self.inner.store;
            let known: Option<RequestRow> = store.row(REQUEST, request).await?;
            let known = known.filter(|row| row.at > now - REPEATED_WITHIN);
            if let Some(row) = known
                && let Some(run) = read_run(store, row.run_id).await?
            {
                return Ok(run);
            }
        }
        let limit = self.inner.settings.open_runs;
        if core.runs.len() >= limit {
            let what = "open runs of the fleet";
            return Err(WorkError::TooMany { what, limit });
        }
        let runs = core.runs.values();
        let of_owner = runs.filter(|run| run.owner == owner).count();
        check_share("open runs of this owner", of_owner, limit)?;
        let id = self.inner.clock.uuid().into();
        let run = core.create(id, owner, plan, request, now).await?;
        drop(core);
        self.rang();
        Ok(run)
    }

    /// Returns why a task of a run does not run now, although it is not at its end.
    #[must_use]
    pub fn hold_of(&self, run: &FleetRun, task: usize) -> Option<ActiveHold> {
        let lease = run.leases().find(|(_, of, _)| *of == task);
        match (lease, run.tasks.get(task)) {
            (Some((worker, ..)), _) => self.inner.holds.get((run.id, worker, task)),
            (None, Some(task)) if task.status == FleetTaskStatus::Queued => task.hold.clone(),
            (None, _) => None,
        }
    }

    /// Tries everything that is held at once: the configuration has changed, for example.
    pub async fn retry_held(&self) -> Result<(), WorkError> {
        let mut core = self.core().await?;
        core.runs.values_mut().for_each(FleetRun::release_held);
        drop(core);
        self.inner.holds.retry_all();
        self.inner.bell.notify_one();
        Ok(())
    }

    /// Returns the attempts that run and whose workers must give them up. Their turns must not continue.
    pub async fn cancelled_attempts(&self) -> Result<Vec<Assignment>, WorkError> {
        let core = self.core().await?;
        let attempts = core.runs.values().flat_map(|run| {
            let told = run.leases().filter(|(worker, ..)| {
                let worker = run.workers.get(*worker);
                worker.is_some_and(|worker| worker.told.is_some())
            });
            told.filter_map(|lease| run.assignment(lease))
        });
        Ok(attempts.collect())
    }

    /// Finds a run.
    pub async fn get(&self, id: FleetRunId) -> Result<FleetRun, WorkError> {
        // An open run has several rows, which change together.
        let core = look(&self.inner.core, &self.inner.store).await?;
        if let Some(run) = core.runs.get(&id) {
            return Ok(run.clone());
        }
        drop(core);
        let found = read_run(&self.inner.store, id).await?;
        found.ok_or_else(|| WorkError::not_found("fleet run", id))
    }

    /// Lists runs, the newest first, from behind one on; of one owner or of all. Those that have ended come without what their tasks were
    /// told and said: plans are big.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
        limit: usize,
    ) -> Result<Vec<FleetRun>, WorkError> {
        let limit = limit.clamp(1, LIST);
        let mut runs = self.open_runs(owner, before).await?;
        for id in self.ended_ids(owner, before, limit).await? {
            match read_run(&self.inner.store, id).await {
                Ok(run) => runs.extend(run.map(in_short)),
                // It hides no other.
                Err(error @ WorkError::Corrupt { .. }) => {
                    tracing::error!(%error, "a run of the fleet is left out");
                }
                Err(error) => return Err(error),
            }
        }
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.id));
        // One may have ended between the two.
        runs.dedup_by_key(|run| run.id);
        runs.truncate(limit);
        Ok(runs)
    }

    /// Counts the runs that are kept, of one owner or of all.
    pub async fn count(&self, owner: Option<&str>) -> Result<usize, WorkError> {
        let core = look(&self.inner.core, &self.inner.store).await?;
        let is_theirs = |run: &&FleetRun| owner.is_none_or(|owner| run.owner == owner);
        let mut count = core.runs.values().filter(is_theirs).count();
        drop(core);
        // By the small rows; those of the runs hold all that was said.
        let prefix = owner.map(|owner| format!("{owner} ")).unwrap_or_default();
        let mut before = owner.map(|_| format!("{prefix}g"));
        loop {
            let page = self
                .inner
                .store
                .records
                .page(OWNED, before.as_deref(), COUNTED);
            let page = page.await?;
            for record in &page {
                let Some(name) = record.name.strip_prefix(&prefix) else {
                    return Ok(count);
                };
                let is_one = owner.is_none() || name.parse::<FleetRunId>().is_ok();
                count += usize::from(is_one);
            }
            match page.last() {
                Some(last) if page.len() == COUNTED => before = Some(last.name.clone()),
                _ => return Ok(count),
            }
        }
    }

    /// Returns open runs behind one; there are few.
    async fn open_runs(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
    ) -> Result<Vec<FleetRun>, WorkError> {
        let core = look(&self.inner.core, &self.inner.store).await?;
        let open = core.runs.values().filter(|run| {
            let is_theirs = owner.is_none_or(|owner| run.owner == owner);
            is_theirs && before.is_none_or(|before| run.id < before)
        });
        Ok(open.cloned().collect())
    }

    /// Returns the ids of ended runs behind one, the newest first.
    async fn ended_ids(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
        limit: usize,
    ) -> Result<Vec<FleetRunId>, WorkError> {
        let records = &self.inner.store.records;
        let (kind, prefix) = match owner {
            Some(owner) => (OWNED, format!("{owner} ")),
            None => (ENDED, String::new()),
        };
        let mut before = match before {
            Some(before) => format!("{prefix}{before}"),
            // Behind all names that begin with that of an id.
            None => format!("{prefix}g"),
        };
        let mut ids = Vec::new();
        while ids.len() < limit {
            let page = records.page(kind, Some(&before), limit).await?;
            for record in &page {
                let Some(name) = record.name.strip_prefix(&prefix) else {
                    return Ok(ids);
                };
                ids.extend(name.parse::<FleetRunId>());
            }
            match page.last() {
                Some(last) if page.len() == limit => before.clone_from(&last.name),
                _ => break,
            }
        }
        ids.truncate(limit);
        Ok(ids)
    }

    /// Starts a run that waits for it. One that goes on already is answered as it is.
    pub async fn start(&self, id: FleetRunId) -> Result<FleetRun, WorkError> {
        self.command(id, FleetCommand::Start).await
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
        let conflict = |refused: FleetRefused| {
            let (what, reason) = match refused {
                FleetRefused::Ended => ("fleet run", "has ended"),
                FleetRefused::Idle => ("worker", "has no task now"),
                FleetRefused::OtherAttempt => ("worker", "has no such attempt running"),
            };
            let id = id.to_string();
            WorkError::Conflict { what, id, reason }
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

    /// Forgets ended runs that are older than this; returns how many.
    pub async fn forget(&self, age: Duration) -> Result<usize, WorkError> {
        let (store, now) = (&self.inner.store, self.now());
        let repeated = REPEATED_WITHIN.to_std().unwrap_or_default();
        store.forget(now, repeated, &[REQUEST]).await?;
        store.forget(now, age, &[ENDED, OWNED, KEPT]).await
    }
}

/// Leaves out what a list does not show.
fn in_short(mut run: FleetRun) -> FleetRun {
    for task in &mut Arc::make_mut(&mut run.plan).tasks {
        task.spec = WorkSpec::new("");
        task.objective = None;
    }
    for task in &mut run.tasks {
        (task.summary, task.error) = (None, None);
    }
    run
}
