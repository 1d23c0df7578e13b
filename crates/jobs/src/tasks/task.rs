//! One task: what can happen to it, and what follows. Pure: time and ids come from outside.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::derived_id::derive;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::{IdMarker, SessionId, TurnId, TypedId};

use crate::attempt::{AttemptOutcome, EndStatus, RetryCause, StopRequest, outcome};
use crate::dispatch::{retry_of_hold, wait_after};
use crate::error::cut_to;
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment, HoldCause, TurnEnd};

/// The longest summary or error that is kept of an end; more is cut.
const END_BYTES: usize = 16 * 1024;

/// Marks ids of tasks.
#[derive(Debug)]
pub struct TaskMarker;

impl IdMarker for TaskMarker {
    const PREFIX: &'static str = "task";
}

/// Identifies a task.
pub type TaskId = TypedId<TaskMarker>;

/// The version of the uuids of runs that a schedule makes, and of their tasks: each follows from an automation and a time. All other
/// ids are new ones, of version 7.
pub(crate) const RUN_VERSION: u8 = 8;

/// Tells whether only a run of an automation can have this id.
pub(super) fn is_run_id(id: TaskId) -> bool {
    id.uuid().get_version_num() == usize::from(RUN_VERSION)
}

/// A task, as its records fold to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Identifies it.
    pub id: TaskId,
    /// Whose it is: the name of a token, for example.
    pub owner: String,
    /// Its place in the queue.
    pub number: u64,
    /// What is to be done.
    pub spec: JobSpec,
    /// The task that this one does again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TaskId>,
    /// Where it is.
    pub state: TaskState,
    /// When it was queued.
    pub created_at: DateTime<Utc>,
    /// When somebody asked to call it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// The attempts so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Why its next attempt could not begin. The stored name is older than the other causes.
    #[serde(rename = "no_room", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ActiveHold>,
    /// How many records it has.
    pub changes: u64,
}

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it does not count against `max_attempts`, because a budget stopped it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_excused: bool,
}

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for a worker.
    Queued {
        /// Before this it is not started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<DateTime<Utc>>,
    },
    /// Its newest attempt runs.
    Running,
    /// It has its end.
    Ended(TaskEnd),
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// In one word.
    pub status: EndStatus,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it ended.
    pub at: DateTime<Utc>,
    /// Calls of its last turn that did not run for want of an approval.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
}

/// Where a task is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Running,
    /// It was done.
    Completed,
    /// It was not done.
    Failed,
    /// It was called off.
    Canceled,
}

/// What happens to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// It was asked for.
    Queued {
        /// Whose it is.
        owner: String,
        /// Its place in the queue.
        number: u64,
        /// What is to be done.
        spec: Box<JobSpec>,
        /// The task that it does again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_of: Option<TaskId>,
    },
    /// An attempt is about to begin.
    Started {
        /// Which one, from 1.
        attempt: u32,
    },
    /// The attempt failed, and another one will be made.
    Requeued {
        /// Why it failed.
        error: String,
        /// When the next one may begin.
        not_before: DateTime<Utc>,
        /// Whether a budget stopped it, so that it does not count against `max_attempts`.
        #[serde(default, skip_serializing_if = "is_false")]
        is_excused: bool,
    },
    /// The attempt cannot begin now, and has not begun.
    HeldBack {
        /// What it waits for.
        #[serde(default)]
        cause: HoldCause,
        /// The details.
        reason: String,
        /// When it is tried again.
        not_before: DateTime<Utc>,
    },
    /// It is to be called off.
    CancelRequested,
    /// It has its end.
    Ended {
        /// In one word.
        status: EndStatus,
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
}

impl TaskEvent {
    /// Returns the name of its records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "task.queued",
            Self::Started { .. } => "task.started",
            Self::Requeued { .. } => "task.requeued",
            Self::HeldBack { .. } => "task.held_back",
            Self::CancelRequested => "task.cancel_requested",
            Self::Ended { .. } => "task.ended",
        }
    }
}

/// What is asked of a task that is there.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    /// Give it to a worker.
    Start,
    /// Call it off.
    Cancel,
    /// An attempt has come to its end.
    Finish {
        /// Which one.
        attempt: u32,
        /// How.
        end: TurnEnd,
    },
}

