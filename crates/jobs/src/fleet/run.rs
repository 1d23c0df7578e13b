//! The state of one fleet run and its transitions. Pure: the caller supplies time and IDs.
//!
//! A worker holds the lease of one task at a time. A lease is an attempt; it ends with the end of its turn, or when the worker is
//! restarted or stopped. An attempt whose worker sends no heartbeat is shown as stale and continues. A task is never taken from a
//! turn that may still be running, so no task runs twice at the same time. A task starts again only after its turn has failed or
//! was interrupted.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::derived_id::derive;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_macros::omit_none;

use super::plan::{FleetPlan, FleetStart};
use super::task::{FleetTask, FleetTaskStatus, ReleaseCause};
use crate::attempt::{AttemptOutcome, RetryCause, StopRequest, outcome};
use crate::error::truncate_to;
use crate::turn_runner::{Assignment, HoldCause, TurnEnd};

/// Maximum stored length of a summary or an error in bytes; the thread has the full text.
const END_BYTES: usize = 1024;

windlass_core::ids! {
    FleetRunId, FleetRunIdMarker, "fleet", "a fleet run";
}

/// A command to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCommand {
    /// Give up the task, which is then cancelled.
    Interrupt,
    /// Give up the task and start it again.
    Restart,
    /// Give up the task, because the run is stopped.
    Stop,
}

/// The state of a worker.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Worker {
    /// The task that it is leasing.
    pub task_id: Option<String>,
    /// The command that it received and has not completed yet.
    #[serde(rename = "told", default, skip_serializing_if = "Option::is_none")]
    pub command: Option<WorkerCommand>,
    /// Number of restarts by clients.
    #[serde(default)]
    pub restarts: u32,
    /// Error of its last attempt that did not succeed.
    pub last_error: Option<String>,
}

/// A fleet run: the fold of its records.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetRun {
    /// ID of the run.
    pub id: FleetRunId,
    /// The token or agent that the run belongs to.
    pub owner: String,
    /// The plan. Stored in a separate row, because it does not change.
    #[serde(skip)]
    pub plan: Arc<FleetPlan>,
    /// Its tasks, in the order of the plan.
    pub tasks: Vec<FleetTask>,
    /// Its workers, in the order of the plan.
    pub workers: Vec<Worker>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time of the last event.
    pub updated_at: DateTime<Utc>,
    /// Sequence number of its first record.
    #[serde(default)]
    pub first_seq: u64,
    /// When a client started it, if the plan requires that.
    pub started_at: Option<DateTime<Utc>>,
    /// When a client stopped it.
    pub stopped_at: Option<DateTime<Utc>>,
    /// When its last task ended.
    pub completed_at: Option<DateTime<Utc>>,
}

/// Status of a fleet run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetRunStatus {
    /// It waits for a client to start it.
    Pending,
    /// No task has started.
    Queued,
    /// At least one task has started.
    Running,
    /// All tasks succeeded.
    Completed,
    /// Some tasks succeeded.
    Partial,
    /// No task succeeded.
    Failed,
    /// A client stopped it.
    Cancelled,
}

/// A change of a fleet run.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum FleetEvent {
    /// The run was created.
    Created {
        /// The token or agent that the run belongs to.
        owner: String,
        /// Its tasks and workers.
        plan: Box<FleetPlan>,
    },
    /// A client started the run.
    Started,
    /// A worker leased a task.
    Leased {
        /// Index of the worker.
        worker: usize,
        /// Index of the task.
        task: usize,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// A worker received a command.
    #[serde(rename = "told")]
    WorkerCommanded {
        /// Index of the worker.
        worker: usize,
        /// The received command.
        #[serde(rename = "what")]
        command: WorkerCommand,
    },
    /// A worker gave up its task, which is queued again.
    Released {
        /// Index of the worker.
        worker: usize,
        /// The kind of cause.
        cause: ReleaseCause,
        /// The error or the reason.
        error: String,
        /// What the task waits for, if it was held.
        hold: Option<HoldCause>,
        /// When the hold is known to end.
        until: Option<DateTime<Utc>>,
    },
    /// A task ended.
    TaskEnded {
        /// Index of the task.
        task: usize,
        /// Its final status.
        status: FleetTaskStatus,
        /// Result text of the agent.
        summary: Option<String>,
        /// Why it did not succeed.
        error: Option<String>,
        /// Calls of its last turn that did not run because an approval was missing.
        #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
        unapproved: UnapprovedCalls,
    },
    /// The run was stopped; no further task starts.
    Stopped,
    /// All tasks have ended.
    Completed,
}

/// A command to a fleet run.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetCommand {
    /// Start, if the run waits for it.
    Start,
    /// Lease tasks to idle workers.
    Lease {
        /// Maximum number of new leases.
        limit: usize,
    },
    /// The turn of a worker's attempt has ended.
    Finish {
        /// Index of the worker.
        worker: usize,
        /// Index of the task.
        task: usize,
        /// Number of the attempt.
        attempt: u32,
        /// The end of its turn.
        end: TurnEnd,
    },
    /// Send a command to a worker.
    CommandWorker {
        /// Index of the worker.
        worker: usize,
        /// What the worker must do.
        command: WorkerCommand,
    },
    /// Start no further task and end the running ones.
    Stop,
}

