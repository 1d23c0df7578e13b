//! Approvals that wait over restarts: one process asks, a later one lists what waits in all conversations and decides.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;

use serde_json::{Value, json};
use windlass_runtime::{
    Conversation, ConversationBuilder, LlmSimConfig, SimToolCall, SimTurn, tool_fn,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");

    for (name, amount) in [("Ada", 20), ("Mallory", 9000)] {
        let call = SimToolCall::new("pay", json!({ "to": name, "amount": amount }));
        let model = LlmSimConfig::scripted(vec![SimTurn::ToolCalls(vec![call])]);
        let mut chat = clerk(&data, model).named(name).start().await?;
        let reply = chat.say("Pay what is due.").await?;
        println!("{name}: {} call waits", reply.pending.len());
        chat.close().await;
    }

    // Later, in another process.
    let chats = clerk(&data, LlmSimConfig::fixed("Done.")).open().await?;
    let mut pending = chats.pending().await?;
    pending.sort_by_key(|(_, call)| call.arguments["amount"].as_i64());
    for (session_id, call) in pending {
        let mut chat = chats.get(session_id).await?;
        let is_fine = call.arguments["amount"].as_i64() < Some(100);
        let reply = if is_fine {
            chat.approve(&call).await?
        } else {
            chat.refuse(&call).await?
        };
        let verdict = if is_fine { "allowed" } else { "refused" };
        println!("{} {verdict}: {reply}", call.arguments);
    }
    assert!(chats.pending().await?.is_empty());
    chats.close().await;
    Ok(())
}

fn clerk(data: &Path, model: LlmSimConfig) -> ConversationBuilder {
    let schema = json!({ "type": "object", "required": ["to", "amount"] });
    let pay = tool_fn("pay", "Pays", schema, |args: Value, _| async move {
        println!("[paid {} to {}]", args["amount"], args["to"]);
        Ok("paid")
    });
    Conversation::builder()
        .simulator(model)
        .tool(pay.requires_approval())
        .on_disk(data)
}
