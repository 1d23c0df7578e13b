//! Queued tasks, compared with the same turns started by clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, FixedOffset, Timelike, Utc};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_core::SystemClock;
use windlass_jobs::{JobSpec, JobStore, NewTask, TaskSettings, Tasks};
use windlass_store::{SqliteOptions, SqliteStore};

use crate::daemon::child::{self, DaemonProcess};
use crate::daemon::client::BenchClient;
use crate::machine;
use crate::report::{Bound, Report};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

const PROMPT: &str = "What does a windlass do, and what keeps it from slipping back?";
/// Number of measured tasks or turns.
const COUNT: usize = 2_000;
/// Number that run concurrently.
const AT_ONCE: usize = 8;
/// Number of tasks queued to an idle daemon, one after the other.
const ALONE: usize = 300;
/// Number of queued tasks for the memory measurement.
const WAITING: usize = 100_000;
const LOOK: Duration = Duration::from_millis(5);
/// Number of automations due at the same minute, one per worker.
const DUE: usize = AT_ONCE;

pub fn run(mut report: Report) -> Result<Report> {
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    executor.block_on(memory(&mut report))?;
    report.progress("nothing yet: building the daemon");
    let binary = child::build()?;
    let home = tempfile::tempdir()?;
    let workers = AT_ONCE.to_string();
    let daemon = DaemonProcess::start_with(&binary, home.path(), &["--workers", &workers])?;
    let client = BenchClient::new(&daemon.address)?;
    executor.block_on(async {
        // Warms up one-time work.
        turns(&client, COUNT / 10).await?;
        tasks(&client, COUNT / 10).await?;
        report.progress("turns that clients begin");
        let bare = COUNT as f64 / turns(&client, COUNT).await?.as_secs_f64();
        report.figure("turns per second, 8 at once", bare, "1/s", Bound::None);
        report.progress("tasks");
        let queued = COUNT as f64 / tasks(&client, COUNT).await?.as_secs_f64();
        report.figure("tasks per second, 8 workers", queued, "1/s", Bound::None);
        let ratio = queued / bare;
        report.figure("tasks / turns", ratio, "", Bound::AtLeast(0.7));
        report.progress("tasks of an idle daemon");
        let mut waits = Vec::new();
        for _ in 0..ALONE {
            waits.push(waited(&client).await?);
        }
        waits.sort_by(f64::total_cmp);
        let at = |part: f64| waits[(waits.len() as f64 * part) as usize];
        report.figure("queued to started, median", at(0.5), "ms", Bound::None);
        let p99 = at(0.99);
        report.figure("queued to started, p99", p99, "ms", Bound::AtMost(100.0));
        report.progress("automations that are due at the next minute");
        let worst = due(&client).await?;
        report.figure(
            "due to started, worst of 8",
            worst,
            "ms",
            Bound::AtMost(100.0),
        );
        Ok::<_, Error>(())
    })?;
    Ok(report)
}

