//! A store with a long history: how long the daemon takes to start on it, and how long appends wait during maintenance.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use windlass_core::events::{CustomData, Event, EventContext, EventRequest};
use windlass_core::runs::{RunEnded, RunRecord, RunStarted, Termination};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{
    Batch, BeginOutcome, Journal, RunLog, SqliteJournal, SqliteOptions, SqliteStore, StreamKey,
};

use crate::daemon::child::{self, DaemonProcess};
use crate::report::{Bound, Report};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Number of runs in the two compared stores.
const FEW: usize = 1_000;
const MANY: usize = 500_000;
/// Runs per write.
const AT_ONCE: usize = 256;
/// Starts of the daemon per store.
const STARTS: usize = 7;
/// Number of sessions, and old events per session.
const SESSIONS: usize = 200;
const EVENTS: u64 = 500;
/// Fraction of the bytes that must be removed.
const TOO_MUCH: f64 = 0.05;

pub fn run(mut report: Report) -> Result<Report> {
    report.progress("nothing yet: building the daemon");
    let binary = child::build()?;
    let executor = tokio::runtime::Runtime::new()?;
    let (few, many) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut starts = Vec::new();
    for (home, runs) in [(&few, FEW), (&many, MANY)] {
        report.progress(&format!("nothing yet: writing {runs} runs"));
        executor.block_on(fill(&home.path().join("data"), runs))?;
        let start = best_start(&binary, home.path())?;
        let name = format!("start to ready with {runs} runs");
        report.figure(&name, milliseconds(start), "ms", Bound::None);
        starts.push(start.as_secs_f64());
    }
    let ratio = starts[1] / starts[0];
    report.figure("ratio of the two", ratio, "", Bound::AtMost(1.5));
    executor.block_on(sweep(&mut report, &many.path().join("data")))?;
    Ok(report)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The best of several starts, because of other load on the machine. The first start migrates and checks.
fn best_start(binary: &Path, home: &Path) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..STARTS {
        best = best.min(DaemonProcess::start(binary, home)?.start);
    }
    Ok(best)
}

/// Writes ended runs.
async fn fill(directory: &Path, runs: usize) -> Result<()> {
    let store = SqliteStore::open(SqliteOptions::new(directory)).await?;
    for first in (0..runs).step_by(AT_ONCE) {
        let mut tasks = tokio::task::JoinSet::new();
        for number in first..runs.min(first + AT_ONCE) {
            let log = store.runs();
            tasks.spawn(async move {
                let started = RunStarted {
                    run_id: format!("run-{number}"),
                    agent_id: format!("agent-{}", number % 10),
                    intent: "measure".to_owned(),
                    outcome_description: None,
                    started_at: Utc::now(),
                };
                let (BeginOutcome::New(run) | BeginOutcome::Existing(run)) =
                    log.begin(started, "one").await?;
                let ended = RunEnded {
                    run_id: run.summary.run_id.clone(),
                    agent_id: run.summary.agent_id.clone(),
                    termination: Termination::Incomplete,
                    ended_at: Utc::now(),
                };
                log.append(&run, vec![RunRecord::Ended(ended)]).await
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
    }
    store.close().await;
    Ok(())
}

fn event(seq: u64, at: DateTime<Utc>) -> Arc<Event> {
    let data = CustomData {
        name: "bench".to_owned(),
        payload: "x".repeat(200).into(),
    };
    let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
    let event = request.into_event(EventId::new(), Some(seq));
    Arc::new(Event { ts: at, ..event })
}

/// Appends one event at a time until it is stopped; returns the duration of each append.
async fn append(journal: SqliteJournal, stop: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let claim = journal.claim(&StreamKey::new("at-work")).await?;
    let mut times = Vec::new();
    for seq in claim.head + 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let batch = Batch {
            first_seq: seq,
            records: vec![event(seq, Utc::now())],
            ..Batch::default()
        };
        let begun = Instant::now();
        journal.append(&claim, batch).await?;
        times.push(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times.sort_unstable();
    Ok(times)
}

/// Appends while another operation runs, and reports the latency.
async fn beside(
    report: &mut Report,
    store: &SqliteStore,
    what: &str,
    work: impl Future<Output = Result<()>>,
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let appending = tokio::spawn(append(store.journal(), Arc::clone(&stop)));
    let done = work.await;
    stop.store(true, Ordering::Relaxed);
    let times = appending.await??;
    done?;
    let at = |part: f64| times[(times.len() as f64 * part) as usize];
    for (name, part) in [
        ("median", 0.5),
        ("99th of 100", 0.99),
        ("999th of 1000", 0.999),
    ] {
        let name = format!("append while {what}, {name}");
        let target = if part < 0.999 {
            Bound::None
        } else {
            Bound::AtMost(20.0)
        };
        report.figure(&name, milliseconds(at(part)), "ms", target);
    }
    let longest = times.last().copied().unwrap_or_default();
    let name = format!("append while {what}, longest");
    report.figure(&name, milliseconds(longest), "ms", Bound::None);
    Ok(())
}

async fn sweep(report: &mut Report, directory: &Path) -> Result<()> {
    report.progress("nothing yet: writing sessions");
    let store = SqliteStore::open(SqliteOptions::new(directory)).await?;
    let old = Utc::now() - chrono::Duration::days(60);
    for session in 0..SESSIONS {
        let journal = store.journal();
        let key = StreamKey::new(format!("session-{session}"));
        let claim = journal.claim(&key).await?;
        let batch = Batch {
            first_seq: claim.head + 1,
            records: (1..=EVENTS)
                .map(|seq| event(claim.head + seq, old))
                .collect(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await?;
    }
    let used = store.used_bytes().await?;
    store.close().await;
    let limit = (used as f64 * (1.0 - TOO_MUCH)) as u64;

    let store = SqliteStore::open(SqliteOptions::new(directory)).await?;
    report.progress("appends without other load");
    beside(report, &store, "no other load", async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(())
    })
    .await?;
    store.close().await;
    let by_age = SqliteRetention {
        text_chunks: Some(Duration::from_secs(60)),
        max_age: Some(Duration::from_secs(86_400)),
        max_bytes: None,
    };
    let by_bytes = SqliteRetention {
        max_bytes: Some(limit),
        ..SqliteRetention::default()
    };
    for (what, retention) in [("sweeping by bytes", by_bytes), ("sweeping by age", by_age)] {
        report.progress(what);
        let options = SqliteOptions::new(directory).with_retention(retention);
        let store = SqliteStore::open(options).await?;
        let begun = Instant::now();
        let sweeping = async {
            let done = store.maintain(Utc::now()).await?;
            eprintln!("{} records went", done.records);
            Ok(())
        };
        beside(report, &store, what, sweeping).await?;
        let name = format!("{what} took");
        report.figure(&name, begun.elapsed().as_secs_f64(), "s", Bound::None);
        if let Some(limit) = retention.max_bytes {
            let used = store.used_bytes().await? as f64 / limit as f64;
            report.figure(
                "bytes in use beside the limit",
                used,
                "",
                Bound::AtMost(1.0),
            );
        }
        store.close().await;
    }
    Ok(())
}
