//! The retry policy after a failed turn of an external agent.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{BackendErrorKind, BackendOutcome, SessionChoice};

/// How many times in a row a process may die by a signal before its session is established.
pub const MAX_ABORTS: u32 = 5;

/// The attempts of one turn. It is a plain value that can be recorded, so that the count survives a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempts {
    /// How many processes in a row died by a signal before their session was established.
    pub aborts_in_a_row: u32,
    /// Whether a refused session was already replaced by a new one.
    pub has_started_fresh: bool,
}

/// The next action after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Accept the outcome as final.
    Done,
    /// Start a new conversation with the whole prompt, which must mention that the old conversation is lost.
    StartFresh,
    /// Repeat the same run.
    Again,
    /// Retry at that time, or after the caller's own backoff. The turn has not failed.
    WaitForLimit {
        /// When the rate limit resets, according to the provider.
        until: Option<DateTime<Utc>>,
    },
}

impl Attempts {
    /// Chooses the next action after an outcome, and counts the attempt.
    pub fn next(&mut self, session: &SessionChoice, outcome: &BackendOutcome) -> Next {
        if outcome.aborted_signal {
            self.aborts_in_a_row += 1;
            return match () {
                () if self.aborts_in_a_row >= MAX_ABORTS => Next::Done,
                // A resume could meet the same crash again.
                () if session.is_resume() && !self.has_started_fresh => self.start_fresh(),
                () => Next::Again,
            };
        }
        self.aborts_in_a_row = 0;
        match outcome.error_kind() {
            Some(BackendErrorKind::ResumeRefused) if session.is_resume() => {
                if self.has_started_fresh {
                    Next::Done
                } else {
                    self.start_fresh()
                }
            }
            Some(_) if outcome.rate_limit_exit => Next::WaitForLimit {
                until: outcome.rate_limit_reset_at,
            },
            _ => Next::Done,
        }
    }

    fn start_fresh(&mut self) -> Next {
        self.has_started_fresh = true;
        Next::StartFresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{BackendEnd, BackendError};

    fn failed(kind: BackendErrorKind) -> BackendOutcome {
        BackendOutcome::failed(BackendError::new(kind, ""))
    }

    fn aborted() -> BackendOutcome {
        let mut outcome = failed(BackendErrorKind::Killed(6));
        outcome.aborted_signal = true;
        outcome
    }

    fn check(session: &SessionChoice, outcomes: &[BackendOutcome], expected: &[Next]) {
        let mut attempts = Attempts::default();
        let next: Vec<_> = outcomes
            .iter()
            .map(|outcome| attempts.next(session, outcome))
            .collect();
        assert_eq!(next, expected);
    }

    #[test]
    fn next_action_after_an_outcome() {
        use Next::{Again, Done, StartFresh, WaitForLimit};
        let new = SessionChoice::New { id: None };
        let resume = SessionChoice::Resume { id: "s".to_owned() };
        let refused = || failed(BackendErrorKind::ResumeRefused);
        check(
            &new,
            &vec![aborted(); 5],
            &[Again, Again, Again, Again, Done],
        );
        check(&resume, &[aborted()], &[StartFresh]);
        check(&resume, &[refused(), refused()], &[StartFresh, Done]);
        check(&new, &[refused()], &[Done]);
        check(&new, &[failed(BackendErrorKind::Auth)], &[Done]);
        let mut limited = failed(BackendErrorKind::RateLimit);
        limited.rate_limit_exit = true;
        check(&new, &[limited], &[WaitForLimit { until: None }]);
        let mut good = refused();
        good.result = Ok(BackendEnd::Completed);
        check(&resume, &[good.clone()], &[Done]);
        // Any other outcome resets the count.
        let mixed = [aborted(), aborted(), good, aborted(), aborted()];
        check(&new, &mixed, &[Again, Again, Done, Again, Again]);
    }
}
