//! A tool that the program around the agent runs itself: the turn waits for its result.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, client_tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({
        "type": "object",
        "properties": { "question": { "type": "string" } },
        "required": ["question"]
    });
    let question = json!({ "question": "Red or blue?" });
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new("ask_user", question)]),
            SimTurn::Assistant("Blue it is.".into()),
        ]))
        .client_tool(client_tool(
            "ask_user",
            "Asks the person at the screen",
            schema,
        ))
        .start()
        .await?;

    let reply = chat.say("Paint my boat.").await?;
    println!("The turn waits: {:?}", reply.turn.stop_reason);
    let call = reply.pending.first().ok_or("a call waits")?;
    println!("Agent asks: {}", call.arguments["question"]);

    // The turn continues from here, however long this takes; with a durable runtime also after a restart.
    let reply = chat.answer(call, "blue").await?;
    println!("{reply}");
    Ok(())
}