/// Why a command does not fit the state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefused {
    /// It has its end.
    #[error("has ended")]
    Ended,
    /// A worker has it already.
    #[error("is running")]
    Running,
    /// It waits for its time.
    #[error("waits for its next attempt")]
    NotDue,
    /// That attempt does not run.
    #[error("has no such attempt running")]
    OtherAttempt,
}

impl Task {
    /// Begins a task with its first record; `None` where it is another one.
    #[must_use]
    pub fn begin(id: TaskId, at: DateTime<Utc>, event: &TaskEvent) -> Option<Self> {
        let TaskEvent::Queued {
            owner,
            number,
            spec,
            retry_of,
        } = event
        else {
            return None;
        };
        Some(Self {
            id,
            owner: owner.clone(),
            number: *number,
            spec: (**spec).clone(),
            retry_of: *retry_of,
            state: TaskState::Queued { not_before: None },
            created_at: at,
            cancel_requested_at: None,
            attempts: Vec::new(),
            hold: None,
            changes: 1,
        })
    }

    /// Says what follows from a command.
    pub fn decide(
        &self,
        command: TaskCommand,
        now: DateTime<Utc>,
    ) -> Result<Vec<TaskEvent>, TaskRefused> {
        match (&self.state, command) {
            (TaskState::Ended(_), _) => Err(TaskRefused::Ended),
            (TaskState::Queued { not_before }, TaskCommand::Start) => match not_before {
                // A hold may be over early: the queue decides when to try.
                Some(due) if *due > now && self.hold.is_none() => Err(TaskRefused::NotDue),
                _ => Ok(vec![TaskEvent::Started {
                    attempt: self.attempt() + 1,
                }]),
            },
            (TaskState::Running, TaskCommand::Start) => Err(TaskRefused::Running),
            (TaskState::Queued { .. }, TaskCommand::Cancel) => Ok(vec![TaskEvent::Ended {
                status: EndStatus::Canceled,
                summary: None,
                error: None,
                unapproved: UnapprovedCalls::default(),
            }]),
            (TaskState::Running, TaskCommand::Cancel) => Ok(match self.cancel_requested_at {
                Some(_) => Vec::new(),
                None => vec![TaskEvent::CancelRequested],
            }),
            (TaskState::Running, TaskCommand::Finish { attempt, end })
                if attempt == self.attempt() =>
            {
                Ok(self.finish(end, now))
            }
            (_, TaskCommand::Finish { .. }) => Err(TaskRefused::OtherAttempt),
        }
    }

    fn finish(&self, end: TurnEnd, now: DateTime<Utc>) -> Vec<TaskEvent> {
        let request = self.cancel_requested_at.map(|_| StopRequest::Cancel);
        let counted = self.counted_attempts();
        let event = match outcome(end, request, counted < self.spec.max_attempts) {
            AttemptOutcome::Continues => return Vec::new(),
            AttemptOutcome::Ended {
                status,
                summary,
                error,
                unapproved,
            } => TaskEvent::Ended {
                status,
                summary: summary.map(cut),
                error: error.map(cut),
                unapproved,
            },
            AttemptOutcome::NotBegun(hold) => {
                let tries = self.hold.as_ref().map_or(0, |before| before.tries);
                TaskEvent::HeldBack {
                    cause: hold.cause,
                    not_before: retry_of_hold(&hold, tries + 1, now),
                    reason: cut(hold.reason),
                }
            }
            AttemptOutcome::Retry { error, cause } => TaskEvent::Requeued {
                error: cut(error),
                not_before: match cause {
                    RetryCause::Budget(renews_at) => renews_at.max(now),
                    RetryCause::Failure | RetryCause::Restart => now + wait_after(counted),
                },
                is_excused: cause != RetryCause::Failure,
            },
        };
        vec![event]
    }

    /// Returns how many attempts count against `max_attempts`.
    fn counted_attempts(&self) -> u32 {
        let excused = self.attempts.iter().filter(|one| one.is_excused).count();
        self.attempt()
            .saturating_sub(u32::try_from(excused).unwrap_or(u32::MAX))
    }

