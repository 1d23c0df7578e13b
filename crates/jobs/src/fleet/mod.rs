//! Fleets: runs of many tasks on workers, which are threads of this daemon.

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

use self::core::{FleetRequestRow, OpenFleetRuns, read_run};
use self::dispatch::LeaseKey;
use crate::dispatch::Holds;
use crate::error::{JobError, check_name, check_owner_share, skip_corrupt};
use crate::ledger::{Change, JobKind, Ledger};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::JobStore;
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment};
use windlass_core::Clock;
use windlass_macros::Defaults;

pub use history::{FleetHistory, FleetRecord};
pub use plan::{FleetPlan, FleetStart, FleetTaskSpec, WorkerSpec};
pub use run::{
    FleetCommand, FleetEvent, FleetRefused, FleetRun, FleetRunId, FleetRunIdMarker, FleetRunStatus,
    Worker, WorkerCommand, is_stale,
};
pub use task::{FleetTask, FleetTaskStatus, ReleaseCause};

/// Rows of ended runs, with their plans.
const ENDED: &str = "work.fleet.ended";
/// Rows of ended runs by owner: the owner's name, a space and the run ID.
const OWNED: &str = "work.fleet.owned";
/// The index of ended runs by owner, in the order of their ends.
const RETAINED: &str = "work.fleet.kept";
/// How long a repeated request returns the same run.
const REQUEST_LIFETIME: TimeDelta = TimeDelta::hours(24);

/// Rows of ended runs and their indexes, which a store may prune when history exceeds its limit.
pub(crate) const EXPENDABLE: [&str; 3] = [ENDED, RETAINED, OWNED];

/// Maximum length of an owner's name in bytes.
const OWNER_BYTES: usize = 256;
/// Maximum page size of a list.
const MAX_PAGE: usize = 100;

/// Maximum number of workers that work at once.
pub const MAX_WORKERS: usize = 64;
/// Maximum number of open runs. Open runs are in memory, with the prompts of their tasks.
pub const MAX_OPEN_RUNS: usize = 256;

/// Settings of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct FleetSettings {
    /// Maximum number of workers of all runs that work at once, from 1 to [`MAX_WORKERS`].
    #[default(8)]
    pub workers: usize,
    /// Maximum number of open runs, from 1 to [`MAX_OPEN_RUNS`]; one owner may have half of them.
    #[default(32)]
    pub open_runs: usize,
    /// Maximum number of stored ended runs of each owner; the oldest are removed first.
    #[default(10_000)]
    pub ended_runs_of_owner: usize,
    /// Maximum bytes of one owner's ended runs. Open runs are limited by their number and the size of a plan.
    #[default(BYTES_OF_OWNER)]
    pub bytes_of_owner: u64,
}

/// The fleet; clones share state.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<SharedFleet>,
}

