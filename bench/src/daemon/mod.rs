//! The daemon over HTTP and SSE, measured by its clients.

mod chat;
pub mod child;
pub mod client;
mod fanout;
mod forks;
mod load;
mod many;
mod readers;

use std::path::Path;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_runtime::{InProcessRuntimeBuilder, RuntimeBackends, SqliteOptions};

use crate::machine;
use crate::report::{Bound, Report};
use child::DaemonProcess;
use client::BenchClient;

type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

const PROMPT: &str = "What does a windlass do, and what keeps it from slipping back?";
const TURNS: usize = 400;
const PARALLEL: usize = 64;
const IDLE_THREADS: usize = 1_000;
/// Turns of each active session.
const TURNS_OF_ACTIVE: usize = 4;
/// Number of workers that create threads; divides the number of threads.
const WORKERS: usize = 8;
/// Pause before a measurement, in which the daemon completes deferred work.
const REST: Duration = Duration::from_secs(1);

/// A part that can be measured separately.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DaemonPart {
    Turns,
    Idle,
    Many,
    Active,
    Forks,
    Load,
    Readers,
    Fanout,
    Chat,
}

impl DaemonPart {
    const ALL: [(&'static str, Self); 9] = [
        ("turns", Self::Turns),
        ("idle", Self::Idle),
        ("many", Self::Many),
        ("active", Self::Active),
        ("forks", Self::Forks),
        ("load", Self::Load),
        ("readers", Self::Readers),
        ("fanout", Self::Fanout),
        ("chat", Self::Chat),
    ];

    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, part)| *part)
    }
}

/// Measures the daemon, or a part of it.
pub fn run(mut report: Report, only: Option<DaemonPart>) -> Result<Report> {
    report.progress("nothing yet: building the daemon");
    let binary = child::build()?;
    let executor = tokio::runtime::Runtime::new()?;
    executor.block_on(async {
        for (_, part) in DaemonPart::ALL {
            if only.is_none_or(|only| only == part) {
                measure(&mut report, &binary, part).await?;
            }
        }
        Ok(report)
    })
}

async fn measure(report: &mut Report, binary: &Path, part: DaemonPart) -> Result<()> {
    let home = tempfile::tempdir()?;
    match part {
        DaemonPart::Turns => {
            let library = library_turn(report).await?;
            turns(report, binary, home.path(), library).await
        }
        DaemonPart::Idle => idle_threads(report, binary).await,
        DaemonPart::Many => many::measure(report, binary).await,
        DaemonPart::Active => active(report, binary).await,
        DaemonPart::Forks => forks::measure(report, binary).await,
        DaemonPart::Load => {
            load::measure(report, &DaemonProcess::start(binary, home.path())?).await
        }
        DaemonPart::Readers => readers::measure(report, binary).await,
        DaemonPart::Fanout => fanout::measure(report, binary).await,
        DaemonPart::Chat => {
            chat::measure(report, &DaemonProcess::start(binary, home.path())?).await
        }
    }
}

/// Cost of a turn in the library, on disk like the daemon's.
async fn library_turn(report: &mut Report) -> Result<f64> {
    report.progress("the same turns in the library");
    let home = tempfile::tempdir()?;
    let backends = RuntimeBackends::sqlite(SqliteOptions::new(home.path().join("data"))).await?;
    let runtime = InProcessRuntimeBuilder::new()
        .backends(backends)
        .llm_sim(LlmSimConfig::echo())
        .single_session(|session| session.harness("h", "p").agent("a", "p"))
        .build()
        .await?;
    let session = runtime.default_session_id().ok_or("no session")?;
    let before = machine::cpu_time();
    for _ in 0..TURNS {
        runtime.run_text_turn(session, PROMPT).await?;
    }
    let cpu = millis_per_turn(machine::cpu_time() - before, TURNS);
    report.figure("in the library: CPU per turn", cpu, "ms", Bound::None);
    Ok(cpu)
}

fn millis_per_turn(cpu: Duration, turns: usize) -> f64 {
    cpu.as_secs_f64() * 1e3 / turns as f64
}

