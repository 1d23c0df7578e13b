//! An agent with one tool and a simulated model: no key, no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_runtime::InProcessRuntimeBuilder;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = InProcessRuntimeBuilder::new()
        .llm_sim(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new("add", json!({ "a": 2, "b": 3 }))]),
            SimTurn::Assistant("2 and 3 make 5.".into()),
        ]))
        .single_session(|session| {
            session
                .agent("calculator", "You calculate with your tools.")
                .with_capability("test_math")
        })
        .build()
        .await?;
    let session = runtime
        .default_session_id()
        .ok_or("single_session makes a session")?;

    let turn = runtime
        .run_text_turn(session, "What do 2 and 3 make?")
        .await?;
    println!("{} (tool calls: {})", turn.response, turn.tool_calls_count);
    Ok(())
}
