//! An agent with a tool on a real model, whose answer is shown as it is written.
//!
//! `MODEL_KEY=… cargo run --example real_model -- [provider/model] [base URL]`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use serde_json::{Value, json};
use windlass_runtime::{Conversation, tool_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments
        .next()
        .unwrap_or_else(|| "anthropic/claude-haiku-4-5".to_owned());
    // The library reads no environment variable; a program may.
    let Ok(key) = std::env::var("MODEL_KEY") else {
        println!("Set MODEL_KEY to a key for {name}.");
        return Ok(());
    };
    let model = match arguments.next() {
        Some(url) => windlass_runtime::models::model_at(&name, key, url)?,
        None => windlass_runtime::models::model(&name, key)?,
    };

    let city = json!({
        "type": "object",
        "properties": { "city": { "type": "string" } },
        "required": ["city"]
    });
    let weather = tool_fn(
        "weather",
        "Tells the weather of a city",
        city,
        |args: Value, _| async move { Ok(format!("rain in {}", args["city"])) },
    );
    let mut chat = Conversation::builder()
        .model(model)
        .instructions("You advise travellers in one sentence.")
        .tool(weather)
        .start()
        .await?;
    let mut answer = chat.stream("I am off to Bergen. What do I pack?").await?;
    while let Some(piece) = answer.next().await {
        print!("{piece}");
    }
    let reply = answer.finish().await?;
    println!("\n({} calls of tools)", reply.turn.tool_calls_count);
    Ok(())
}
