//! A program that looks at the conversations of another one, which is at work meanwhile, and touches nothing.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;

use serde_json::json;
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, client_tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");

    let ask = client_tool("ask", "Asks the user", json!({ "type": "object" }));
    let mut writer = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new("ask", json!({ "what": "colour" }))]),
            SimTurn::Assistant("Blue it is.".into()),
        ]))
        .client_tool(ask)
        .on_disk(&data)
        .named("boat")
        .start()
        .await?;
    let waiting = writer.say("Paint my boat.").await?;

    // Another program may do this at any time: no turn is resumed, and nothing counts as a crash.
    look(&data).await?;
    writer.answer(&waiting.pending[0], "blue").await?;
    look(&data).await?;
    writer.close().await;
    Ok(())
}

async fn look(data: &Path) -> Result<(), Box<dyn Error>> {
    // Below, this is `SqliteStore::open_read_only`.
    let chats = Conversation::builder()
        .on_disk_read_only(data)
        .open()
        .await?;
    for session in chats.list().await? {
        let title = session.title.unwrap_or_default();
        let chat = chats.get(session.id).await?;
        println!("{title}: {} messages", chat.messages().await?.len());
        for call in chat.pending().await? {
            println!("  waits: {} {}", call.name, call.arguments);
        }
    }
    chats.close().await;
    Ok(())
}