/// Creates threads with one turn each, several concurrently; returns the duration.
async fn turns(client: &BenchClient, count: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        clients.spawn(async move {
            for _ in 0..count / AT_ONCE {
                let thread = client.thread().await?;
                client.turn(&thread, PROMPT).await?;
                let mut events = client.events(&thread).await?;
                while events.next().await?.name != "turn.completed" {}
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(begun.elapsed())
}

async fn completed(client: &BenchClient) -> Result<u64> {
    let list: Value = serde_json::from_slice(&client.get("/tasks?limit=1").await?)?;
    let counts = &list["counts"];
    if counts["failed"].as_u64() != Some(0) {
        return Err(format!("tasks failed: {list}").into());
    }
    Ok(counts["completed"].as_u64().unwrap_or(0))
}

/// Queues tasks, several concurrently, and waits until they have ended; returns the duration.
async fn tasks(client: &BenchClient, count: usize) -> Result<Duration> {
    let before = completed(client).await?;
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..AT_ONCE {
        let client = client.clone();
        clients.spawn(async move {
            for _ in 0..count / AT_ONCE {
                client.post("/tasks", &json!({ "prompt": PROMPT })).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    while completed(client).await? < before + count as u64 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(begun.elapsed())
}

/// Queues one task; returns its wait in milliseconds, by the daemon's clock.
async fn waited(client: &BenchClient) -> Result<f64> {
    let task = client.post("/tasks", &json!({ "prompt": PROMPT })).await?;
    let id = task["id"].as_str().ok_or("a task without an id")?;
    let task = ended(client, id).await?;
    Ok((time(&task, "started_at")? - time(&task, "created_at")?).as_seconds_f64() * 1e3)
}

/// Waits until a task has ended.
async fn ended(client: &BenchClient, id: &str) -> Result<Value> {
    loop {
        let task: Value = serde_json::from_slice(&client.get(&format!("/tasks/{id}")).await?)?;
        if task["status"] == "completed" {
            return Ok(task);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn time(of: &Value, name: &str) -> Result<DateTime<FixedOffset>> {
    let text = of[name].as_str().ok_or_else(|| format!("no {name}"))?;
    Ok(DateTime::parse_from_rfc3339(text)?)
}

/// Creates automations due at the next minute; returns the delay of the last started task in milliseconds.
async fn due(client: &BenchClient) -> Result<f64> {
    // An automation created just before its time would be due an hour later.
    if Utc::now().second() > 55 {
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    let minute = (Utc::now().minute() + 1) % 60;
    let rule = format!("FREQ=HOURLY;INTERVAL=1;BYMINUTE={minute}");
    let body = json!({"name": "due", "prompt": PROMPT, "rrule": rule, "time_zone": "UTC"});
    let mut ids = Vec::new();
    for _ in 0..DUE {
        let made = client.post("/automations", &body).await?;
        ids.push(made["id"].as_str().ok_or("no id")?.to_owned());
    }
    // The daemon is idle until then.
    let left = 61 - u64::from(Utc::now().second());
    tokio::time::sleep(Duration::from_secs(left)).await;
    let mut worst: f64 = 0.0;
    for id in ids {
        let runs = format!("/automations/{id}/runs");
        let run = loop {
            let runs: Value = serde_json::from_slice(&client.get(&runs).await?)?;
            if let Some(run) = runs.as_array().and_then(|runs| runs.first())
                && run["task_id"].is_string()
            {
                break run.clone();
            }
            tokio::time::sleep(LOOK).await;
        };
        let task = run["task_id"].as_str().ok_or("no task")?;
        let task = ended(client, task).await?;
        let late = time(&task, "started_at")? - time(&run, "scheduled_for")?;
        worst = worst.max(late.as_seconds_f64() * 1e3);
    }
    Ok(worst)
}

/// Reports the memory of queued tasks in a fresh process.
async fn memory(report: &mut Report) -> Result<()> {
    report.progress(&format!("nothing yet: queueing {WAITING} tasks"));
    let home = tempfile::tempdir()?;
    let store = SqliteStore::open(SqliteOptions::new(home.path())).await?;
    let tasks = opened(&store).await?;
    for first in (0..WAITING).step_by(500) {
        let owner = if first < WAITING / 2 { "one" } else { "other" };
        let batch = (0..500).map(|_| NewTask::new(JobSpec::new(PROMPT)));
        tasks.submit_all(owner, batch.collect()).await?;
    }
    drop(tasks);
    store.close().await;
    let store = SqliteStore::open(SqliteOptions::new(home.path())).await?;
    let before = machine::resident_bytes();
    let begun = Instant::now();
    let tasks = opened(&store).await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let after = machine::resident_bytes();
    let waiting = tasks.counts().await?.queued;
    if waiting != WAITING {
        return Err(format!("{waiting} tasks wait").into());
    }
    let grown = after.saturating_sub(before) as f64 / 1e6;
    report.figure("100,000 queued tasks", grown, "MB", Bound::AtMost(40.0));
    report.figure("taking them up at a start", took, "ms", Bound::None);
    drop(tasks);
    store.close().await;
    Ok(())
}

async fn opened(store: &SqliteStore) -> Result<Tasks> {
    let store = JobStore {
        journal: Arc::new(store.journal()),
        records: Arc::new(store.host_records()),
    };
    let clock = Arc::new(SystemClock);
    Ok(Tasks::open(store, clock, TaskSettings::default()).await?)
}
