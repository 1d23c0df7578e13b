//! A fork of a long thread over HTTP: its cost must not depend on the length.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::SessionId;
use windlass_store::sqlite::SqliteStore;
use windlass_store::{Batch, Journal, StreamKey};

use super::child::DaemonProcess;
use super::client::BenchClient;
use super::{REST, Result};
use crate::journal::{LONG, PAGE, batches, end_open_turns, open, record};
use crate::report::{Bound, Report};

const TRIES: usize = 12;

/// Measured costs of forks.
struct ForkCosts {
    spans: Vec<Duration>,
    commits: u64,
}

pub async fn measure(report: &mut Report, binary: &Path) -> Result<()> {
    report.progress("forking a thread of 100,000 events");
    let home = tempfile::tempdir()?;
    let data = home.path().join("data");
    let thread = {
        let daemon = DaemonProcess::start(binary, home.path())?;
        BenchClient::new(&daemon.address)?.thread().await?
    };
    let session: SessionId = thread.replacen("thr_", "session_", 1).parse()?;
    let key = StreamKey::from(session);
    let store = open(&data).await?;
    fill(&store, &key, session).await?;
    end_open_turns(&store, session).await?;
    let head = store.verify_stream(&key, None).await?.heads;
    store.close().await;

    let seen = fork(&DaemonProcess::start(binary, home.path())?, &data, &thread).await?;
    let store = open(&data).await?;
    let after = store.verify_stream(&key, None).await?;
    store.close().await;
    if after.heads != head || !after.findings.is_empty() {
        return Err("a fork changed its parent".into());
    }
    let mut spans = seen.spans;
    spans.sort();
    report.figure(
        "fork of a thread of 100,000 events, median",
        spans[TRIES / 2].as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(10.0),
    );
    report.figure(
        "commits of a fork, the record of its session included",
        seen.commits as f64 / TRIES as f64,
        "",
        Bound::AtMost(2.0),
    );
    Ok(())
}

/// Adds ordinary turns to a thread.
async fn fill(store: &SqliteStore, key: &StreamKey, session: SessionId) -> Result<()> {
    let groups = record(50).await?;
    let journal = store.journal();
    let claim = journal.claim(key).await?;
    let cycle: usize = groups.iter().map(Vec::len).sum();
    let count = LONG * groups.len() / cycle + groups.len();
    let events = batches(&groups, claim.head, count).into_iter();
    let events = events.flat_map(|batch| batch.records).take(LONG);
    let records = events.map(|event| {
        let mut event = (*event).clone();
        event.session_id = session;
        Arc::new(event)
    });
    for records in records.collect::<Vec<_>>().chunks(PAGE) {
        let batch = Batch {
            first_seq: records[0].seq(),
            records: records.to_vec(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await?;
    }
    Ok(())
}

async fn fork(daemon: &DaemonProcess, data: &Path, thread: &str) -> Result<ForkCosts> {
    let client = BenchClient::new(&daemon.address)?;
    // Records written outside the daemon are read once; the daemon's own turns update its rows.
    client.fork(thread).await?;
    let mut seen = ForkCosts {
        spans: Vec::new(),
        commits: 0,
    };
    for _ in 0..TRIES {
        // Deferred work of the daemon must not count for the next fork.
        tokio::time::sleep(REST).await;
        let (before, started) = (commits(data)?, Instant::now());
        client.fork(thread).await?;
        seen.spans.push(started.elapsed());
        seen.commits += commits(data)? - before;
    }
    Ok(seen)
}

/// Reads the number of commits of a running daemon's database from its change counter.
fn commits(data: &Path) -> Result<u64> {
    let bytes = std::fs::read(data.join("windlass.commits"))?;
    let number = bytes.get(24..32).ok_or("the counter is too short")?;
    Ok(u64::from_le_bytes(number.try_into()?))
}
