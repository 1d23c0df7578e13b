//! Answers: text, reasoning, calls, images, usage.

use serde_json::{Value, json};
use windlass_core::llm_driver_registry::{LlmCallConfig, OutputSchema};
use windlass_core::message::{ContentPart, ImageContentPart, Message};
use windlass_core::tool_types::ToolCall;
use windlass_testkit::{Answer, Wire};

use crate::support::{CollectedAnswer, ask, config, exchange_answer, request, tools};

pub(super) async fn text(wire: Wire) {
    let (got, sent) = exchange_answer(wire, ask(wire), &Answer::text(&["Hel", "lö", ""])).await;
    assert_eq!(got.pieces, ["Hel", "lö"]);
    assert_eq!(got.finish_reason(), "stop");
    let done = got.done.unwrap();
    assert_eq!(done.model.as_deref(), Some("fake-1"));
    assert!(done.response_id.is_some());
    let body = sent.json().to_string();
    assert!(
        body.contains("hello") && body.contains("Be brief."),
        "{body}"
    );
}

pub(super) async fn reasoning_round_trip(wire: Wire) {
    let mut config = config(wire);
    config.reasoning_effort = Some("high".to_owned());
    config.tools = tools();
    let question = Message::user("weather?");
    let answer = Answer::text(&["Let me see."])
        .with_thinking(&["I should ", "look."], "c2lnbmF0dXJl")
        .with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"]);
    let (got, _) = exchange_answer(
        wire,
        request(config.clone(), vec![question.clone()]),
        &answer,
    )
    .await;
    assert_eq!(got.thinking, "I should look.");
    assert_eq!(got.items.len(), 1, "{:?}", got.items);

    let message = got.message();
    let result = Message::tool_result("call_1", Some(json!("rain")), None);
    let history = vec![question, message.clone(), result];
    let (_, sent) = exchange_answer(
        wire,
        request(config.clone(), history.clone()),
        &Answer::text(&["Rain."]),
    )
    .await;
    let body = sent.json();
    let (place, expected) = match wire {
        Wire::OpenAi => (
            &body["input"][1],
            json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "c2lnbmF0dXJl",
                "summary": [{ "type": "summary_text", "text": "I should look." }] }),
        ),
        Wire::OpenAiChat => (
            &body["messages"][2]["reasoning_content"],
            json!("I should look."),
        ),
        Wire::Anthropic => (
            &body["messages"][1]["content"][0],
            json!({ "type": "thinking", "thinking": "I should look.", "signature": "c2lnbmF0dXJl" }),
        ),
        Wire::Gemini => (
            &body["contents"][1]["parts"][1]["thoughtSignature"],
            json!("c2lnbmF0dXJl"),
        ),
    };
    assert_eq!(*place, expected, "{body:#}");

    // A model refuses reasoning of another model.
    config.model = "another-model".to_owned();
    let mut foreign = history;
    foreign[1].thinking_signature = None;
    let (_, sent) =
        exchange_answer(wire, request(config, foreign), &Answer::text(&["Rain."])).await;
    let body = sent.json().to_string();
    assert!(
        !body.contains("c2lnbmF0dXJl") && !body.contains("I should look."),
        "{body}"
    );
}

async fn calls_of(wire: Wire, answer: &Answer) -> CollectedAnswer {
    let mut config = config(wire);
    config.tools = tools();
    let (got, sent) = exchange_answer(
        wire,
        request(config, vec![Message::user("weather?")]),
        answer,
    )
    .await;
    let body = sent.json();
    let offered = match wire {
        Wire::OpenAi | Wire::Anthropic => &body["tools"][0]["name"],
        Wire::OpenAiChat => &body["tools"][0]["function"]["name"],
        Wire::Gemini => &body["tools"][0]["functionDeclarations"][0]["name"],
    };
    assert_eq!(offered, "weather");
    assert_eq!(got.finish_reason(), "tool_calls");
    got
}

fn tool_call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

