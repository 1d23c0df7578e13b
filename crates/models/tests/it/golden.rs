//! Complete requests of a conversation with all features.

use serde_json::{Value, json};
use windlass_core::llm_driver_registry::{OutputSchema, PromptCacheConfig};
use windlass_core::message::{ContentPart, ImageContentPart, Message};
use windlass_testkit::{Answer, Request, Wire};

use crate::support::{KEY, config, exchange_answer, request, tools};

/// A first answer with thinking, text and two calls, and then the request that contains it with the results.
async fn second_request(wire: Wire) -> Value {
    let mut config = config(wire);
    config.tools = tools();
    config.reasoning_effort = Some("high".to_owned());
    config.temperature = Some(0.5);
    config.max_tokens = Some(9_000);
    config.prompt_cache = Some(PromptCacheConfig {
        key: Some("cache-key".to_owned()),
    });
    config.output_schema = Some(OutputSchema {
        name: "report".to_owned(),
        schema: json!({ "type": "object", "properties": { "sky": { "type": "string" } }, "required": ["sky"],
            "additionalProperties": false }),
    });
    let picture = || {
        ContentPart::Image(ImageContentPart {
            url: None,
            base64: Some("aW1hZ2U=".to_owned()),
            media_type: Some("image/png".to_owned()),
        })
    };
    let mut question = Message::user("What is the weather here?");
    question.content.push(picture());
    let answer = Answer::text(&["Let me ", "see."])
        .with_thinking(&["Two places."], "c2lnbmF0dXJl")
        .with_call("call_1", "weather", &["{\"place\":", "\"Oslo\"}"])
        .with_call("call_2", "time", &["{}"]);
    let (got, _) = exchange_answer(
        wire,
        request(config.clone(), vec![question.clone()]),
        &answer,
    )
    .await;
    let mut result = Message::tool_result("call_1", Some(json!({ "sky": "grey" })), None);
    result.content.push(picture());
    let history = vec![
        question,
        got.message(),
        result,
        Message::tool_result(
            "call_2",
            None,
            Some("\"place\" is a required property".to_owned()),
        ),
        Message::system("It is late."),
        Message::user("Hurry."),
        // An empty message, which providers would refuse.
        Message::assistant(""),
    ];
    let (_, sent) =
        exchange_answer(wire, request(config, history), &Answer::text(&["Grey."])).await;
    shown(&sent)
}

/// A request without varying values, and with its key masked.
fn shown(request: &Request) -> Value {
    let headers = request
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "host" | "content-length" | "user-agent"));
    let headers = headers.map(|(name, value)| format!("{name}: {}", value.replace(KEY, "[key]")));
    json!({
        "request": format!("{} {}", request.method, request.path),
        "headers": headers.collect::<Vec<_>>(),
        "body": request.json(),
    })
}

#[tokio::test]
async fn openai_request() {
    insta::assert_json_snapshot!(second_request(Wire::OpenAi).await);
}

#[tokio::test]
async fn openai_chat_request() {
    insta::assert_json_snapshot!(second_request(Wire::OpenAiChat).await);
}

#[tokio::test]
async fn anthropic_request() {
    insta::assert_json_snapshot!(second_request(Wire::Anthropic).await);
}

#[tokio::test]
async fn gemini_request() {
    insta::assert_json_snapshot!(second_request(Wire::Gemini).await);
}