async fn turns(report: &mut Report, binary: &Path, home: &Path, library: f64) -> Result<()> {
    let daemon = DaemonProcess::start(binary, home)?;
    let resident = daemon.resident_bytes() as f64 / 1e6;
    report.figure("resident set, idle", resident, "MB", Bound::AtMost(25.0));
    for threads in [1, PARALLEL] {
        report.progress(&format!("turns on {threads} threads at once"));
        let label = |what: &str| format!("{threads} threads at once: {what}");
        let client = BenchClient::new(&daemon.address)?;
        let (started, cpu) = (Instant::now(), daemon.cpu_time());
        let mut work = JoinSet::new();
        for _ in 0..threads {
            work.spawn(turns_of_one(client.clone(), TURNS / threads));
        }
        let (mut turns, mut delays) = (0, Vec::new());
        while let Some(done) = work.join_next().await {
            let seen = done??;
            turns += TURNS / threads;
            delays.extend(seen);
        }
        let took = started.elapsed();
        let cpu = millis_per_turn(daemon.cpu_time() - cpu, turns);
        report.figure(
            &label("turns per second"),
            turns as f64 / took.as_secs_f64(),
            "1/s",
            Bound::None,
        );
        report.figure(&label("CPU per turn"), cpu, "ms", Bound::None);
        report.figure(
            &label("CPU per turn above the library's"),
            cpu - library,
            "ms",
            Bound::AtMost(1.5),
        );
        report.figure(
            &label("event's time to the socket, commit included, p99"),
            p99(delays),
            "ms",
            Bound::AtMost(20.0),
        );
    }
    Ok(())
}

/// Cost of a turn while many sessions are active.
async fn active(report: &mut Report, binary: &Path) -> Result<()> {
    let mut costs = Vec::new();
    for sessions in [500, 2_000] {
        report.progress(&format!("{sessions} sessions active at once"));
        let home = tempfile::tempdir()?;
        let daemon = DaemonProcess::start(binary, home.path())?;
        let client = BenchClient::new(&daemon.address)?;
        let cpu = daemon.cpu_time();
        let mut work = JoinSet::new();
        for _ in 0..sessions {
            work.spawn(turns_of_one(client.clone(), TURNS_OF_ACTIVE));
        }
        while let Some(done) = work.join_next().await {
            done??;
        }
        let cpu = millis_per_turn(daemon.cpu_time() - cpu, sessions * TURNS_OF_ACTIVE);
        let name = format!("{sessions} sessions active at once: CPU per turn");
        report.figure(&name, cpu, "ms", Bound::None);
        costs.push(cpu);
    }
    report.figure(
        "CPU per turn, 2,000 sessions / 500 sessions",
        costs[1] / costs[0],
        "ratio",
        Bound::AtMost(1.3),
    );
    Ok(())
}

/// Runs turns on its own thread; returns the age of each event on arrival, in milliseconds.
async fn turns_of_one(client: BenchClient, turns: usize) -> Result<Vec<f64>> {
    let thread = client.thread().await?;
    let mut events = client.events(&thread).await?;
    let mut delays = Vec::new();
    for _ in 0..turns {
        client.turn(&thread, PROMPT).await?;
        loop {
            let frame = events.next().await?;
            let stamp = frame.data["timestamp"].as_str().unwrap_or_default();
            let stamp: DateTime<Utc> = stamp.parse()?;
            let age = (Utc::now() - stamp).num_microseconds().unwrap_or_default();
            delays.push(age as f64 / 1e3);
            if frame.name == "turn.completed" {
                break;
            }
        }
    }
    Ok(delays)
}

fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}

/// Cost of unused threads: memory, time at the start, time in a list.
async fn idle_threads(report: &mut Report, binary: &Path) -> Result<()> {
    report.progress("1,000 threads that rest");
    let home = tempfile::tempdir()?;
    let daemon = DaemonProcess::start(binary, home.path())?;
    let before = daemon.resident_bytes() as f64;
    let client = BenchClient::new(&daemon.address)?;
    let mut work = JoinSet::new();
    for _ in 0..WORKERS {
        let client = client.clone();
        work.spawn(async move {
            for _ in 0..IDLE_THREADS / WORKERS {
                turns_of_one(client.clone(), 1).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    tokio::time::sleep(REST).await;
    let per_thread = (daemon.resident_bytes() as f64 - before) / IDLE_THREADS as f64 / 1e3;
    report.figure(
        "resident set per idle thread",
        per_thread,
        "KB",
        Bound::None,
    );
    drop((client, daemon));

    let mut starts = Vec::new();
    for _ in 0..5 {
        starts.push(DaemonProcess::start(binary, home.path())?.start);
    }
    starts.sort();
    report.figure(
        "start to ready with 1,000 threads on disk",
        starts[2].as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(50.0),
    );
    let daemon = DaemonProcess::start(binary, home.path())?;
    let client = BenchClient::new(&daemon.address)?;
    client.get("/runtime/info").await?;
    let started = Instant::now();
    let listed = client.get("/threads/summary?limit=1000").await?;
    let took = started.elapsed();
    let count = serde_json::from_slice::<Vec<serde_json::Value>>(&listed)?.len();
    report.figure(
        &format!("threads/summary of {count} threads, cold"),
        took.as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(50.0),
    );
    let resident = daemon.resident_bytes() as f64 / 1e6;
    report.figure("resident set after that list", resident, "MB", Bound::None);
    Ok(())
}
