//! A tool made of an async closure.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use serde_json::{Value, json};
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, tool_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" } },
        "required": ["city"]
    });
    let weather = tool_fn(
        "weather",
        "Tells the weather in a city",
        schema,
        |args: Value, ctx| async move {
            let city = args["city"].as_str().ok_or("`city` must be a text")?;
            ctx.emit_progress("weather", "looking out of the window")
                .await;
            println!("[the tool looks up {city}]");
            match city {
                "Bergen" => Ok(json!({ "sky": "rain", "celsius": 9 })),
                other => Err(format!("no station in {other}").into()),
            }
        },
    );

    let ask = |city| SimTurn::ToolCalls(vec![SimToolCall::new("weather", json!({ "city": city }))]);
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            ask("Atlantis"),
            ask("Bergen"),
            SimTurn::Assistant("The weather of Atlantis is unknown; in Bergen it rains.".into()),
        ]))
        .tool(weather.read_only())
        .start()
        .await?;

    let reply = chat
        .say("How is the weather in Atlantis and Bergen?")
        .await?;
    println!("{reply}");
    Ok(())
}
