//! Fleets: runs of many tasks over workers that are threads of this daemon.

mod core;
mod dispatch;
mod history;
mod plan;
mod run;
mod task;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::watch;
use windlass_store::HostRecord;

use self::core::{OpenRuns, RequestRow, read_run};
use self::dispatch::LeaseKey;
use crate::dispatch::Holds;
use crate::error::{JobError, check_name, check_share};
use crate::ledger::{Change, Ledger, Machine};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::JobStore;
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment};
use windlass_core::Clock;

pub use history::{FleetHistory, FleetRecord};
pub use plan::{FleetBegins, FleetPlan, FleetTaskSpec, WorkerSpec};
pub use run::{
    FleetCommand, FleetEvent, FleetRefused, FleetRun, FleetRunId, FleetRunMarker, FleetRunStatus,
    Worker, WorkerCommand, is_stale,
};
pub use task::{FleetTask, FleetTaskStatus, ReleaseCause};

/// Rows of runs that have, with their plans.
const ENDED: &str = "work.fleet.ended";
/// Rows of ended runs by their owner: his name, a space and that of the run.
const OWNED: &str = "work.fleet.owned";
/// The index of ended runs by owner, in the order of their ends.
const KEPT: &str = "work.fleet.kept";
/// How long a request can come again.
const REPEATED_WITHIN: TimeDelta = TimeDelta::hours(24);

/// Rows of ended runs and their indexes, which a store may remove where there is no room for histories.
pub(crate) const EXPENDABLE: [&str; 3] = [ENDED, KEPT, OWNED];

/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
/// The longest page of a list.
const LIST: usize = 100;

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
#[derive(Debug, Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger<OpenRuns>,
    settings: FleetSettings,
    holds: Holds<LeaseKey>,
}