pub(super) async fn one_tool(wire: Wire) {
    let answer = Answer::default().with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"]);
    let got = calls_of(wire, &answer).await;
    assert_eq!(
        got.calls,
        [tool_call("call_1", "weather", json!({ "place": "Oslo" }))]
    );
    assert_eq!(got.text(), "");
}

pub(super) async fn parallel_tools(wire: Wire) {
    let answer = Answer::text(&["Both."])
        .with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"])
        .with_call("call_2", "time", &["{\"place\":\"Rome\"}"]);
    let got = calls_of(wire, &answer).await;
    let expected = [
        tool_call("call_1", "weather", json!({ "place": "Oslo" })),
        tool_call("call_2", "time", json!({ "place": "Rome" })),
    ];
    assert_eq!(got.calls, expected);
    assert_eq!(got.text(), "Both.");

    let mut config = config(wire);
    config.tools = tools();
    let history = vec![
        Message::user("weather?"),
        got.message(),
        Message::tool_result("call_1", Some(json!({ "sky": "grey" })), None),
        Message::tool_result("call_2", None, Some("no clock".to_owned())),
        Message::user("and now?"),
    ];
    let (_, sent) =
        exchange_answer(wire, request(config, history), &Answer::text(&["Done."])).await;
    let body = sent.json();
    let answered = match wire {
        Wire::OpenAi => [&body["input"][4]["call_id"], &body["input"][5]["call_id"]],
        Wire::OpenAiChat => [
            &body["messages"][3]["tool_call_id"],
            &body["messages"][4]["tool_call_id"],
        ],
        Wire::Anthropic => {
            let content = &body["messages"][2]["content"];
            assert_eq!(content[1]["is_error"], true);
            assert_eq!(content[2]["text"], "and now?");
            [&content[0]["tool_use_id"], &content[1]["tool_use_id"]]
        }
        Wire::Gemini => {
            let parts = &body["contents"][2]["parts"];
            assert_eq!(parts[1]["functionResponse"]["name"], "time");
            assert_eq!(body["contents"][3]["parts"][0]["text"], "and now?");
            [
                &parts[0]["functionResponse"]["id"],
                &parts[1]["functionResponse"]["id"],
            ]
        }
    };
    assert_eq!(answered, ["call_1", "call_2"], "{body:#}");
}

pub(super) async fn arguments_in_pieces(wire: Wire) {
    let pieces = ["{\"pla", "ce\":\"Os", "", "lo \u{1f327}\"", "}"];
    let got = calls_of(
        wire,
        &Answer::default().with_call("call_1", "weather", &pieces),
    )
    .await;
    assert_eq!(got.calls[0].arguments, json!({ "place": "Oslo \u{1f327}" }));
}

pub(super) async fn image(wire: Wire) {
    let mut message = Message::user("what is it?");
    message.content.push(ContentPart::Image(ImageContentPart {
        url: None,
        base64: Some("aW1hZ2U=".to_owned()),
        media_type: Some("image/jpeg".to_owned()),
    }));
    let by_url = "https://images.example/cat.png".to_owned();
    message.content.push(ContentPart::Image(ImageContentPart {
        url: Some(by_url.clone()),
        ..ImageContentPart::default()
    }));
    let (got, sent) = exchange_answer(
        wire,
        request(config(wire), vec![message]),
        &Answer::text(&["A cat."]),
    )
    .await;
    assert_eq!(got.text(), "A cat.");
    let body = sent.json();
    let data_url = json!("data:image/jpeg;base64,aW1hZ2U=");
    let (places, expected) = match wire {
        Wire::OpenAi => {
            let parts = &body["input"][0]["content"];
            ([&parts[1]["image_url"], &parts[2]["image_url"]], data_url)
        }
        Wire::OpenAiChat => {
            let parts = &body["messages"][1]["content"];
            (
                [&parts[1]["image_url"]["url"], &parts[2]["image_url"]["url"]],
                data_url,
            )
        }
        Wire::Anthropic => {
            let parts = &body["messages"][0]["content"];
            let source =
                json!({ "type": "base64", "media_type": "image/jpeg", "data": "aW1hZ2U=" });
            ([&parts[1]["source"], &parts[2]["source"]["url"]], source)
        }
        Wire::Gemini => {
            let parts = &body["contents"][0]["parts"];
            let data = json!({ "mimeType": "image/jpeg", "data": "aW1hZ2U=" });
            (
                [&parts[1]["inlineData"], &parts[2]["fileData"]["fileUri"]],
                data,
            )
        }
    };
    assert_eq!(places, [&expected, &json!(by_url)], "{body:#}");
}

