//! Tools and answers whose shape is a Rust type: `cargo run -p windlass-runtime --features typed-tools --example typed_output`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass_runtime::{Conversation, LlmSimConfig, SimToolCall, SimTurn, typed_tool};

#[derive(Deserialize, JsonSchema)]
struct CityQuery {
    /// The country to look in, as its English name.
    country: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct City {
    name: String,
    population: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lookup = typed_tool(
        "largest_city",
        "Finds the largest city of a country",
        |query: CityQuery| async move {
            match query.country.as_str() {
                "Norway" => Ok(json!({ "city": "Oslo", "inhabitants": 717_710 })),
                other => Err(format!("no figures for {other}").into()),
            }
        },
    );

    // A real model needs no script; this one first gives an answer that does not fit, and is asked again.
    let mut chat = Conversation::builder()
        .simulator(LlmSimConfig::scripted(vec![
            SimTurn::ToolCalls(vec![SimToolCall::new(
                "largest_city",
                json!({ "country": "Norway" }),
            )]),
            SimTurn::Assistant("Oslo, of course!".into()),
            SimTurn::Assistant(
                "```json\n{ \"name\": \"Oslo\", \"population\": 717710 }\n```".into(),
            ),
        ]))
        .tool(lookup)
        .start()
        .await?;

    let city: City = chat.ask_for("Which is the largest city of Norway?").await?;
    println!("{} has {} inhabitants.", city.name, city.population);
    Ok(())
}
