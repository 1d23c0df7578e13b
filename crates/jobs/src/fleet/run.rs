//! One run of a fleet: tasks, workers that lease them, and what follows from each word. Pure: time and ids come from outside.
//!
//! A worker holds the lease of one task at a time. A lease is an attempt; it ends with the end of its turn, or when the worker is
//! restarted or stopped. An attempt whose worker fell silent is stale: it is shown, and goes on. Nothing takes a task away
//! from a turn that may still be at work, so no task is worked on twice at a time, and none is begun again unless a turn
//! has said that it failed or was interrupted.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::derived_id::derive;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::{IdMarker, SessionId, TurnId, TypedId};

use super::plan::{FleetBegins, FleetPlan};
use super::task::{FleetTask, FleetTaskStatus, ReleaseCause};
use crate::attempt::{AttemptOutcome, RetryCause, StopRequest, outcome};
use crate::error::cut_to;
use crate::turn_runner::{Assignment, HoldCause, TurnEnd};

/// How much of a summary or an error is kept; more is in the thread.
const END_BYTES: usize = 1024;

/// Marks ids of runs of a fleet.
#[derive(Debug)]
pub struct FleetRunMarker;

impl IdMarker for FleetRunMarker {
    const PREFIX: &'static str = "fleet";
}

/// Identifies a run of a fleet.
pub type FleetRunId = TypedId<FleetRunMarker>;

/// A command to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCommand {
    /// To give up its task, which is then cancelled.
    Interrupt,
    /// To give up its task and begin it anew.
    Restart,
    /// To give up its task, because the run is stopped.
    Stop,
}

/// A worker as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Worker {
    /// The task that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The command that it received and has not completed yet.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub command: Option<WorkerCommand>,
    /// How often it was restarted.
    #[serde(default)]
    pub restarts: u32,
    /// Why its last attempt came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A run, as its records fold to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetRun {
    /// Identifies it.
    pub id: FleetRunId,
    /// Whose it is.
    pub owner: String,
    /// What it was asked to do. Kept apart, because it does not change.
    #[serde(skip)]
    pub plan: Arc<FleetPlan>,
    /// Its tasks, in the order of the plan.
    pub tasks: Vec<FleetTask>,
    /// Its workers, in the order of the plan.
    pub workers: Vec<Worker>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When something last happened.
    pub updated_at: DateTime<Utc>,
    /// The number of its first record.
    #[serde(default)]
    pub first_seq: u64,
    /// When somebody started it, where it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When somebody stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<DateTime<Utc>>,
    /// When its last task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
}

/// Where a run is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetRunStatus {
    /// Nobody has started it.
    Pending,
    /// No task has begun.
    Queued,
    /// Some have.
    Running,
    /// All were done.
    Completed,
    /// Some were done.
    Partial,
    /// None was done.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// What happens to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FleetEvent {
    /// It was asked for.
    Created {
        /// Whose it is.
        owner: String,
        /// What is to be done.
        plan: Box<FleetPlan>,
    },
    /// Somebody started it.
    Started,
    /// A worker is about to begin a task.
    Leased {
        /// The worker.
        worker: usize,
        /// The task.
        task: usize,
        /// Which attempt it is, from 1.
        attempt: u32,
    },
    /// A worker received a command.
    #[serde(rename = "told")]
    WorkerCommanded {
        /// The worker.
        worker: usize,
        /// The command.
        #[serde(rename = "what")]
        command: WorkerCommand,
    },
    /// A worker gave its task up, and it waits for one again.
    Released {
        /// The worker.
        worker: usize,
        /// On whose account.
        cause: ReleaseCause,
        /// Why.
        error: String,
        /// What it waits for, where it was held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<HoldCause>,
        /// When that is known to end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<DateTime<Utc>>,
    },
    /// A task has its end.
    TaskEnded {
        /// The task.
        task: usize,
        /// How it ended.
        status: FleetTaskStatus,
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Why nothing came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Calls of its last turn that did not run for want of an approval.
        #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
        unapproved: UnapprovedCalls,
    },
    /// It takes no further task.
    Stopped,
    /// All its tasks have ended.
    Completed,
}

impl FleetEvent {
    /// Returns the name of its records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "fleet.created",
            Self::Started => "fleet.started",
            Self::Leased { .. } => "fleet.leased",
            Self::WorkerCommanded { .. } => "fleet.told",
            Self::Released { .. } => "fleet.released",
            Self::TaskEnded { .. } => "fleet.task_ended",
            Self::Stopped => "fleet.stopped",
            Self::Completed => "fleet.completed",
        }
    }
}