struct SharedFleet {
    ledger: Ledger<OpenFleetRuns>,
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
            index: RETAINED,
            newest: settings.ended_runs_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(SharedFleet {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                holds: Holds::default(),
            }),
        })
    }

    /// Returns a counter that changes when a run has changed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.ledger.watch()
    }

    /// Creates a run. It is durable when this returns. A repeated `request` returns the run that it created.
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
            let known: Option<FleetRequestRow> =
                store.row(OpenFleetRuns::REQUEST_ROWS, request).await?;
            let known = known.filter(|row| row.at > now - REQUEST_LIFETIME);
            if let Some(row) = known
                && let Some(run) = read_run(store, row.run_id).await?
            {
                return Ok(run);
            }
        }
        let limit = self.inner.settings.open_runs;
        if writer.open.runs.len() >= limit {
            let object = "open runs of the fleet";
            return Err(JobError::TooMany { object, limit });
        }
        let runs = writer.open.runs.values();
        let of_owner = runs.filter(|run| run.owner == owner).count();
        check_owner_share("open runs of this owner", of_owner, limit)?;
        let id = ledger.clock().uuid().into();
        let event = FleetEvent::Created {
            owner: owner.to_owned(),
            plan: Box::new(plan),
        };
        let mut change =
            Change::<OpenFleetRuns>::begin(id, event, request.map(str::to_owned), now)?;
        change.after.first_seq = writer.next_seq();
        let run = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.inner.ledger.wake_and_notify();
        Ok(run)
    }

    /// Returns why a task that has not ended does not run now.
    #[must_use]
    pub fn hold_of(&self, run: &FleetRun, task: usize) -> Option<ActiveHold> {
        let lease = run.leases().find(|(_, of, _)| *of == task);
        match (lease, run.tasks.get(task)) {
            (Some((worker, ..)), _) => self.inner.holds.get((run.id, worker, task)),
            (None, Some(task)) if task.status == FleetTaskStatus::Queued => task.hold.clone(),
            (None, _) => None,
        }
    }

    /// Retries all held tasks immediately, for example after a change of the configuration.
    pub async fn retry_held(&self) -> Result<(), JobError> {
        let mut writer = self.inner.ledger.lock().await?;
        let runs = writer.open.runs.values_mut();
        runs.for_each(FleetRun::release_held);
        drop(writer);
        self.inner.holds.retry_all();
        self.inner.ledger.wake();
        Ok(())
    }

    /// Returns the running attempts whose workers have a command to give them up. Their turns must not continue.
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
        let writer = self.inner.ledger.read().await?;
        if let Some(run) = writer.open.runs.get(&id) {
            return Ok(run.clone());
        }
        drop(writer);
        let found = read_run(&self.inner.ledger.store, id).await?;
        found.ok_or_else(|| JobError::not_found("fleet run", id))
    }

    /// Lists runs of one owner or of all, the newest first, after the one with the ID `before`. Ended runs come without prompts and results
    /// of their tasks, because plans are large.
    pub async fn list(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
        limit: usize,
    ) -> Result<Vec<FleetRun>, JobError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let mut runs = self.open_runs(owner, before).await?;
        for id in self.ended_ids(owner, before, limit).await? {
            let run = read_run(&self.inner.ledger.store, id).await;
            let run = skip_corrupt(run, "a fleet run is skipped")?;
            runs.extend(run.flatten().map(without_texts));
        }
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.id));
        // A run may have ended between the two reads.
        runs.dedup_by_key(|run| run.id);
        runs.truncate(limit);
        Ok(runs)
    }

    /// Counts the stored runs of one owner or of all.
    pub async fn count(&self, owner: Option<&str>) -> Result<usize, JobError> {
        let mut count = self.open_runs(owner, None).await?.len();
        // Counts the small rows; those of the runs contain all their texts.
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

    /// Returns the open runs after `before`; there are few.
    async fn open_runs(
        &self,
        owner: Option<&str>,
        before: Option<FleetRunId>,
    ) -> Result<Vec<FleetRun>, JobError> {
        let writer = self.inner.ledger.read().await?;
        let open = writer.open.runs.values().filter(|run| {
            let is_theirs = owner.is_none_or(|owner| run.owner == owner);
            is_theirs && before.is_none_or(|before| run.id < before)
        });
        Ok(open.cloned().collect())
    }

    /// Returns the IDs of ended runs after `before`, the newest first.
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

    /// Starts a run that waits for its start. A started run is returned unchanged.
    pub async fn start(&self, id: FleetRunId) -> Result<FleetRun, JobError> {
        self.command(id, FleetCommand::Start).await
    }

    /// Interrupts a worker: its task is cancelled, and the worker gets another one.
    pub async fn interrupt(&self, id: FleetRunId, worker: &str) -> Result<FleetRun, JobError> {
        self.command_worker(id, worker, WorkerCommand::Interrupt)
            .await
    }

    /// Restarts a worker: its turn is interrupted, and its task starts again on the same thread.
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

    /// Stops a run: queued tasks are cancelled and running ones are interrupted. An ended run is returned unchanged.
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
            let (object, reason) = match refused {
                FleetRefused::Ended => ("fleet run", "has ended"),
                FleetRefused::Idle => ("worker", "has no task now"),
                FleetRefused::OtherAttempt => ("worker", "has no such attempt running"),
            };
            JobError::conflict(object, id, reason)
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
        let change = Change::<OpenFleetRuns>::apply(run.clone(), events, now);
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        drop(writer);
        self.inner.ledger.wake_and_notify();
        Ok(after)
    }

    /// Removes ended runs older than `age`; returns their number.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        let ledger = &self.inner.ledger;
        let repeated = REQUEST_LIFETIME.to_std().unwrap_or_default();
        ledger.forget_requests(repeated).await?;
        ledger.forget(age).await
    }
}

/// Removes the texts that a list does not show.
fn without_texts(mut run: FleetRun) -> FleetRun {
    for task in &mut Arc::make_mut(&mut run.plan).tasks {
        task.spec = JobSpec::new("");
        task.objective = None;
    }
    for task in &mut run.tasks {
        (task.summary, task.error) = (None, None);
    }
    run
}
