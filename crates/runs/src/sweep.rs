//! What becomes of runs whose connection is lost.

use std::time::Duration;

use tokio::task::JoinSet;
use windlass_core::runs::Termination;
use windlass_store::KeptRun;

use crate::caller::Caller;
use crate::error::RunError;
use crate::runs::{Appended, Runs};

/// How many ends are on their way at a time; they share commits.
const AT_A_TIME: usize = 256;
/// How many runs one commit of retention removes.
const STEP: usize = 200;

impl Runs {
    /// Notes that a connection is gone, and everything that it sent has been handled. Its open runs wait for the grace,
    /// or for the lease if it asked for one.
    pub fn disconnect(&self, caller: &Caller) {
        let patience = match caller.wants_lease {
            true => self.settings.lease,
            false => self.settings.grace,
        };
        let until = self.clock.elapsed() + patience;
        self.open().lose(&caller.client_id, until);
        self.lost.notify_one();
    }

    /// Returns how long the clock has been running.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns when the next run has waited long enough, as [`Clock::elapsed`](crate::Clock::elapsed) counts.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.open().next_deadline()
    }

    /// Waits until a deadline may have come nearer.
    pub async fn deadline_changed(&self) {
        self.lost.notified().await;
    }

    /// Ends the runs that have waited long enough as incomplete; returns how many. What could not be written is tried
    /// again by the next call.
    pub async fn sweep(&self) -> usize {
        let expired = self.open().expired(self.clock.elapsed());
        let mut ending: JoinSet<Result<bool, RunError>> = JoinSet::new();
        let mut ended = 0;
        let mut note = |done: Result<Result<bool, RunError>, tokio::task::JoinError>| match done {
            Ok(Ok(has_ended)) => ended += usize::from(has_ended),
            Ok(Err(error)) => tracing::warn!(%error, "a lost run could not be ended"),
            Err(error) => tracing::error!(%error, "ending a lost run failed"),
        };
        for run in expired {
            if ending.len() >= AT_A_TIME
                && let Some(done) = ending.join_next().await
            {
                note(done);
            }
            let runs = self.clone();
            ending.spawn(async move { runs.end_lost(run).await });
        }
        while let Some(done) = ending.join_next().await {
            note(done);
        }
        ended
    }

    /// Ends a run whose connection is lost; returns whether it has ended. A run that was removed or belongs to another writer is
    /// forgotten here: its deadline would expire again at once.
    async fn end_lost(&self, run: KeptRun) -> Result<bool, RunError> {
        let run_id = run.summary.run_id.clone();
        match self.end(run, &Termination::Incomplete).await? {
            Appended::Done { .. } | Appended::Ended(_) => Ok(true),
            Appended::Lost => {
                self.open().forget_unheld(&run_id);
                Ok(false)
            }
        }
    }

    /// Removes runs that ended longer ago than this, in small commits; returns how many.
    pub async fn forget_older(&self, age: Duration) -> Result<usize, RunError> {
        let age = chrono::TimeDelta::from_std(age).unwrap_or(chrono::TimeDelta::MAX);
        let Some(before) = self.clock.now().checked_sub_signed(age) else {
            return Ok(0);
        };
        let mut forgotten = 0;
        loop {
            let step = self.log.forget(before, STEP).await?;
            forgotten += step;
            if step < STEP {
                return Ok(forgotten);
            }
        }
    }
}
