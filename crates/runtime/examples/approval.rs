//! A tool that runs only after an approval.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::{Value, json};
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, tool_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({
        "type": "object",
        "properties": { "to": { "type": "string" }, "amount": { "type": "integer" } },
        "required": ["to", "amount"]
    });
    let pay = tool_fn(
        "pay",
        "Pays an amount",
        schema,
        |args: Value, _| async move {
            println!("[paid {} to {}]", args["amount"], args["to"]);
            Ok(json!({ "paid": true }))
        },
    );

    let call = |to, amount| SimToolCall::new("pay", json!({ "to": to, "amount": amount }));
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![call("Ada", 20), call("Mallory", 9000)]),
            SimTurn::Assistant("Ada has her 20; Mallory got nothing.".into()),
        ]))
        .tool(pay.requires_approval())
        .start()
        .await?;

    let mut reply = chat.say("Pay what is due.").await?;
    while let Some(call) = reply.pending.first().cloned() {
        let is_fine = call.arguments["amount"].as_i64() < Some(100);
        println!(
            "Pay {} to {}: {}",
            call.arguments["amount"],
            call.arguments["to"],
            if is_fine { "allowed" } else { "refused" }
        );
        reply = if is_fine {
            chat.approve(&call).await?
        } else {
            chat.refuse(&call).await?
        };
    }
    println!("{reply}");
    Ok(())
}
