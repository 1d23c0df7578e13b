//! Cancels a running turn and continues the same conversation.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, tool_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({ "type": "object" });
    let measure = tool_fn("measure", "Measures the Earth", schema, |_, _| async {
        std::future::pending::<()>().await;
        Ok("never")
    });
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::Mixed {
                text: "Let me measure.".into(),
                tool_calls: vec![SimToolCall::new("measure", json!({}))],
            },
            SimTurn::Assistant("Yes.".into()),
        ]))
        .tool(measure)
        .start()
        .await?;

    let mut answer = chat.stream("Is the Earth round?").await?;
    if let Some(piece) = answer.next().await {
        println!("It begins: {piece}");
    }
    let stopped = answer.cancel().await?;
    println!("Stopped: {:?}", stopped.turn.stop_reason);

    let reply = chat.say("Never mind the measuring. Is it?").await?;
    println!("Then: {reply}");
    for message in chat.messages().await? {
        println!(
            "- {}: {}",
            message.role,
            message.text().unwrap_or("(no text)")
        );
    }
    Ok(())
}
