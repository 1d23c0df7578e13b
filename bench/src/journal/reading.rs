//! Reading: the whole log, the end of a long session, and a session that resumes.

use std::path::Path;
use std::time::Instant;

use windlass_core::{AgentLoopError, SessionId};
use windlass_runtime::{InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends};
use windlass_store::sqlite::SqliteStore;
use windlass_store::{Batch, Journal, StreamKey};

use super::workload::{batches, open, record, runtime_on, turns};
use super::{Result, best, broke, directory};
use crate::inprocess::Shape;
use crate::machine;
use crate::report::{Bound, Report};

pub const LONG: usize = 100_000;
const SHORT: u64 = 1_000;
/// Events per read request.
pub const PAGE: usize = 1_000;
/// Number of newest events that are requested.
const LAST: u64 = 100;
pub const TRIES: usize = 12;

pub async fn measure(report: &mut Report) -> Result<()> {
    let place = directory()?;
    report.progress(&format!("reading a session of {LONG} events"));
    let long = write_long(place.path()).await?;
    read_back(report, place.path(), long).await?;
    read_end(report, place.path(), long).await?;
    let place = directory()?;
    report.progress(&format!("opening a session of {SHORT} events"));
    open_short(report, place.path()).await
}

/// Writes a session with the events of ordinary turns, and returns its ID.
pub async fn write_long(directory: &Path) -> Result<SessionId> {
    let store = open(directory).await?;
    let (runtime, session_id) =
        runtime_on(RuntimeBackends::on_sqlite(&store), Shape::OneTool).await?;
    drop(runtime);
    let groups = record(50).await?;
    let per_cycle: usize = groups.iter().map(Vec::len).sum();
    let count = LONG * groups.len() / per_cycle + groups.len();
    let events = batches(&groups, 0, count);
    let events: Vec<_> = events
        .into_iter()
        .flat_map(|batch| batch.records)
        .take(LONG)
        .collect();
    let journal = store.journal();
    let claim = journal.claim(&session_id.into()).await.map_err(broke)?;
    for records in events.chunks(PAGE) {
        let batch = Batch {
            first_seq: records[0].seq(),
            records: records.to_vec(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await.map_err(broke)?;
    }
    store.close().await;
    Ok(session_id)
}

async fn read_back(report: &mut Report, directory: &Path, session_id: SessionId) -> Result<()> {
    let store = open(directory).await?;
    let (journal, key) = (store.journal(), StreamKey::from(session_id));
    let (mut spans, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..TRIES {
        let (started, cpu_before) = (Instant::now(), machine::cpu_time());
        let mut after = 0;
        loop {
            let page = journal.read(&key, after, PAGE).await.map_err(broke)?;
            let Some(last) = page.events.last() else {
                break;
            };
            after = last.seq();
        }
        spans.push(started.elapsed());
        cpu.push(machine::cpu_time() - cpu_before);
        if after != LONG as u64 {
            return Err(broke(format!("{after} of {LONG} events were read back")));
        }
    }
    report.figure(
        "reading back, pages of 1,000, one reader",
        LONG as f64 / best(&spans).as_secs_f64(),
        "events/s",
        Bound::AtLeast(300_000.0),
    );
    report.figure(
        "the same, per CPU second",
        LONG as f64 / best(&cpu).as_secs_f64(),
        "events/s",
        Bound::None,
    );
    store.close().await;
    Ok(())
}

async fn read_end(report: &mut Report, directory: &Path, session_id: SessionId) -> Result<()> {
    let mut spans = Vec::new();
    for _ in 0..TRIES {
        let (store, runtime) = reopen(directory).await?;
        let started = Instant::now();
        let journal = store.journal();
        let page = journal.read(&session_id.into(), u64::MAX, 0).await;
        let head = page.map_err(broke)?.head;
        let mut events = runtime.subscribe_after(session_id, head - LAST).await?;
        for _ in 0..LAST {
            events.next().await.ok_or(AgentLoopError::NoMessages)?;
        }
        spans.push(started.elapsed());
        store.close().await;
    }
    report.figure(
        "last 100 of 100,000 events, after a restart",
        best(&spans).as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(20.0),
    );
    Ok(())
}

/// A session is ready to continue when its thread has folded it and has claimed its stream.
async fn open_short(report: &mut Report, directory: &Path) -> Result<()> {
    let store = open(directory).await?;
    let (runtime, session_id) =
        runtime_on(RuntimeBackends::on_sqlite(&store), Shape::OneTool).await?;
    let key = StreamKey::from(session_id);
    loop {
        turns(&runtime, session_id, 1).await?;
        let page = store.journal().read(&key, u64::MAX, 0).await;
        if page.map_err(broke)?.head >= SHORT {
            break;
        }
    }
    store.close().await;
    let mut spans = Vec::new();
    for _ in 0..TRIES {
        let (store, runtime) = reopen(directory).await?;
        let started = Instant::now();
        let messages = runtime.messages_page(session_id, 0, 1).await?;
        spans.push(started.elapsed());
        if messages.is_empty() {
            return Err(AgentLoopError::NoMessages);
        }
        store.close().await;
    }
    report.figure(
        "opening a session of 1,000 events, ready to continue",
        best(&spans).as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(15.0),
    );
    Ok(())
}

/// A new runtime on the same store, like a restarted process.
pub async fn reopen(directory: &Path) -> Result<(SqliteStore, InProcessRuntime)> {
    let store = open(directory).await?;
    let runtime = InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(&store))
        .llm_sim(Shape::OneTool.script())
        .build()
        .await?;
    Ok((store, runtime))
}