/// What is asked of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetCommand {
    /// Begin, where it waits for that.
    Start,
    /// Give tasks to workers that have none, so many at most.
    Lease {
        /// How many.
        limit: usize,
    },
    /// The turn of a worker's attempt has ended.
    Finish {
        /// The worker.
        worker: usize,
        /// The task.
        task: usize,
        /// Which attempt.
        attempt: u32,
        /// How.
        end: TurnEnd,
    },
    /// Send a command to a worker.
    CommandWorker {
        /// The worker.
        worker: usize,
        /// To give up its task for good or for now.
        command: WorkerCommand,
    },
    /// Take no further task, and end those that run.
    Stop,
}

/// Why a command does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FleetRefused {
    /// The run has ended.
    #[error("has ended")]
    Ended,
    /// The worker has no task.
    #[error("has no task")]
    Idle,
    /// That attempt does not run.
    #[error("has no such attempt running")]
    OtherAttempt,
}

impl FleetRun {
    /// Begins a run with its first record; `None` where it is another one.
    #[must_use]
    pub fn begin(id: FleetRunId, at: DateTime<Utc>, event: &FleetEvent) -> Option<Self> {
        let FleetEvent::Created { owner, plan } = event else {
            return None;
        };
        Some(Self {
            id,
            owner: owner.clone(),
            tasks: vec![FleetTask::NEW; plan.tasks.len()],
            workers: vec![Worker::default(); plan.workers.len()],
            plan: Arc::new((**plan).clone()),
            created_at: at,
            updated_at: at,
            first_seq: 0,
            started_at: None,
            stopped_at: None,
            completed_at: None,
        })
    }

    /// Says what follows from a command.
    pub fn decide(&self, command: FleetCommand) -> Result<Vec<FleetEvent>, FleetRefused> {
        if self.completed_at.is_some() {
            return Err(FleetRefused::Ended);
        }
        match command {
            FleetCommand::Start => Ok(if self.waits_for_start() {
                vec![FleetEvent::Started]
            } else {
                Vec::new()
            }),
            FleetCommand::Lease { limit } => Ok(self.lease(limit)),
            FleetCommand::CommandWorker { worker, command } => {
                let state = self.workers.get(worker).ok_or(FleetRefused::Idle)?;
                match (&state.task_id, state.command) {
                    (None, _) => Err(FleetRefused::Idle),
                    // The first command applies.
                    (Some(_), Some(_)) => Ok(Vec::new()),
                    (Some(_), None) => Ok(vec![FleetEvent::WorkerCommanded { worker, command }]),
                }
            }
            FleetCommand::Stop => Ok(self.stop()),
            FleetCommand::Finish {
                worker,
                task,
                attempt,
                end,
            } => {
                let is_its = self.leases().any(|lease| lease == (worker, task, attempt));
                if is_its {
                    Ok(self.finish(worker, task, end))
                } else {
                    Err(FleetRefused::OtherAttempt)
                }
            }
        }
    }

    /// Tells whether nothing begins before somebody starts it.
    #[must_use]
    pub fn waits_for_start(&self) -> bool {
        self.plan.begins == FleetBegins::WhenStarted && self.started_at.is_none()
    }

    fn lease(&self, limit: usize) -> Vec<FleetEvent> {
        if self.stopped_at.is_some() || self.waits_for_start() {
            return Vec::new();
        }
        // What holds one holds the others too.
        let is_held = |task: &FleetTask| {
            let hold = task.hold.as_ref().filter(|_| task.not_before.is_some());
            hold.is_some_and(|hold| hold.cause.is_of_owner())
        };
        if self.tasks.iter().any(is_held) {
            return Vec::new();
        }
        let idle = (self.workers.iter().enumerate()).filter(|(_, worker)| worker.task_id.is_none());
        let mut idle: Vec<usize> = idle.map(|(index, _)| index).collect();
        let mut leased = Vec::new();
        for (index, task) in self.tasks.iter().enumerate() {
            if leased.len() >= limit || idle.is_empty() {
                break;
            }
            if task.status != FleetTaskStatus::Queued || task.not_before.is_some() {
                continue;
            }
            let fits = idle.iter().position(|worker| self.fits(index, *worker));
            if let Some(at) = fits {
                leased.push(FleetEvent::Leased {
                    worker: idle.remove(at),
                    task: index,
                    attempt: task.attempts + 1,
                });
            }
        }
        leased
    }

    /// Tells whether a worker can go on with the thread of a task.
    fn fits(&self, task: usize, worker: usize) -> bool {
        let names_backend = |task: usize| {
            let task = self.plan.tasks.get(task);
            task.is_some_and(|task| task.spec.policy.backend.is_some())
        };
        let backend = |worker: usize| self.plan.workers.get(worker).map(|spec| &spec.backend);
        let first = self.tasks.get(task).and_then(|task| task.first_worker);
        first.is_none_or(|first| names_backend(task) || backend(first) == backend(worker))
    }

