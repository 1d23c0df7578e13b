//! A process that dies in the middle of a turn, and another that resumes the turn.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use windlass_runtime::{
    Conversation, ConversationBuilder, LlmSimConfig, SimToolCall, SimTurn, tool_fn,
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
    resume(&data).await
}

async fn die_in_a_turn(data: &Path) -> Result<(), Box<dyn Error>> {
    let weigh = SimTurn::ToolCalls(vec![SimToolCall::new("weigh", json!({}))]);
    let mut chat = hoister(data, LlmSimConfig::scripted(vec![weigh]))
        .start()
        .await?;
    chat.say("Weigh the crate.").await?;
    Ok(())
}

async fn resume(data: &Path) -> Result<(), Box<dyn Error>> {
    let model = LlmSimConfig::fixed("The scales broke; I did not try again.");
    let mut chat = hoister(data, model).start().await?;
    // The turn resumes only on request. The call may have had its effect, so it is not repeated, and the model receives an error.
    if let Some(reply) = chat.resume().await? {
        println!("Resumed: {reply}");
    }
    // A stop in order, so that it counts as no crash of a turn that is still open.
    chat.close().await;
    Ok(())
}

/// The same conversation in every process, with a tool that brings the process down.
fn hoister(data: &Path, model: LlmSimConfig) -> ConversationBuilder {
    let schema = json!({ "type": "object" });
    let weigh = tool_fn("weigh", "Weighs the load", schema, |_, _| async {
        std::process::exit(3);
        #[expect(unreachable_code, reason = "the type of the result")]
        Ok("never")
    });
    Conversation::builder()
        .simulator(model)
        .instructions("You lift loads.")
        .tool(weigh)
        .on_disk(data)
        .named("the crate")
}
