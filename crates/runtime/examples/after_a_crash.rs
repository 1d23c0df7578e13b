//! A process that dies in the middle of a turn, a program that looks at what it left, and one that goes on.
//!
//! Looking takes up nothing, however often it is done, and works beside a process that writes. Going on is asked for.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_core::typed_id::SessionId;
use windlass_runtime::{
    InProcessRuntimeBuilder, RuntimeBackends, SqliteOptions, SqliteStore, ToolSet, tool_fn,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The process that dies is this program again, with the data directory as its argument.
    if let Some(data) = std::env::args().nth(1) {
        return die_in_a_turn(Path::new(&data)).await;
    }
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    let died = Command::new(std::env::current_exe()?).arg(&data).status()?;
    println!("The first process is gone: {died}");
    look(&data).await?;
    go_on(&data).await
}

/// Its one tool brings the process down.
async fn die_in_a_turn(data: &Path) -> Result<(), Box<dyn Error>> {
    let session_id = SessionId::from_seed(1);
    let store = SqliteStore::open(SqliteOptions::new(data)).await?;
    let weigh = SimTurn::ToolCalls(vec![SimToolCall::new("weigh", json!({}))]);
    let runtime = on(&store, LlmSimConfig::scripted(vec![weigh]))
        .single_session(|session| {
            session
                .session_id(session_id)
                .harness("dock", "You work on a dock.")
                .agent("hoister", "You lift loads.")
                .harness_capability("scales")
        })
        .build()
        .await?;
    runtime
        .run_text_turn(session_id, "Weigh the crate.")
        .await?;
    Ok(())
}

async fn look(data: &Path) -> Result<(), Box<dyn Error>> {
    // A process that writes may be at work meanwhile: it is not disturbed.
    let store = SqliteStore::open_read_only(SqliteOptions::new(data)).await?;
    let model = LlmSimConfig::fixed("never asked");
    let runtime = on(&store, model).build().await?;
    for session_id in runtime.unfinished_sessions().await? {
        if let Some(turn) = runtime.open_turn(session_id).await? {
            let waiting = turn.pending.len();
            println!("A turn is open, and {waiting} of its calls wait for somebody");
        }
        for message in runtime.messages(session_id).await? {
            println!(
                "- {}: {}",
                message.role,
                message.text().unwrap_or("(a call)")
            );
        }
    }
    store.close().await;
    Ok(())
}

async fn go_on(data: &Path) -> Result<(), Box<dyn Error>> {
    let store = SqliteStore::open(SqliteOptions::new(data)).await?;
    let model = LlmSimConfig::fixed("The scales broke; I did not try again.");
    let runtime = on(&store, model).build().await?;
    for turn in runtime.resume_open_turns().await? {
        let result = turn.wait().await?;
        println!("It went on: {}", result.response);
    }
    // A stop in order, so that it counts as no crash of turns that are still open.
    runtime.shutdown(Duration::from_secs(10)).await;
    store.close().await;
    Ok(())
}

fn on(store: &SqliteStore, model: LlmSimConfig) -> InProcessRuntimeBuilder {
    let schema = json!({ "type": "object" });
    let weigh = tool_fn("weigh", "Weighs the load", schema, |_, _| async {
        std::process::exit(3);
        #[expect(unreachable_code, reason = "the type of the result")]
        Ok("never")
    });
    InProcessRuntimeBuilder::new()
        .backends(RuntimeBackends::on_sqlite(store))
        .capability(ToolSet::new("scales").tool(weigh))
        .llm_sim(model)
}