impl Fleet {
    /// Opens the store's open runs. Nothing runs before [`run`](Self::run).
    pub async fn open(
        store: JobStore,
        clock: Arc<dyn Clock>,
        settings: FleetSettings,
    ) -> Result<Self, JobError> {
        for (field, value, most) in [
            ("workers", settings.workers, MAX_WORKERS),
            ("open_runs", settings.open_runs, MAX_OPEN_RUNS),
        ] {
            if !(1..=most).contains(&value) {
                let reason = format!("must be from 1 to {most}, not {value}");
                return Err(JobError::invalid(field, reason));
            }
        }
        let keep = KeepNewest {
            ended: ENDED,
            by_owner: Some(OWNED),
            index: KEPT,
            newest: settings.ended_runs_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                holds: Holds::default(),
            }),
        })
    }

    fn wake(&self) {
        self.inner.ledger.wake();
        self.inner.ledger.notify_changed();
    }

    /// Returns a counter that changes when a run has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.ledger.watch()
    }

    /// Begins a run. When this returns it is durable. A `request` that made one already is answered with that one.
    pub async fn create(
        &self,
        owner: &str,
        plan: FleetPlan,
        request: Option<&str>,
    ) -> Result<FleetRun, JobError> {
        check_name("owner", owner, OWNER_BYTES)?;
        plan.check()?;
        let ledger = &self.inner.ledger;
        let now = ledger.now();
        let mut writer = ledger.lock().await?;
        if let Some(request) = request {
            let store = &ledger.store;
            let known: Option<RequestRow> = store.row(OpenRuns::REQUEST_ROWS, request).await?;
            let known = known.filter(|row| row.at > now - REPEATED_WITHIN);
            if let Some(row) = known
                && let Some(run) = read_run(store, row.run_id).await?
            {
                return Ok(run);
            }
        }
        let limit = self.inner.settings.open_runs;
        if writer.open.runs.len() >= limit {
            let what = "open runs of the fleet";
            return Err(JobError::TooMany { what, limit });
        }
        let runs = writer.open.runs.values();
        let of_owner = runs.filter(|run| run.owner == owner).count();
        check_share("open runs of this owner", of_owner, limit)?;
        let id = ledger.clock().uuid().into();
        let event = FleetEvent::Created {
            owner: owner.to_owned(),
            plan: Box::new(plan),
        };
        let mut change = Change::<OpenRuns>::begin(id, event, request.map(str::to_owned), now)?;
        change.after.first_seq = writer.next_seq();
        let run = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.wake();
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
    pub async fn retry_held(&self) -> Result<(), JobError> {
        let mut writer = self.inner.ledger.lock().await?;
        let runs = writer.open.runs.values_mut();
        runs.for_each(FleetRun::release_held);
        drop(writer);
        self.inner.holds.retry_all();
        self.inner.ledger.wake();
        Ok(())
    }

    /// Returns the attempts that run and whose workers must give them up. Their turns must not continue.
    pub async fn cancelled_attempts(&self) -> Result<Vec<Assignment>, JobError> {
        let writer = self.inner.ledger.lock().await?;
        let attempts = writer.open.runs.values().flat_map(|run| {
            let commanded = run.leases().filter(|(worker, ..)| {
                let worker = run.workers.get(*worker);
                worker.is_some_and(|worker| worker.command.is_some())
            });
            commanded.filter_map(|lease| run.assignment(lease))
        });
        Ok(attempts.collect())
    }

    /// Finds a run.
    pub async fn get(&self, id: FleetRunId) -> Result<FleetRun, JobError> {
        // An open run has several rows, which change together.
        let writer = self.inner.ledger.look().await?;
        if let Some(run) = writer.open.runs.get(&id) {
            return Ok(run.clone());
        }
        drop(writer);
        let found = read_run(&self.inner.ledger.store, id).await?;
        found.ok_or_else(|| JobError::not_found("fleet run", id))
    }

    /// Lists runs, the newest first, from behind one on; of one owner or of all. Those that have ended come without what their tasks were
    /// told and said: plans are big.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
        limit: usize,
    ) -> Result<Vec<FleetRun>, JobError> {
        let limit = limit.clamp(1, LIST);
        let mut runs = self.open_runs(owner, before).await?;
        for id in self.ended_ids(owner, before, limit).await? {
            match read_run(&self.inner.ledger.store, id).await {
                Ok(run) => runs.extend(run.map(in_short)),
                // It hides no other.
                Err(error @ JobError::Corrupt { .. }) => {
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
    pub async fn count(&self, owner: Option<&str>) -> Result<usize, JobError> {
        let mut count = self.open_runs(owner, None).await?.len();
        // By the small rows; those of the runs have all their texts.
        let prefix = owner.map(|owner| format!("{owner} ")).unwrap_or_default();
        let before = owner.map(|_| format!("{prefix}g"));
        let visit = |record: &HostRecord| {
            let Some(name) = record.name.strip_prefix(&prefix) else {
                return Ok(ControlFlow::Break(()));
            };
            let is_one = owner.is_none() || name.parse::<FleetRunId>().is_ok();
            count += usize::from(is_one);
            Ok(ControlFlow::Continue(()))
        };
        self.inner.ledger.store.scan(OWNED, before, visit).await?;
        Ok(count)
    }

    /// Returns open runs behind one; there are few.
    async fn open_runs(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
    ) -> Result<Vec<FleetRun>, JobError> {
        let writer = self.inner.ledger.look().await?;
        let open = writer.open.runs.values().filter(|run| {
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
    ) -> Result<Vec<FleetRunId>, JobError> {
        let (kind, prefix) = match owner {
            Some(owner) => (OWNED, format!("{owner} ")),
            None => (ENDED, String::new()),
        };
        // `g` is greater than all names that begin with an id.
        let before = before.map_or_else(|| "g".to_owned(), |before| before.to_string());
        let mut ids = Vec::new();
        let visit = |record: &HostRecord| {
            let Some(name) = record.name.strip_prefix(&prefix) else {
                return Ok(ControlFlow::Break(()));
            };
            ids.extend(name.parse::<FleetRunId>());
            Ok(if ids.len() < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        };
        let store = &self.inner.ledger.store;
        store
            .scan(kind, Some(format!("{prefix}{before}")), visit)
            .await?;
        Ok(ids)
    }

    /// Starts a run that waits for it. One that goes on already is answered as it is.
    pub async fn start(&self, id: FleetRunId) -> Result<FleetRun, JobError> {
        self.command(id, FleetCommand::Start).await
    }

    /// Interrupts a worker: its task is cancelled, and it takes another one.
    pub async fn interrupt(&self, id: FleetRunId, worker: &str) -> Result<FleetRun, JobError> {
        self.command_worker(id, worker, WorkerCommand::Interrupt)
            .await
    }

    /// Restarts a worker: its turn is interrupted, and its task is begun anew on the same thread.
    pub async fn restart(&self, id: FleetRunId, worker: &str) -> Result<FleetRun, JobError> {
        self.command_worker(id, worker, WorkerCommand::Restart)
            .await
    }

    async fn command_worker(
        &self,
        id: FleetRunId,
        worker: &str,
        command: WorkerCommand,
    ) -> Result<FleetRun, JobError> {
        let run = self.get(id).await?;
        let mut workers = run.plan.workers.iter();
        let index = workers.position(|spec| spec.worker_id == worker);
        let worker = index.ok_or_else(|| JobError::not_found("worker", worker))?;
        self.command(id, FleetCommand::CommandWorker { worker, command })
            .await
    }

    /// Stops a run: what waits is cancelled, what runs is interrupted. One that has ended is answered as it is.
    pub async fn stop(&self, id: FleetRunId) -> Result<FleetRun, JobError> {
        match self.command(id, FleetCommand::Stop).await {
            Err(JobError::Conflict { .. }) => self.get(id).await,
            stopped => stopped,
        }
    }

    async fn command(&self, id: FleetRunId, command: FleetCommand) -> Result<FleetRun, JobError> {
        let now = self.inner.ledger.now();
        let mut writer = self.inner.ledger.lock().await?;
        let conflict = |refused: FleetRefused| {
            let (what, reason) = match refused {
                FleetRefused::Ended => ("fleet run", "has ended"),
                FleetRefused::Idle => ("worker", "has no task now"),
                FleetRefused::OtherAttempt => ("worker", "has no such attempt running"),
            };
            let id = id.to_string();
            JobError::Conflict { what, id, reason }
        };
        let Some(run) = writer.open.runs.get(&id) else {
            drop(writer);
            self.get(id).await?;
            return Err(conflict(FleetRefused::Ended));
        };
        let events = run.decide(command).map_err(conflict)?;
        if events.is_empty() {
            return Ok(run.clone());
        }
        let change = Change::<OpenRuns>::of(run.clone(), events, now);
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.wake();
        Ok(after)
    }

    /// Forgets ended runs that are older than this; returns how many.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        let ledger = &self.inner.ledger;
        let repeated = REPEATED_WITHIN.to_std().unwrap_or_default();
        ledger.forget_requests(repeated).await?;
        ledger.forget(age).await
    }
}

/// Leaves out what a list does not show.
fn in_short(mut run: FleetRun) -> FleetRun {
    for task in &mut Arc::make_mut(&mut run.plan).tasks {
        task.spec = JobSpec::new("");
        task.objective = None;
    }
    for task in &mut run.tasks {
        (task.summary, task.error) = (None, None);
    }
    run
}