    fn stop(&self) -> Vec<FleetEvent> {
        if self.stopped_at.is_some() {
            return Vec::new();
        }
        let mut events = vec![FleetEvent::Stopped];
        for (worker, _, _) in self.leases() {
            let command = WorkerCommand::Stop;
            events.push(FleetEvent::WorkerCommanded { worker, command });
        }
        let waiting = self.tasks.iter().enumerate();
        let waiting = waiting.filter(|(_, task)| task.status == FleetTaskStatus::Queued);
        events.extend(waiting.map(|(task, _)| FleetEvent::TaskEnded {
            task,
            status: FleetTaskStatus::Cancelled,
            summary: None,
            error: None,
            unapproved: UnapprovedCalls::default(),
        }));
        self.complete(events)
    }

    fn finish(&self, worker: usize, task: usize, end: TurnEnd) -> Vec<FleetEvent> {
        let command = self.workers.get(worker).and_then(|worker| worker.command);
        let request = command.map(|command| match command {
            WorkerCommand::Stop | WorkerCommand::Interrupt => StopRequest::Cancel,
            WorkerCommand::Restart => StopRequest::Restart,
        });
        let counted = self.tasks.get(task).map_or(0, FleetTask::counted_attempts);
        let planned = self.plan.tasks.get(task);
        let allowed = planned.map_or(1, |task| task.spec.max_attempts);
        let event = match outcome(end, request, counted < allowed) {
            AttemptOutcome::Continues => return Vec::new(),
            AttemptOutcome::Ended {
                status,
                summary,
                error,
                unapproved,
            } => FleetEvent::TaskEnded {
                task,
                status: status.into(),
                summary: summary.map(cut),
                error: error.map(cut),
                unapproved,
            },
            AttemptOutcome::NotBegun(hold) => FleetEvent::Released {
                worker,
                cause: ReleaseCause::Held,
                error: cut(hold.reason),
                hold: Some(hold.cause),
                until: hold.until,
            },
            AttemptOutcome::Retry { error, cause } => {
                let (cause, until) = match cause {
                    RetryCause::Failure => (ReleaseCause::Failure, None),
                    RetryCause::Restart => (ReleaseCause::Restart, None),
                    RetryCause::Budget(renews_at) => (ReleaseCause::Budget, Some(renews_at)),
                };
                FleetEvent::Released {
                    worker,
                    cause,
                    error: cut(error),
                    hold: None,
                    until,
                }
            }
        };
        self.complete(vec![event])
    }

    /// Adds the end of the run where the events end its last task.
    fn complete(&self, mut events: Vec<FleetEvent>) -> Vec<FleetEvent> {
        let mut after = self.clone();
        events
            .iter()
            .for_each(|event| after.evolve(self.updated_at, event));
        if after.tasks.iter().all(|task| task.status.is_end()) {
            events.push(FleetEvent::Completed);
        }
        events
    }

    /// Takes in the next record.
    pub fn evolve(&mut self, at: DateTime<Utc>, event: &FleetEvent) {
        self.updated_at = at;
        match event {
            FleetEvent::Created { .. } => {}
            FleetEvent::Started => self.started_at = Some(at),
            FleetEvent::Leased {
                worker,
                task,
                attempt,
            } => {
                let names = (self.plan.workers.get(*worker), self.plan.tasks.get(*task));
                let (Some(worker_spec), Some(task_spec)) = names else {
                    return;
                };
                if let Some(task) = self.tasks.get_mut(*task) {
                    task.status = FleetTaskStatus::Running;
                    task.leased_to = Some(worker_spec.worker_id.clone());
                    task.attempts = *attempt;
                    // What an earlier attempt met is no news of this one.
                    task.error = None;
                    task.first_worker.get_or_insert(*worker);
                }
                if let Some(worker) = self.workers.get_mut(*worker) {
                    worker.task_id = Some(task_spec.task_id.clone());
                }
            }
            FleetEvent::WorkerCommanded { worker, command } => {
                if let Some(worker) = self.workers.get_mut(*worker) {
                    worker.command = Some(*command);
                    worker.restarts += u32::from(*command == WorkerCommand::Restart);
                }
            }
            FleetEvent::Released {
                worker,
                cause,
                error,
                hold,
                until,
            } => {
                let lease = self.leases().find(|(of, ..)| of == worker);
                if let Some(task) = lease.and_then(|(_, task, _)| self.tasks.get_mut(task)) {
                    task.release(at, *cause, error, *hold, *until);
                }
                self.free(*worker, Some(error));
            }
            FleetEvent::TaskEnded {
                task,
                status,
                summary,
                error,
                unapproved,
            } => {
                let lease = self.leases().find(|(_, of, _)| of == task);
                if let Some((worker, ..)) = lease {
                    self.free(worker, error.as_ref());
                }
                if let Some(task) = self.tasks.get_mut(*task) {
                    task.status = *status;
                    task.hold = None;
                    task.not_before = None;
                    task.unapproved = *unapproved;
                    task.summary.clone_from(summary);
                    task.error.clone_from(error);
                }
            }
            FleetEvent::Stopped => self.stopped_at = Some(at),
            FleetEvent::Completed => self.completed_at = Some(at),
        }
    }

