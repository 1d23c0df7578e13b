//! An agent with one tool and a simulated model: no key, no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What the simulated model will say; a real one needs no script.
    let script = LlmSimConfig::scripted(vec![
        SimTurn::ToolCalls(vec![SimToolCall::new("add", json!({ "a": 2, "b": 3 }))]),
        SimTurn::Assistant("2 and 3 make 5.".into()),
    ]);

    let mut chat = Conversation::builder()
        .simulator(script)
        .instructions("You calculate with your tools.")
        .capability("test_math")
        .start()
        .await?;

    let reply = chat.say("What do 2 and 3 make?").await?;
    println!("{reply} (tool calls: {})", reply.turn.tool_calls_count);
    Ok(())
}
