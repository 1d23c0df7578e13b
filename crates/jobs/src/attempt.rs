//! Rules shared by tasks and fleets: the consequences of the end of an attempt.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_core::items::UnapprovedCalls;

use crate::turn_runner::{EndedTurn, HeldTurn, Hold, TurnEnd, TurnOutcome};

/// Final status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// The job succeeded.
    Completed,
    /// The job failed.
    Failed,
    /// A client cancelled the job.
    Canceled,
}

/// A client's request to a running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRequest {
    Cancel,
    Restart,
}

/// Why an attempt is followed by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryCause {
    /// The attempt failed.
    Failure,
    /// A client requested a restart. The attempt does not count against `max_attempts`.
    Restart,
    /// A budget stopped the attempt; it renews at this time. The attempt does not count against `max_attempts`.
    Budget(DateTime<Utc>),
}

/// The consequence of the end of an attempt.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    Ended {
        status: EndStatus,
        summary: Option<String>,
        error: Option<String>,
        unapproved: UnapprovedCalls,
    },
    Retry {
        error: String,
        cause: RetryCause,
    },
    /// The attempt has no turn. It is queued again under the same number.
    NotBegun(Hold),
    /// The attempt continues, because its turn may be open.
    Continues,
}

/// Decides the consequence of the end of an attempt. `may_retry` states whether `max_attempts` allows another one.
pub(crate) fn outcome(
    end: TurnEnd,
    request: Option<StopRequest>,
    may_retry: bool,
) -> AttemptOutcome {
    let is_canceled = request == Some(StopRequest::Cancel);
    let canceled_or_failed = if is_canceled {
        EndStatus::Canceled
    } else {
        EndStatus::Failed
    };
    let ended = |status, summary, error, unapproved| AttemptOutcome::Ended {
        status,
        summary,
        error,
        unapproved,
    };
    let none = UnapprovedCalls::default();
    match end {
        TurnEnd::Held(hold) if hold.turn == HeldTurn::MayBeOpen => AttemptOutcome::Continues,
        TurnEnd::Held(hold) if !is_canceled => AttemptOutcome::NotBegun(hold),
        // The client restarted the attempt before its turn started.
        TurnEnd::Refused { error } if request == Some(StopRequest::Restart) => {
            AttemptOutcome::Retry {
                error,
                cause: RetryCause::Restart,
            }
        }
        TurnEnd::Held(Hold { reason: error, .. }) | TurnEnd::Refused { error } => {
            ended(canceled_or_failed, None, Some(error), none)
        }
        TurnEnd::Ended(EndedTurn {
            outcome,
            unapproved,
        }) => match (outcome, request) {
            // A completed turn stays completed, even if a stop was requested meanwhile.
            (TurnOutcome::Completed { summary }, _) => {
                ended(EndStatus::Completed, Some(summary), None, unapproved)
            }
            (
                TurnOutcome::Failed { error, .. } | TurnOutcome::Interrupted { reason: error },
                Some(StopRequest::Restart),
            ) => AttemptOutcome::Retry {
                error,
                cause: RetryCause::Restart,
            },
            (TurnOutcome::Interrupted { reason }, _) => {
                ended(EndStatus::Canceled, None, Some(reason), unapproved)
            }
            (
                TurnOutcome::Failed {
                    error,
                    budget_renews_at: Some(renews_at),
                },
                None,
            ) => AttemptOutcome::Retry {
                error,
                cause: RetryCause::Budget(renews_at),
            },
            (TurnOutcome::Failed { error, .. }, None) if may_retry => AttemptOutcome::Retry {
                error,
                cause: RetryCause::Failure,
            },
            (TurnOutcome::Failed { error, .. }, _) => {
                ended(canceled_or_failed, None, Some(error), unapproved)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_before_the_turn_started_is_a_retry() {
        let refused = TurnEnd::Refused {
            error: "the job was cancelled".to_owned(),
        };
        let outcome = outcome(refused, Some(StopRequest::Restart), true);
        let AttemptOutcome::Retry { cause, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(cause, RetryCause::Restart);
    }
}
