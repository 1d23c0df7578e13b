//! Maintenance of the store while the daemon is idle: pruning by the retention policy, and checkpoints of the log.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::Utc;
use uuid::Uuid;

use crate::service::Service;

/// Delay of the first maintenance, so that short-lived daemons get theirs too.
const FIRST: Duration = Duration::from_secs(5 * 60);
/// Maximum wait for an idle moment. It is optional: maintenance works in small steps.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);
/// Interval between checks for an idle moment.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maintains the store until the server stops.
pub(crate) async fn run_until_stopped(app: Service) {
    let Some(every) = app.settings.upkeep.every else {
        return;
    };
    let stopping = app.stopping.clone();
    let maintenance = async {
        let mut wait = every.min(FIRST);
        loop {
            tokio::time::sleep(wait + jitter(wait)).await;
            let _ = tokio::time::timeout(MAX_WAIT, idle(&app)).await;
            app.maintain().await;
            wait = every;
        }
    };
    stopping.run_until_cancelled(maintenance).await;
}

/// Returns up to a tenth of the wait, so that daemons on one machine do not work at the same moment.
fn jitter(wait: Duration) -> Duration {
    let millis = u64::try_from(wait.as_millis() / 10).unwrap_or(u64::MAX);
    let (high, low) = Uuid::new_v4().as_u64_pair();
    Duration::from_millis((high ^ low) % millis.max(1))
}

/// Waits until there was no request and no new turn for a while.
async fn idle(app: &Service) {
    let mut before = None;
    loop {
        let turns = app.runtime.turn_metrics().started;
        let is_quiet = app.detached_tasks.is_empty();
        if is_quiet && before == Some(turns) {
            return;
        }
        before = is_quiet.then_some(turns);
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

impl Service {
    /// Runs maintenance once and records the result.
    pub(crate) async fn maintain(&self) {
        let counters = &self.counters;
        if let Err(error) = self.prune_jobs().await {
            tracing::error!(%error, "ended tasks could not be pruned");
        }
        match self.store.maintain(Utc::now()).await {
            Ok(done) => {
                let removed = done.records + done.chunks;
                counters.upkeeps.fetch_add(1, Ordering::Relaxed);
                counters.removed.fetch_add(removed, Ordering::Relaxed);
                let over = done
                    .over_limit
                    .map_or(0, |over| over.unremovable - over.limit);
                counters.over_limit.store(over, Ordering::Relaxed);
                for finding in &done.findings {
                    tracing::error!(finding, "a damaged thread was left unchanged");
                }
                tracing::info!(
                    records = done.records,
                    text_chunks = done.chunks,
                    stored_bytes = done.stored_bytes,
                    "upkeep completed"
                );
            }
            Err(error) => {
                counters.failed_upkeeps.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, "upkeep failed and will be retried later");
            }
        }
    }
}