    fn free(&mut self, worker: usize, error: Option<&String>) {
        let Some(worker) = self.workers.get_mut(worker) else {
            return;
        };
        let name = worker.task_id.take();
        worker.command = None;
        if error.is_some() {
            worker.last_error = error.cloned();
        }
        let index = self
            .plan
            .tasks
            .iter()
            .position(|task| Some(&task.task_id) == name.as_ref());
        if let Some(task) = index.and_then(|index| self.tasks.get_mut(index)) {
            task.leased_to = None;
        }
    }

    /// Lets held tasks wait for a worker.
    pub fn release_held(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.hold.is_some()) {
            task.not_before = None;
        }
    }

    /// Lets tasks wait for a worker whose time has come.
    pub fn ripen(&mut self, now: DateTime<Utc>) {
        for task in &mut self.tasks {
            task.not_before = task.not_before.filter(|due| *due > now);
        }
    }

    /// Returns when the next task has waited long enough.
    #[must_use]
    pub fn next_due(&self) -> Option<DateTime<Utc>> {
        self.tasks.iter().filter_map(|task| task.not_before).min()
    }

    /// Returns worker, task and attempt of each lease.
    pub fn leases(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        let leased = self.tasks.iter().enumerate();
        leased.filter_map(|(index, task)| {
            let name = task.leased_to.as_ref()?;
            let mut workers = self.plan.workers.iter();
            let worker = workers.position(|worker| worker.worker_id == *name)?;
            Some((worker, index, task.attempts))
        })
    }

    /// Returns where it is, in one word.
    #[must_use]
    pub fn status(&self) -> FleetRunStatus {
        let done = |status| {
            self.tasks
                .iter()
                .filter(|task| task.status == status)
                .count()
        };
        if self.completed_at.is_none() && self.waits_for_start() {
            return FleetRunStatus::Pending;
        }
        if self.completed_at.is_none() {
            return if self.tasks.iter().all(|task| task.attempts == 0) {
                FleetRunStatus::Queued
            } else {
                FleetRunStatus::Running
            };
        }
        match done(FleetTaskStatus::Completed) {
            all if all == self.tasks.len() => FleetRunStatus::Completed,
            _ if self.stopped_at.is_some() => FleetRunStatus::Cancelled,
            0 => FleetRunStatus::Failed,
            _ => FleetRunStatus::Partial,
        }
    }

    /// Returns the thread of a task's worker. Each task has its own, and all its attempts share it.
    #[must_use]
    pub fn thread_id(&self, task: usize) -> SessionId {
        SessionId::from_uuid(derive(derive(self.id.uuid(), task as u64), 0))
    }

    /// Returns the turn of an attempt.
    #[must_use]
    pub fn turn_id(&self, task: usize, attempt: u32) -> TurnId {
        TurnId::from_uuid(derive(
            derive(self.id.uuid(), task as u64),
            u64::from(attempt),
        ))
    }

    /// Returns the attempt of a lease.
    #[must_use]
    pub fn assignment(&self, (worker, task, attempt): (usize, usize, u32)) -> Option<Assignment> {
        let planned = self.plan.tasks.get(task)?;
        let mut spec = planned.spec.clone();
        let worker = self.plan.workers.get(worker)?;
        let policy = &mut spec.policy;
        policy.backend = policy.backend.take().or_else(|| worker.backend.clone());
        Some(Assignment {
            owner: self.owner.clone(),
            task: format!("{}/{}", self.id, planned.task_id),
            thread_id: self.thread_id(task),
            turn_id: self.turn_id(task, attempt),
            attempt,
            spec,
        })
    }
}

fn cut(text: String) -> String {
    cut_to(text, END_BYTES)
}

/// Tells whether a worker fell silent.
#[must_use]
pub fn is_stale(heartbeat: Option<DateTime<Utc>>, now: DateTime<Utc>, patience: TimeDelta) -> bool {
    heartbeat.is_none_or(|at| now - at > patience)
}
