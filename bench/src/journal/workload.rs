//! The workload: groups of ordinary turns, recorded once and renumbered for every use.

use std::path::Path;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::{AgentLoopError, SessionId};
use windlass_runtime::{InProcessRuntime, InProcessRuntimeBuilder, RuntimeBackends};
use windlass_store::sqlite::{OpenCheck, SqliteOptions, SqliteStore};
use windlass_store::{Batch, MemoryJournal};

use super::bare::Group;
use super::tapped::{self, RecordGroup};
use super::{Result, broke};
use crate::inprocess::{PROMPT, Shape};

/// Opens a store without the full integrity check, which would distort the measurement.
pub async fn open(directory: &Path) -> Result<SqliteStore> {
    let options = SqliteOptions::new(directory).with_check(OpenCheck::Nothing);
    SqliteStore::open(options).await.map_err(broke)
}

/// A runtime with one session whose turns have the given shape.
pub async fn runtime_on(
    backends: RuntimeBackends,
    shape: Shape,
) -> Result<(InProcessRuntime, SessionId)> {
    let runtime = InProcessRuntimeBuilder::new()
        .backends(backends)
        .llm_sim(shape.script())
        .single_session(|session| {
            session
                .harness("math", "You are a math assistant.")
                .with_capability("test_math")
                .agent("a", "Use tools.")
        })
        .build()
        .await?;
    let session_id = runtime
        .default_session_id()
        .ok_or(AgentLoopError::NoMessages)?;
    Ok((runtime, session_id))
}

/// Runs turns one after the other; one that fails ends the measurement.
pub async fn turns(runtime: &InProcessRuntime, session_id: SessionId, count: usize) -> Result<()> {
    for _ in 0..count {
        let turn = runtime.run_text_turn(session_id, PROMPT).await?;
        if !turn.success {
            return Err(AgentLoopError::llm(turn.error.unwrap_or_default()));
        }
    }
    Ok(())
}

/// Returns the groups of one-tool turns.
pub async fn record(count: usize) -> Result<Vec<RecordGroup>> {
    let (journal, recording) = tapped::recording(MemoryJournal::new());
    let backends = RuntimeBackends::on_journal(Arc::new(journal));
    let (runtime, session_id) = runtime_on(backends, Shape::OneTool).await?;
    turns(&runtime, session_id, count).await?;
    Ok(recording.take())
}

/// Returns `count` groups by repeating `groups`, numbered after `head`.
pub fn batches(groups: &[RecordGroup], head: u64, count: usize) -> Vec<Batch> {
    let mut seq = head;
    let numbered = groups.iter().cycle().take(count).map(|group| Batch {
        first_seq: seq + 1,
        records: group
            .iter()
            .map(|event| {
                seq += 1;
                let mut event = (**event).clone();
                event.sequence = Some(seq);
                Arc::new(event)
            })
            .collect(),
        ..Batch::default()
    });
    numbered.collect()
}

/// Returns the bytes that a journal stores for events.
pub fn bytes_of(events: &[Arc<Event>]) -> Result<Group> {
    let bytes = |event| serde_json::to_vec(event).map_err(broke);
    events.iter().map(|event| bytes(&**event)).collect()
}