    /// Takes in the next record.
    pub fn evolve(&mut self, at: DateTime<Utc>, event: &TaskEvent) {
        self.changes += 1;
        match event {
            TaskEvent::Queued { .. } => {}
            TaskEvent::Started { .. } => {
                self.state = TaskState::Running;
                self.attempts.push(Attempt {
                    started_at: at,
                    ended_at: None,
                    error: None,
                    is_excused: false,
                });
            }
            TaskEvent::Requeued {
                error,
                not_before,
                is_excused,
            } => {
                self.close_attempt(at, Some(error));
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.is_excused = *is_excused;
                }
                self.hold = is_excused.then(|| ActiveHold {
                    cause: HoldCause::Budget,
                    reason: error.clone(),
                    at,
                    retry_at: Some(*not_before),
                    tries: 1,
                });
                self.state = TaskState::Queued {
                    not_before: Some(*not_before),
                };
            }
            TaskEvent::HeldBack {
                cause,
                reason,
                not_before,
            } => {
                // Nothing has begun, so it was no attempt: the next one has the same number and the same ids.
                self.attempts.pop();
                let before = self.hold.as_ref().map_or(0, |hold| hold.tries);
                self.hold = Some(ActiveHold {
                    cause: *cause,
                    reason: reason.clone(),
                    at,
                    retry_at: Some(*not_before),
                    tries: before + 1,
                });
                self.state = TaskState::Queued {
                    not_before: Some(*not_before),
                };
            }
            TaskEvent::CancelRequested => self.cancel_requested_at = Some(at),
            TaskEvent::Ended {
                status,
                summary,
                error,
                unapproved,
            } => {
                self.close_attempt(at, error.as_ref());
                self.hold = None;
                self.state = TaskState::Ended(TaskEnd {
                    unapproved: *unapproved,
                    status: *status,
                    summary: summary.clone(),
                    error: error.clone(),
                    at,
                });
            }
        }
    }

    fn close_attempt(&mut self, at: DateTime<Utc>, error: Option<&String>) {
        let open = self.attempts.last_mut();
        if let Some(attempt) = open.filter(|attempt| attempt.ended_at.is_none()) {
            attempt.ended_at = Some(at);
            attempt.error = error.cloned();
        }
    }

    /// Returns the number of the newest attempt; 0 before the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        // A rule allows ten at most.
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Returns where it is, in one word.
    #[must_use]
    pub const fn status(&self) -> TaskStatus {
        match &self.state {
            TaskState::Queued { .. } => TaskStatus::Queued,
            TaskState::Running => TaskStatus::Running,
            TaskState::Ended(end) => match end.status {
                EndStatus::Completed => TaskStatus::Completed,
                EndStatus::Failed => TaskStatus::Failed,
                EndStatus::Canceled => TaskStatus::Canceled,
            },
        }
    }

    /// Returns why its next attempt has not begun, while it is queued for one that could not begin.
    #[must_use]
    pub fn queued_hold(&self) -> Option<&ActiveHold> {
        let is_queued = matches!(self.state, TaskState::Queued { .. });
        self.hold.as_ref().filter(|_| is_queued)
    }

    /// Returns its end, if it has one.
    #[must_use]
    pub const fn end(&self) -> Option<&TaskEnd> {
        match &self.state {
            TaskState::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the thread that it runs on. It is there once an attempt has begun.
    #[must_use]
    pub fn thread_id(&self) -> SessionId {
        SessionId::from_uuid(derive(self.id.uuid(), 0))
    }

    /// Returns the turn of its newest attempt.
    #[must_use]
    pub fn turn_id(&self) -> Option<TurnId> {
        let attempt = self.attempt();
        let turn = || TurnId::from_uuid(derive(self.id.uuid(), u64::from(attempt)));
        (attempt > 0).then(turn)
    }

    /// Returns the attempt to run; `None` unless the task runs.
    #[must_use]
    pub fn assignment(&self) -> Option<Assignment> {
        let turn_id = self.turn_id()?;
        let assignment = || Assignment {
            owner: self.owner.clone(),
            task: self.id.to_string(),
            thread_id: self.thread_id(),
            turn_id,
            attempt: self.attempt(),
            spec: self.spec.clone(),
        };
        (self.state == TaskState::Running).then(assignment)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Cuts a text that is too long to be kept with the end.
pub(crate) fn cut(text: String) -> String {
    cut_to(text, END_BYTES)
}
