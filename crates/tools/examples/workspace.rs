//! An agent that changes files of a directory, after approval by the user.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::json;
use windlass_core::llmsim_driver::{LlmSimConfig, SimToolCall, SimTurn};
use windlass_runtime::Conversation;
use windlass_tools::{Environment, Environments, FilesCapability, Policy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("shopping.txt"), "milk\nbread\n")?;

    let local = Environment::new("local", directory.path(), Policy::default())?;
    let environments = Environments::with_default(local);
    let edit = json!({ "path": "shopping.txt", "old_string": "bread", "new_string": "rye bread" });
    let escape = json!({ "path": "../elsewhere.txt", "content": "x" });
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new("edit", edit)]),
            SimTurn::ToolCalls(vec![SimToolCall::new("write", escape)]),
            SimTurn::Assistant("The list says rye bread now.".into()),
        ]))
        .add_capability(FilesCapability::new(environments))
        .start()
        .await?;

    let mut reply = chat.say("We want rye bread.").await?;
    while let Some(call) = reply.pending.first().cloned() {
        println!("May it {} {}? Yes.", call.name, call.arguments);
        reply = chat.approve(&call).await?;
        let messages = chat.messages().await?;
        let newest = messages
            .iter()
            .rev()
            .find_map(|message| message.tool_result_content());
        if let Some(result) = newest {
            let diff = result
                .result
                .as_ref()
                .and_then(|result| result["diff"].as_str());
            let shown = result.error.as_deref().or(diff).unwrap_or_default();
            println!("{}", shown.trim_end());
        }
    }
    println!("{reply}");
    Ok(())
}
