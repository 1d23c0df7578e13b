//! The state of one task and its transitions. Pure: the caller supplies time and IDs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::derived_id::derive;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_macros::omit_none;

use crate::attempt::{AttemptOutcome, EndStatus, RetryCause, StopRequest, outcome};
use crate::dispatch::{hold_retry_at, retry_delay};
use crate::error::truncate_to;
use crate::spec::JobSpec;
use crate::turn_runner::{ActiveHold, Assignment, HoldCause, TurnEnd};

/// Maximum stored length of a summary or an error in bytes; longer ones are truncated.
const END_BYTES: usize = 16 * 1024;

windlass_core::ids! {
    TaskId, TaskIdMarker, "task", "a task";
}

/// UUID version of scheduled runs and their tasks, whose IDs are derived from an automation and a time. All other IDs are generated, with
/// version 7.
pub(crate) const RUN_VERSION: u8 = 8;

/// Returns whether the ID is reserved for a run of an automation.
pub(super) fn is_run_id(id: TaskId) -> bool {
    id.uuid().get_version_num() == usize::from(RUN_VERSION)
}

/// A task: the fold of its records.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// ID of the task.
    pub id: TaskId,
    /// The token or agent that the task belongs to.
    pub owner: String,
    /// Its position in the queue.
    pub number: u64,
    /// The work to do.
    pub spec: JobSpec,
    /// The task that this one retries.
    pub retry_of: Option<TaskId>,
    /// Its current state.
    pub state: TaskState,
    /// Time of queueing.
    pub created_at: DateTime<Utc>,
    /// When a client requested cancellation.
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// Its attempts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Why its next attempt could not begin. The stored name predates the other causes.
    #[serde(rename = "no_room", default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ActiveHold>,
    /// Number of its records.
    pub changes: u64,
}

/// One attempt at a task.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Start of the attempt.
    pub started_at: DateTime<Utc>,
    /// End of the attempt.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether it does not count against `max_attempts`, because a budget stopped it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_excused: bool,
}

/// State of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for a worker.
    Queued {
        /// The task does not start before this time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<DateTime<Utc>>,
    },
    /// Its newest attempt runs.
    Running,
    /// The task has ended.
    Ended(TaskEnd),
}

/// The end of a task.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// The final status.
    pub status: EndStatus,
    /// Result text of the agent.
    pub summary: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// Time of the end.
    pub at: DateTime<Utc>,
    /// Calls of its last turn that did not run because an approval was missing.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
}

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It waits for a worker.
    Queued,
    /// Its newest attempt runs.
    Running,
    /// The task succeeded.
    Completed,
    /// The task failed.
    Failed,
    /// It was cancelled.
    Canceled,
}

/// A change of a task.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// The task was queued.
    Queued {
        /// The token or agent that the task belongs to.
        owner: String,
        /// Its position in the queue.
        number: u64,
        /// The work to do.
        spec: Box<JobSpec>,
        /// The task that it retries.
        retry_of: Option<TaskId>,
    },
    /// An attempt was started.
    Started {
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// The attempt failed and will be followed by another one.
    Requeued {
        /// Why it failed.
        error: String,
        /// Earliest start of the next attempt.
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
        /// Details for the owner.
        reason: String,
        /// When the attempt is retried.
        not_before: DateTime<Utc>,
    },
    /// A client requested cancellation.
    CancelRequested,
    /// The task ended.
    Ended {
        /// The final status.
        status: EndStatus,
        /// Result text of the agent.
        summary: Option<String>,
        /// Why it did not succeed.
        error: Option<String>,
        /// Calls of its last turn that did not run because an approval was missing.
        #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
        unapproved: UnapprovedCalls,
    },
}

/// A command to a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TaskCommand {
    /// Start an attempt.
    Start,
    /// Cancel the task.
    Cancel,
    /// Record the end of an attempt.
    Finish {
        /// Number of the attempt.
        attempt: u32,
        /// The end of its turn.
        end: TurnEnd,
    },
}

/// Why a command was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TaskRefused {
    /// The task has ended.
    #[error("has ended")]
    Ended,
    /// The task is already running.
    #[error("is running")]
    Running,
    /// The retry time has not come.
    #[error("waits for its next attempt")]
    NotDue,
    /// The attempt is not running.
    #[error("has no such attempt running")]
    OtherAttempt,
}

impl Task {
    /// Creates a task from its first record; `None` from any other record.
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

    /// Decides the events of a command.
    pub(super) fn decide(
        &self,
        command: TaskCommand,
        now: DateTime<Utc>,
    ) -> Result<Vec<TaskEvent>, TaskRefused> {
        match (&self.state, command) {
            (TaskState::Ended(_), _) => Err(TaskRefused::Ended),
            (TaskState::Queued { not_before }, TaskCommand::Start) => match not_before {
                // A hold may end early: the queue decides when to retry.
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
                    not_before: hold_retry_at(&hold, tries + 1, now),
                    reason: cut(hold.reason),
                }
            }
            AttemptOutcome::Retry { error, cause } => TaskEvent::Requeued {
                error: cut(error),
                not_before: match cause {
                    RetryCause::Budget(renews_at) => renews_at.max(now),
                    RetryCause::Failure | RetryCause::Restart => now + retry_delay(counted),
                },
                is_excused: cause != RetryCause::Failure,
            },
        };
        vec![event]
    }

    /// Returns how many attempts count against `max_attempts`.
    fn counted_attempts(&self) -> u32 {
        let excused = self
            .attempts
            .iter()
            .filter(|attempt| attempt.is_excused)
            .count();
        self.attempt()
            .saturating_sub(u32::try_from(excused).unwrap_or(u32::MAX))
    }

    /// Applies the next record.
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
                // Nothing has begun, so it does not count as an attempt: the next one has the same number and IDs.
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
        // `max_attempts` is at most ten.
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Returns the status of the task.
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

    /// Returns the hold of a queued task.
    #[must_use]
    pub fn queued_hold(&self) -> Option<&ActiveHold> {
        let is_queued = matches!(self.state, TaskState::Queued { .. });
        self.hold.as_ref().filter(|_| is_queued)
    }

    /// Returns the end of an ended task.
    #[must_use]
    pub const fn end(&self) -> Option<&TaskEnd> {
        match &self.state {
            TaskState::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the ID of its thread, which exists once an attempt has begun.
    #[must_use]
    pub fn thread_id(&self) -> SessionId {
        SessionId::from_uuid(derive(self.id.uuid(), 0))
    }

    /// Returns the turn ID of its newest attempt.
    #[must_use]
    pub fn turn_id(&self) -> Option<TurnId> {
        let attempt = self.attempt();
        let turn = || TurnId::from_uuid(derive(self.id.uuid(), u64::from(attempt)));
        (attempt > 0).then(turn)
    }

    /// Returns the attempt for the turn runner; `None` unless the task is running.
    pub(super) fn assignment(&self) -> Option<Assignment> {
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

/// Truncates a text to the maximum stored length.
pub(crate) fn cut(text: String) -> String {
    truncate_to(text, END_BYTES)
}
