//! Queued tasks use little memory. In a separate binary, because it measures the whole process.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use std::sync::Arc;

use windlass_core::SystemClock;
use windlass_jobs::{JobSpec, JobStore, NewTask, TaskSettings, Tasks};
use windlass_store::{SqliteError, SqliteOptions, SqliteStore};

/// Memory of the store, and the limit for each task, in bytes: a hundred thousand tasks may use 40 MiB in total.
const BASE: usize = 20 * 1024 * 1024;
const OF_TASK: usize = 200;

/// Number of queued tasks; with `WINDLASS_SOAK`, the documented number.
fn count() -> usize {
    match std::env::var_os("WINDLASS_SOAK") {
        Some(_) => 100_000,
        None => 10_000,
    }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

async fn open(directory: &std::path::Path) -> Tasks {
    let store = loop {
        match SqliteStore::open(SqliteOptions::new(directory)).await {
            // The previous store is still being closed.
            Err(SqliteError::Locked { .. }) => tokio::task::yield_now().await,
            opened => break opened.unwrap(),
        }
    };
    let store = JobStore {
        journal: Arc::new(store.journal()),
        records: Arc::new(store.host_records()),
    };
    let tasks = Tasks::open(store, Arc::new(SystemClock), TaskSettings::default());
    tasks.await.unwrap()
}

#[tokio::test]
async fn queued_tasks_use_little_memory() {
    let tasks_in_all = count();
    let limit = BASE + OF_TASK * tasks_in_all;
    let directory = tempfile::tempdir().unwrap();
    let before = resident();
    let tasks = open(directory.path()).await;
    for batch in 0..100 {
        let news = (0..tasks_in_all / 100).map(|n| {
            let prompt = format!("{batch} {n} {}", "please ".repeat(40));
            NewTask::new(JobSpec::new(prompt))
        });
        let owner = ["a", "b", "c", "d"][batch % 4];
        tasks.submit_all(owner, news.collect()).await.unwrap();
    }
    let queued = resident() - before;
    assert_eq!(tasks.counts().await.unwrap().queued, tasks_in_all);
    assert!(queued < limit, "{queued} bytes after queueing");
    drop(tasks);
    let tasks = open(directory.path()).await;
    let reopened = resident() - before;
    assert_eq!(tasks.counts().await.unwrap().queued, tasks_in_all);
    assert!(reopened < limit, "{reopened} bytes after a start");
}
