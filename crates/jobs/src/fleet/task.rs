//! One task of a run: where it is, and what follows when a worker gives it up.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::items::UnapprovedCalls;

use crate::attempt::EndStatus;
use crate::dispatch::{retry_of_hold, wait_after};
use crate::turn_runner::{ActiveHold, HeldTurn, Hold, HoldCause};

/// Where a task of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetTaskStatus {
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Running,
    /// It was done.
    Completed,
    /// It was not done, as often as it was tried.
    Failed,
    /// The run was stopped before it was done.
    Cancelled,
}

/// A task of a run as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetTask {
    /// Where it is.
    pub status: FleetTaskStatus,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_to: Option<String>,
    /// How often it was given to a worker.
    pub attempts: u32,
    /// How many of the attempts were restarted by somebody: they do not count against the rule.
    #[serde(default)]
    pub restarts: u32,
    /// Who had it first. Its thread uses that worker's backend, so only a worker with the same backend continues it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_worker: Option<usize>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why its next attempt could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<ActiveHold>,
    /// How many of the attempts a budget stopped: they do not count against the rule.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excused: u32,
    /// Calls of its last turn that did not run for want of an approval.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
    /// Before this it is not leased, because an attempt failed or could not begin. [`FleetRun::ripen`] removes it when the time has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<DateTime<Utc>>,
}

impl FleetTask {
    /// A task that nobody has had yet.
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
}

impl FleetTask {
    /// Its worker gave it up, and it waits for one again.
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
                // It was no attempt: the next one has the same number and the same ids, and any worker may have it.
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
                let retry_at = retry_of_hold(&hold, tries, at);
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
                self.not_before = Some(at + wait_after(self.counted_attempts()));
            }
        }
    }
}

/// Why a worker gave its task up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseCause {
    /// The attempt failed.
    Failure,
    /// Somebody restarted the worker.
    Restart,
    /// There was no room for the thread, so that nothing has begun. Written by older versions; now it is [`Held`](Self::Held).
    NoRoom,
    /// The attempt cannot begin now, and has not begun.
    Held,
    /// A budget stopped the attempt.
    Budget,
}

impl FleetTaskStatus {
    /// Tells whether nothing follows.
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
