//! Measures the latency of an idle queue: from the request to the start of the turn, with a real database.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it measures and prints"
)]

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_core::SystemClock;
use windlass_core::items::UnapprovedCalls;
use windlass_jobs::{
    Assignment, EndedTurn, JobSpec, JobStore, NewTask, TaskSettings, Tasks, TurnEnd, TurnOutcome,
    TurnRunner, WorkerSlot,
};
use windlass_store::{SqliteOptions, SqliteStore};

struct Stopwatch(mpsc::UnboundedSender<Instant>);

#[async_trait]
impl TurnRunner for Stopwatch {
    async fn run_attempt(&self, _: Assignment, _: CancellationToken, _: WorkerSlot) -> TurnEnd {
        let _ = self.0.send(Instant::now());
        TurnEnd::Ended(EndedTurn {
            outcome: TurnOutcome::Completed {
                summary: String::new(),
            },
            unapproved: UnapprovedCalls::default(),
        })
    }
}

#[tokio::main]
async fn main() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::new(directory.path()));
    let store = store.await.unwrap();
    let store = JobStore {
        journal: Arc::new(store.journal()),
        records: Arc::new(store.host_records()),
    };
    let tasks = Tasks::open(store, Arc::new(SystemClock), TaskSettings::default());
    let tasks = tasks.await.unwrap();
    let (sender, mut starts) = mpsc::unbounded_channel();
    let running = tasks.clone();
    tokio::spawn(async move { running.run(Arc::new(Stopwatch(sender))).await });
    let mut waits = Vec::new();
    for n in 0..1000 {
        let submitted = Instant::now();
        let task = NewTask::new(JobSpec::new(n.to_string()));
        tasks.submit("a", task).await.unwrap();
        waits.push(starts.recv().await.unwrap() - submitted);
    }
    waits.sort_unstable();
    println!(
        "from submission to start: p50 {:?}, p99 {:?}, max {:?}",
        waits[500], waits[990], waits[999]
    );
}
