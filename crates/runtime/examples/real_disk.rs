//! An agent that works on files in a directory of the host.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use serde_json::json;
use windlass_runtime::{
    Conversation, LlmSimConfig, RealDiskFileStore, RuntimeBackends, SimToolCall, SimTurn,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("shopping.txt"), "milk\nbread\n")?;

    let files = Arc::new(RealDiskFileStore::new(directory.path())?);
    let edit = json!({ "path": "/shopping.txt", "old_string": "bread", "new_string": "rye bread" });
    let escape = json!({ "path": "/../etc/passwd" });
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new("edit_file", edit)]),
            SimTurn::ToolCalls(vec![SimToolCall::new("read_file", escape)]),
            SimTurn::Assistant("The list says rye bread now.".into()),
        ]))
        .backends(RuntimeBackends::in_memory().with_file_system(files))
        .capability("session_file_system")
        .start()
        .await?;

    let reply = chat.say("We want rye bread.").await?;
    println!("{reply}");
    println!(
        "On disk: {:?}",
        std::fs::read_to_string(directory.path().join("shopping.txt"))?
    );
    for message in chat.messages().await? {
        if let Some(error) = message
            .tool_result_content()
            .and_then(|result| result.error.as_ref())
        {
            println!("Refused: {error}");
        }
    }
    Ok(())
}
