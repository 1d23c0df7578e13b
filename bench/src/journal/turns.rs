//! Durable turns: their overhead over turns in memory, their commits, and their disk usage.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::SessionId;
use windlass_runtime::{InProcessRuntime, RuntimeBackends};
use windlass_store::sqlite::SqliteStore;

use super::tapped::{self, Recording};
use super::workload::{bytes_of, open, runtime_on, turns};
use super::{Result, bare, broke, directory};
use crate::inprocess::Shape;
use crate::machine;
use crate::report::{Bound, Report};

/// The three sides alternate, so that other load on the machine affects all.
const ROUNDS: usize = 5;
const TURNS: usize = 100;

pub async fn measure(report: &mut Report) -> Result<()> {
    cpu(report).await?;
    commits(report, Shape::Plain, 2.0).await?;
    commits(report, Shape::OneTool, 4.0).await?;
    large_arguments(report).await
}

/// CPU of a durable one-tool turn.
///
/// Compares the overhead of durability with that of bare SQLite, which writes the same groups of the
/// same events as JSON at the same times: `(on disk - in memory) / (bare - in memory)`. All are CPU times of the whole
/// process, including the kernel.
async fn cpu(report: &mut Report) -> Result<()> {
    report.progress(&format!(
        "{ROUNDS} × {TURNS} one-tool turns, in memory, with bare SQLite and on disk"
    ));
    let place = directory()?;
    let store = open(&place.path().join("store")).await?;
    let with_bare = RuntimeBackends::on_journal(Arc::new(tapped::on_bare(bare(place.path())?)));
    let mut sides = Vec::new();
    for backends in [
        RuntimeBackends::in_memory(),
        with_bare,
        RuntimeBackends::on_sqlite(&store),
    ] {
        sides.push((runtime_on(backends, Shape::OneTool).await?, Duration::ZERO));
    }
    for round in 0..=ROUNDS {
        for ((runtime, session_id), cpu) in &mut sides {
            let before = machine::cpu_time();
            turns(runtime, *session_id, TURNS).await?;
            // The first round warms up all three.
            if round > 0 {
                *cpu += machine::cpu_time() - before;
            }
        }
    }
    let per_turn = |n: usize| sides[n].1.as_secs_f64() * 1e6 / (ROUNDS * TURNS) as f64;
    let (in_memory, with_bare, on_disk) = (per_turn(0), per_turn(1), per_turn(2));
    let label = |what: &str| format!("one-tool turn, CPU: {what}");
    for (what, value) in [
        ("in memory", in_memory),
        ("in memory, rows in bare SQLite", with_bare),
        ("on disk", on_disk),
    ] {
        report.figure(&label(what), value, "us", Bound::None);
    }
    report.figure(
        &label("above in memory / bare SQLite"),
        (on_disk - in_memory) / (with_bare - in_memory),
        "ratio",
        Bound::AtMost(1.5),
    );
    drop(sides);
    store.close().await;
    Ok(())
}

/// A runtime on disk whose appends are recorded.
struct RecordingRuntime {
    store: SqliteStore,
    recording: Recording,
    runtime: InProcessRuntime,
    session_id: SessionId,
}

impl RecordingRuntime {
    async fn open(directory: &std::path::Path, shape: Shape) -> Result<Self> {
        let store = open(directory).await?;
        let (journal, recording) = tapped::recording(store.journal());
        let on_disk = RuntimeBackends::on_sqlite(&store);
        let mut backends = RuntimeBackends::on_journal(Arc::new(journal))
            .with_harness_store(on_disk.harness_store)
            .with_agent_store(on_disk.agent_store)
            .with_session_store(on_disk.session_store)
            .with_storage_store(on_disk.storage_store);
        backends.file_system = on_disk.file_system;
        let (runtime, session_id) = runtime_on(backends, shape).await?;
        turns(&runtime, session_id, 1).await?;
        recording.take();
        Ok(Self {
            store,
            recording,
            runtime,
            session_id,
        })
    }

    async fn message_bytes(&self) -> Result<usize> {
        let messages = self.runtime.messages(self.session_id).await?;
        Ok(serde_json::to_vec(&messages).map_err(broke)?.len())
    }
}

/// Commits per turn, without those that contain only text chunks, and bytes on disk per turn.
async fn commits(report: &mut Report, shape: Shape, expected: f64) -> Result<()> {
    let name = shape.name();
    report.progress(&format!("commits of {TURNS} {name} turns"));
    let place = directory()?;
    let recorded = RecordingRuntime::open(place.path(), shape).await?;
    let before = recorded.store.commits();
    // The size of an empty store is subtracted.
    let used_before = recorded.store.used_bytes().await.map_err(broke)?;
    let messages_before = recorded.message_bytes().await?;
    turns(&recorded.runtime, recorded.session_id, TURNS).await?;
    let commits = recorded.store.commits() - before;
    let groups = recorded.recording.take();
    let only_text = groups
        .iter()
        .filter(|group| group.iter().all(|event| event.is_ephemeral()))
        .count() as f64;
    let turns = TURNS as f64;
    let label = |what: &str| format!("{name} turn: {what}");
    report.figure(
        &label("commits without text chunks"),
        (commits as f64 - only_text) / turns,
        "commits",
        Bound::AtMost(expected),
    );
    report.figure(
        &label("commits of text chunks"),
        only_text / turns,
        "commits",
        Bound::None,
    );
    let messages = recorded.message_bytes().await? - messages_before;
    let events: usize = groups
        .iter()
        .map(|group| bytes_of(group).map(|bytes| bytes.iter().map(Vec::len).sum::<usize>()))
        .sum::<Result<_>>()?;
    let used = recorded.store.used_bytes().await.map_err(broke)?;
    let stored = (used - used_before) as f64;
    report.figure(
        &label("stored bytes / event JSON"),
        stored / events as f64,
        "ratio",
        Bound::None,
    );
    report.figure(
        &label("stored bytes / message JSON"),
        stored / messages as f64,
        "ratio",
        Bound::AtMost(3.0),
    );
    recorded.store.close().await;
    Ok(())
}

/// Bytes stored for a call with large arguments. They may be in one record only, and the tool's answer does not repeat them.
async fn large_arguments(report: &mut Report) -> Result<()> {
    const ARGUMENT: usize = 60_000;
    const CALLS: usize = 20;
    report.progress("calls with 60 KB of arguments");
    let directory = directory()?;
    let store = open(directory.path()).await?;
    let backends = RuntimeBackends::on_sqlite(&store);
    let (runtime, session_id) = runtime_on(backends, Shape::LargeArguments(ARGUMENT)).await?;
    turns(&runtime, session_id, 1).await?;
    let before = store.used_bytes().await.map_err(broke)?;
    turns(&runtime, session_id, CALLS).await?;
    let stored = (store.used_bytes().await.map_err(broke)? - before) as f64 / CALLS as f64;
    report.figure(
        "a call with 60 KB of arguments: bytes stored",
        stored / 1e3,
        "KB",
        Bound::AtMost(90.0),
    );
    store.close().await;
    Ok(())
}
