//! The state of one task of a fleet run.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::items::UnapprovedCalls;
use windlass_macros::omit_none;

use crate::attempt::EndStatus;
use crate::dispatch::{hold_retry_at, retry_delay};
use crate::turn_runner::{ActiveHold, HeldTurn, Hold, HoldCause};

/// Status of a task of a fleet run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetTaskStatus {
    /// It waits for a worker.
    Queued,
    /// A worker leases it.
    Running,
    /// The task succeeded.
    Completed,
    /// All its attempts failed.
    Failed,
    /// It was interrupted, or the run was stopped before it ended.
    Cancelled,
}

/// The state of a task of a fleet run.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetTask {
    /// Its current status.
    pub status: FleetTaskStatus,
    /// ID of the worker that leases it.
    pub leased_to: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of attempts that clients restarted; they do not count against `max_attempts`.
    #[serde(default)]
    pub restarts: u32,
    /// Index of its first worker. Its thread uses that worker's backend, so only a worker with the same backend can continue it.
    pub first_worker: Option<usize>,
    /// Result text of the agent.
    pub summary: Option<String>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Why its next attempt could not begin.
    pub hold: Option<ActiveHold>,
    /// Number of attempts that a budget stopped; they do not count against `max_attempts`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excused: u32,
    /// Calls of its last turn that did not run because an approval was missing.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
    /// The task is not leased before this time, because an attempt failed or could not begin. [`FleetRun::release_due`] clears it.
    pub not_before: Option<DateTime<Utc>>,
}

impl FleetTask {
    /// A task without an attempt.
    pub(super) const NEW: Self = Self {
        status: FleetTaskStatus::Queued,
        leased_to: None,
        attempts: 0,
        restarts: 0,
        first_worker: None,
        summary: None,
        error: None,
        hold: None,
        excused: 0,
        unapproved: UnapprovedCalls {
            refused: 0,
            timed_out: 0,
        },
        not_before: None,
    };

    /// Returns how many attempts count against `max_attempts`.
    pub(super) const fn counted_attempts(&self) -> u32 {
        self.attempts
            .saturating_sub(self.restarts)
            .saturating_sub(self.excused)
    }

    /// Queues the task again after its worker gave it up.
    pub(super) fn release(
        &mut self,
        at: DateTime<Utc>,
        cause: ReleaseCause,
        error: &str,
        hold: Option<HoldCause>,
        until: Option<DateTime<Utc>>,
    ) {
        self.status = FleetTaskStatus::Queued;
        self.error = Some(error.to_owned());
        let active = |cause, retry_at, tries| ActiveHold {
            cause,
            reason: error.to_owned(),
            at,
            retry_at: Some(retry_at),
            tries,
        };
        match cause {
            ReleaseCause::Restart => {
                self.restarts += 1;
                self.hold = None;
            }
            ReleaseCause::NoRoom | ReleaseCause::Held => {
                // It does not count as an attempt: the next one has the same number and IDs, and any worker may lease it.
                self.attempts = self.attempts.saturating_sub(1);
                if self.attempts == 0 {
                    self.first_worker = None;
                }
                let hold = Hold {
                    cause: hold.unwrap_or_default(),
                    reason: String::new(),
                    until,
                    turn: HeldTurn::NotBegun,
                };
                let tries = self.hold.as_ref().map_or(0, |before| before.tries) + 1;
                let retry_at = hold_retry_at(&hold, tries, at);
                self.hold = Some(active(hold.cause, retry_at, tries));
                self.not_before = Some(retry_at);
            }
            ReleaseCause::Budget => {
                self.excused += 1;
                let retry_at = until.unwrap_or(at).max(at);
                self.hold = Some(active(HoldCause::Budget, retry_at, 1));
                self.not_before = Some(retry_at);
            }
            ReleaseCause::Failure => {
                self.hold = None;
                self.not_before = Some(at + retry_delay(self.counted_attempts()));
            }
        }
    }
}

/// Why a worker gave up its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseCause {
    /// The attempt failed.
    Failure,
    /// A client restarted the worker.
    Restart,
    /// The limit of threads was reached, so nothing has begun. Written by older versions; newer ones write [`Held`](Self::Held).
    NoRoom,
    /// The attempt cannot begin now, and has not begun.
    Held,
    /// A budget stopped the attempt.
    Budget,
}

impl FleetTaskStatus {
    /// Returns whether the status is final.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl From<EndStatus> for FleetTaskStatus {
    fn from(status: EndStatus) -> Self {
        match status {
            EndStatus::Completed => Self::Completed,
            EndStatus::Failed => Self::Failed,
            EndStatus::Canceled => Self::Cancelled,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}
