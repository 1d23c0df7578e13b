//! Expiry of runs whose connection is lost, and retention.

use std::time::Duration;

use tokio::task::JoinSet;
use windlass_core::runs::Termination;
use windlass_store::StoredRun;

use crate::caller::RunCaller;
use crate::error::RunError;
use crate::runs::{Appended, Runs};

/// Concurrent writes of run ends; they share commits.
const MAX_CONCURRENT: usize = 256;
/// Runs removed in one commit by retention.
const BATCH: usize = 200;

impl Runs {
    /// Handles the loss of a connection, after all its frames are handled. Its open runs wait for the grace period, or for the lease if the
    /// connection requested one.
    pub fn disconnect(&self, caller: &RunCaller) {
        let patience = if caller.wants_lease {
            self.settings.lease
        } else {
            self.settings.grace
        };
        let until = self.clock.elapsed() + patience;
        self.open().connection_lost(&caller.client_id, until);
        self.lost.notify_one();
    }

    /// Returns how long the clock has been running.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Returns the next deadline of a run, in the time of [`Clock::elapsed`](windlass_core::Clock::elapsed).
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.open().next_deadline()
    }

    /// Waits until the next deadline may have moved earlier.
    pub async fn deadline_changed(&self) {
        self.lost.notified().await;
    }

    /// Ends the runs whose deadline has passed as incomplete; returns their number. The next call retries failed writes.
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
            if ending.len() >= MAX_CONCURRENT
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

    /// Ends a run whose connection is lost; returns whether it has ended. A run that was removed or has another writer is dropped from memory,
    /// because its deadline would expire again at once.
    async fn end_lost(&self, run: StoredRun) -> Result<bool, RunError> {
        let run_id = run.summary.run_id.clone();
        match self.end(run, &Termination::Incomplete).await? {
            Appended::Done { .. } | Appended::Ended(_) => Ok(true),
            Appended::Lost => {
                self.open().remove_waiting(&run_id);
                Ok(false)
            }
        }
    }

    /// Removes runs that ended before this age, in small commits; returns their number.
    pub async fn forget_older(&self, age: Duration) -> Result<usize, RunError> {
        let age = chrono::TimeDelta::from_std(age).unwrap_or(chrono::TimeDelta::MAX);
        let Some(before) = self.clock.now().checked_sub_signed(age) else {
            return Ok(0);
        };
        let mut forgotten = 0;
        loop {
            let step = self.log.forget(before, BATCH).await?;
            forgotten += step;
            if step < BATCH {
                return Ok(forgotten);
            }
        }
    }
}
