//! A long run: random sessions are created and removed on a store with retention, and the resource usage of the process must level off.

mod sessions;
mod summary;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_runtime::{Clock, RuntimeBackends, SystemClock};
use windlass_store::sqlite::{SqliteOptions, SqliteRetention, SqliteStore};

use crate::child::runtime_with;
use crate::usage::Usage;
use sessions::{Counts, SessionPool};
pub use summary::SoakSummary;

/// Number of sessions that run turns at the same time.
const WORKERS: u64 = 12;
/// How many samples are taken.
const SAMPLES: u32 = 60;
/// How often retention is applied.
const MAINTAIN_EVERY: Duration = Duration::from_millis(500);

/// Short enough that even a short soak removes most of what it writes.
pub(crate) const RETENTION: SqliteRetention = SqliteRetention {
    text_chunks: Some(Duration::from_secs(1)),
    max_age: Some(Duration::from_secs(4)),
    max_bytes: Some(16 * 1024 * 1024),
};

/// Parameters of a soak.
#[derive(Debug, Clone, Copy)]
pub struct SoakPlan {
    /// Duration of the run.
    pub length: Duration,
    /// Seed for the sessions.
    pub seed: u64,
}

/// Runs a soak in its own directory, which is removed; the error describes the failure.
pub async fn run(plan: SoakPlan) -> Result<SoakSummary, String> {
    let place = tempfile::Builder::new()
        .prefix("windlass-soak-")
        .tempdir()
        .map_err(text)?;
    let directory = place.path().join("store");
    let options = SqliteOptions::new(&directory).with_retention(RETENTION);
    let store = SqliteStore::open(options).await.map_err(text)?;
    // The tools' effects are not checked here, and the log would grow.
    let log = PathBuf::from("/dev/null");
    let runtime = runtime_with(RuntimeBackends::on_sqlite(&store), log).build();
    let pool = Arc::new(SessionPool::new(runtime.await.map_err(text)?));

    let until = Instant::now() + plan.length;
    let workers: Vec<_> = (0..WORKERS)
        .map(|n| {
            let pool = Arc::clone(&pool);
            let seed = plan.seed ^ (n << 48);
            tokio::spawn(async move { pool.run_sessions(seed, until).await })
        })
        .collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let maintaining = tokio::spawn(maintain(store.clone(), Arc::clone(&is_over)));
    let samples = sample(&directory, plan.length).await;
    let mut counts = Counts::default();
    for worker in workers {
        counts.add(&worker.await.map_err(text)?.map_err(text)?);
    }
    is_over.store(true, Ordering::Relaxed);
    let pruned = maintaining.await.map_err(text)??;
    let report = store.verify().await.map_err(text)?;
    store.close().await;
    if let Some(finding) = report.findings.first() {
        return Err(format!("the store does not verify: {finding:?}"));
    }
    Ok(SoakSummary {
        seed: plan.seed,
        length: plan.length,
        counts,
        pruned,
        samples,
    })
}

/// Applies retention repeatedly; returns the number of removed records.
async fn maintain(store: SqliteStore, is_over: Arc<AtomicBool>) -> Result<u64, String> {
    let mut pruned = 0;
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(MAINTAIN_EVERY).await;
        let done = store.maintain(SystemClock.now()).await.map_err(text)?;
        if let Some(finding) = done.findings.first() {
            return Err(format!("retention found damage: {finding:?}"));
        }
        pruned += done.chunks + done.records;
    }
    Ok(pruned)
}

async fn sample(directory: &Path, length: Duration) -> Vec<Usage> {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        tokio::time::sleep(length / SAMPLES).await;
        samples.push(Usage::now(directory));
    }
    samples
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