/// Returns the body of a request with an output schema, and the JSON pointer of the schema.
async fn with_schema(wire: Wire, config: LlmCallConfig, schema: &Value) -> (Value, Value) {
    let config = LlmCallConfig {
        output_schema: Some(OutputSchema {
            name: "number".to_owned(),
            schema: schema.clone(),
        }),
        ..config
    };
    let answer = Answer::text(&["{\"n\"", ":1}"]);
    let (got, sent) =
        exchange_answer(wire, request(config, vec![Message::user("one")]), &answer).await;
    assert_eq!(got.text(), "{\"n\":1}");
    let body = sent.json();
    let place = match wire {
        Wire::OpenAi => &body["text"]["format"]["schema"],
        Wire::OpenAiChat => &body["response_format"]["json_schema"]["schema"],
        Wire::Anthropic => &body["output_config"]["format"]["schema"],
        Wire::Gemini => &body["generationConfig"]["responseJsonSchema"],
    };
    (place.clone(), body)
}

pub(super) async fn structured_output(wire: Wire) {
    let strict = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        "additionalProperties": false });
    let loose = json!({ "type": "object", "properties": { "n": { "minimum": 0 } } });
    let list = json!({ "type": "array", "items": { "type": "integer" } });
    let is_openai = matches!(wire, Wire::OpenAi | Wire::OpenAiChat);
    for (schema, is_strict, is_sent) in [
        (&strict, true, true),
        (&loose, false, wire != Wire::Anthropic),
        (&list, false, wire == Wire::Gemini),
    ] {
        let (sent, body) = with_schema(wire, config(wire), schema).await;
        let expected = if is_sent { schema } else { &Value::Null };
        assert_eq!(sent, *expected, "{body:#}");
        let flag = match wire {
            Wire::OpenAi => &body["text"]["format"]["strict"],
            _ => &body["response_format"]["json_schema"]["strict"],
        };
        if is_openai && is_sent {
            assert_eq!(*flag, is_strict, "{body:#}");
        }
    }
    let old = match wire {
        Wire::OpenAi | Wire::OpenAiChat => return,
        Wire::Anthropic => "claude-3-7-sonnet-latest",
        Wire::Gemini => "gemini-2.5-flash",
    };
    let tools = LlmCallConfig {
        model: old.to_owned(),
        tools: tools(),
        ..config(wire)
    };
    let (sent, body) = with_schema(wire, tools, &strict).await;
    assert_eq!(sent, Value::Null, "{body:#}");
}

pub(super) async fn usage(wire: Wire) {
    let (got, _) = exchange_answer(wire, ask(wire), &Answer::text(&["x"])).await;
    let used = got.usage();
    assert_eq!((used.input_tokens, used.output_tokens), (14, 7));
    assert_eq!(used.cache_read_tokens, Some(3));
    assert_eq!(used.reasoning_tokens, Some(2));
    assert!(
        used.estimated_cost_usd.is_some_and(|cost| cost > 0.0),
        "{used:?}"
    );

    let mut unknown = config(wire);
    unknown.model = "unknown-model".to_owned();
    let (got, _) = exchange_answer(
        wire,
        request(unknown, vec![Message::user("x")]),
        &Answer::text(&["x"]),
    )
    .await;
    assert_eq!(got.usage().estimated_cost_usd, None);
}
