//! Memory of idle sessions on disk, measured in separate processes.

use std::path::Path;
use std::process::{Command, ExitCode};

use windlass_core::SessionId;
use windlass_runtime::{
    AgentBuilder, HarnessBuilder, InProcessRuntimeBuilder, RuntimeBackends, SessionBuilder,
};

use super::reading::reopen;
use super::workload::{open, turns};
use super::{Result, broke, directory, executor};
use crate::inprocess::{PROMPT, Shape};
use crate::machine;
use crate::report::{Bound, Report};

/// The argument that starts this program as the child process.
pub const CHILD: &str = "journal-child";

const SESSIONS: usize = 10_000;
/// Number of concurrent turns while the sessions are created.
const AT_ONCE: usize = 250;

pub async fn measure(report: &mut Report) -> Result<()> {
    report.progress(&format!("{SESSIONS} idle sessions on disk"));
    let (few, many) = (directory()?, directory()?);
    make(few.path(), 1).await?;
    make(many.path(), SESSIONS).await?;
    let few = resident(few.path(), 1)?;
    report.figure(
        "resident memory with 1 session on disk",
        few / 1e6,
        "MB",
        Bound::None,
    );
    for (what, opened) in [
        ("what 10,000 idle sessions on disk add", 1),
        ("the same, after each was opened once", SESSIONS),
    ] {
        let more = resident(many.path(), opened)? - few;
        report.figure(what, more.max(0.0) / 1e6, "MB", Bound::AtMost(10.0));
    }
    Ok(())
}

/// Creates sessions with one turn each.
async fn make(directory: &Path, count: usize) -> Result<()> {
    let store = open(directory).await?;
    let harness = HarnessBuilder::new("math", "You are a math assistant.")
        .capability("test_math")
        .build();
    let agent = AgentBuilder::new("a", "Use tools.").build();
    let (harness_id, agent_id) = (harness.id, agent.public_id);
    let runtime = InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(&store))
        .llm_sim(Shape::Plain.script())
        .harness(harness)
        .agent(agent)
        .build()
        .await?;
    let ids: Vec<u128> = (1..=count as u128).collect();
    for some in ids.chunks(AT_ONCE) {
        let running: Vec<_> = some
            .iter()
            .map(|n| {
                let (runtime, id) = (runtime.clone(), SessionId::from_seed(*n));
                let session = SessionBuilder::new(harness_id).agent(agent_id).id(id);
                tokio::spawn(async move {
                    runtime.add_session(session.build()).await?;
                    runtime.run_text_turn(id, PROMPT).await
                })
            })
            .collect();
        for turn in running {
            turn.await.map_err(broke)??;
        }
    }
    store.close().await;
    Ok(())
}

/// Starts a child on a store that opens some of its sessions, and returns its resident memory in bytes.
fn resident(directory: &Path, opened: usize) -> Result<f64> {
    let program = std::env::current_exe().map_err(broke)?;
    let output = Command::new(program)
        .arg(CHILD)
        .arg(directory)
        .arg(opened.to_string())
        .output()
        .map_err(broke)?;
    if !output.status.success() {
        return Err(broke(String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(broke)
}

/// Opens a store and some of its sessions one after the other, runs a turn in the last one, and prints the memory
/// usage.
pub fn live_as_child(directory: &str, opened: &str) -> ExitCode {
    let live = async {
        let (store, runtime) = reopen(Path::new(directory)).await?;
        let count: u128 = opened.parse().map_err(broke)?;
        for id in (1..=count).map(SessionId::from_seed) {
            runtime.messages_page(id, 0, 1).await?;
        }
        turns(&runtime, SessionId::from_seed(count), 1).await?;
        let resident = machine::resident_bytes();
        store.close().await;
        Ok(resident)
    };
    match executor().and_then(|executor| executor.block_on(live)) {
        Ok(resident) => {
            println!("{resident}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("windlass-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