/// Why a command was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FleetRefused {
    /// The run has ended.
    #[error("has ended")]
    Ended,
    /// The worker has no task.
    #[error("has no task")]
    Idle,
    /// The attempt is not running.
    #[error("has no such attempt running")]
    OtherAttempt,
}

impl FleetRun {
    /// Creates a run from its first record; `None` from any other record.
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

    /// Decides the events of a command.
    pub fn decide(&self, command: FleetCommand) -> Result<Vec<FleetEvent>, FleetRefused> {
        if self.completed_at.is_some() {
            return Err(FleetRefused::Ended);
        }
        match command {
            FleetCommand::Start => {
                let started = self.waits_for_start().then_some(FleetEvent::Started);
                Ok(started.into_iter().collect())
            }
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
                let is_leased = self.leases().any(|lease| lease == (worker, task, attempt));
                if is_leased {
                    Ok(self.finish(worker, task, end))
                } else {
                    Err(FleetRefused::OtherAttempt)
                }
            }
        }
    }

    /// Returns whether the run waits for a client to start it.
    #[must_use]
    pub fn waits_for_start(&self) -> bool {
        self.plan.begins == FleetStart::WhenStarted && self.started_at.is_none()
    }

    fn lease(&self, limit: usize) -> Vec<FleetEvent> {
        if self.stopped_at.is_some() || self.waits_for_start() {
            return Vec::new();
        }
        // A hold that applies to the owner also applies to the other tasks.
        let is_held = |task: &FleetTask| {
            let hold = task.hold.as_ref().filter(|_| task.not_before.is_some());
            hold.is_some_and(|hold| hold.cause.applies_to_owner())
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
            let can_continue = idle
                .iter()
                .position(|worker| self.can_continue(index, *worker));
            if let Some(at) = can_continue {
                leased.push(FleetEvent::Leased {
                    worker: idle.remove(at),
                    task: index,
                    attempt: task.attempts + 1,
                });
            }
        }
        leased
    }

    /// Returns whether a worker can continue the thread of a task.
    fn can_continue(&self, task: usize, worker: usize) -> bool {
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

    /// Adds the end of the run if the events end its last task.
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

    /// Applies the next record.
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
                    // The error of an earlier attempt does not describe this one.
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
                self.release_worker(*worker, Some(error));
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
                    self.release_worker(worker, error.as_ref());
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

    fn release_worker(&mut self, worker: usize, error: Option<&String>) {
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

    /// Makes held tasks available to workers.
    pub(super) fn release_held(&mut self) {
        for task in self.tasks.iter_mut().filter(|task| task.hold.is_some()) {
            task.not_before = None;
        }
    }

    /// Makes tasks available whose delay has passed.
    pub fn release_due(&mut self, now: DateTime<Utc>) {
        for task in &mut self.tasks {
            task.not_before = task.not_before.filter(|due| *due > now);
        }
    }

    /// Returns the earliest end of a task's delay.
    #[must_use]
    pub fn next_due(&self) -> Option<DateTime<Utc>> {
        self.tasks.iter().filter_map(|task| task.not_before).min()
    }

    /// Returns the worker index, task index and attempt number of each lease.
    pub fn leases(&self) -> impl Iterator<Item = (usize, usize, u32)> + '_ {
        let leased = self.tasks.iter().enumerate();
        leased.filter_map(|(index, task)| {
            let name = task.leased_to.as_ref()?;
            let mut workers = self.plan.workers.iter();
            let worker = workers.position(|worker| worker.worker_id == *name)?;
            Some((worker, index, task.attempts))
        })
    }

    /// Returns the status of the run.
    #[must_use]
    pub fn status(&self) -> FleetRunStatus {
        if self.completed_at.is_none() {
            return if self.waits_for_start() {
                FleetRunStatus::Pending
            } else if self.tasks.iter().all(|task| task.attempts == 0) {
                FleetRunStatus::Queued
            } else {
                FleetRunStatus::Running
            };
        }
        let is_completed = |task: &&FleetTask| task.status == FleetTaskStatus::Completed;
        match self.tasks.iter().filter(is_completed).count() {
            all if all == self.tasks.len() => FleetRunStatus::Completed,
            _ if self.stopped_at.is_some() => FleetRunStatus::Cancelled,
            0 => FleetRunStatus::Failed,
            _ => FleetRunStatus::Partial,
        }
    }

    /// Returns the thread of a task. Each task has its own, shared by all its attempts.
    #[must_use]
    pub fn thread_id(&self, task: usize) -> SessionId {
        SessionId::from_uuid(derive(derive(self.id.uuid(), task as u64), 0))
    }

    /// Returns the turn ID of an attempt.
    #[must_use]
    pub fn turn_id(&self, task: usize, attempt: u32) -> TurnId {
        let task = derive(self.id.uuid(), task as u64);
        TurnId::from_uuid(derive(task, u64::from(attempt)))
    }

    /// Returns the work of a lease for the turn runner.
    pub(super) fn assignment(
        &self,
        (worker, task, attempt): (usize, usize, u32),
    ) -> Option<Assignment> {
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
    truncate_to(text, END_BYTES)
}

/// Returns whether a worker's last heartbeat is older than `patience`.
#[must_use]
pub fn is_stale(heartbeat: Option<DateTime<Utc>>, now: DateTime<Utc>, patience: TimeDelta) -> bool {
    heartbeat.is_none_or(|at| now - at > patience)
}
