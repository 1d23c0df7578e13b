//! Four wire APIs × what can happen. The name of each test says which of both.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::error::ErrorKind;
use windlass_core::llm_driver_registry::{LlmDriver, LlmStreamEvent, OutputSchema};
use windlass_core::message::{ContentPart, ImageContentPart, Message};
use windlass_core::tool_types::ToolCall;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{
    Got, KEY, api, ask, call, collect, config, driver, exchange, next, request, told, tools,
};

macro_rules! matrix {
    ($($case:ident),* $(,)?) => {
        matrix!(@of openai, OpenAi, $($case),*);
        matrix!(@of openai_chat, OpenAiChat, $($case),*);
        matrix!(@of anthropic, Anthropic, $($case),*);
        matrix!(@of gemini, Gemini, $($case),*);
    };
    (@of $module:ident, $wire:ident, $($case:ident),*) => {
        mod $module {
            use windlass_testkit::Wire;

            $(#[tokio::test]
            async fn $case() {
                super::$case(Wire::$wire).await;
            })*
        }
    };
}

matrix!(
    text,
    reasoning_round_trip,
    one_tool,
    parallel_tools,
    arguments_in_pieces,
    image,
    structured_output,
    usage,
    error_401,
    error_404,
    error_429_with_retry_after,
    error_500_then_success,
    overloaded,
    overloaded_in_the_stream,
    too_long,
    refused_by_filter,
    out_of_room,
    stall_before_the_stream,
    stall_in_the_stream,
    cut_stream,
    garbage,
    cancel_in_the_stream,
    cancel_before_the_stream,
    list_models,
    one_connection_serves_many_calls,
);

async fn text(wire: Wire) {
    let (got, sent) = told(wire, ask(wire), &Answer::text(&["Hel", "lö", ""])).await;
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

async fn reasoning_round_trip(wire: Wire) {
    let mut config = config(wire);
    config.reasoning_effort = Some("high".to_owned());
    config.tools = tools();
    let asked = Message::user("weather?");
    let answer = Answer::text(&["Let me see."])
        .with_thinking(&["I should ", "look."], "c2lnbmF0dXJl")
        .with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"]);
    let (got, _) = told(wire, request(config.clone(), vec![asked.clone()]), &answer).await;
    assert_eq!(got.thinking, "I should look.");
    assert_eq!(got.items.len(), 1, "{:?}", got.items);

    let said = got.message();
    let result = Message::tool_result("call_1", Some(json!("rain")), None);
    let history = vec![asked, said.clone(), result];
    let (_, sent) = told(
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

    // Another model would refuse what it did not make.
    config.model = "another-model".to_owned();
    let mut foreign = history;
    foreign[1].thinking_signature = None;
    let (_, sent) = told(wire, request(config, foreign), &Answer::text(&["Rain."])).await;
    let body = sent.json().to_string();
    assert!(
        !body.contains("c2lnbmF0dXJl") && !body.contains("I should look."),
        "{body}"
    );
}

async fn calls_of(wire: Wire, answer: &Answer) -> Got {
    let mut config = config(wire);
    config.tools = tools();
    let (got, sent) = told(
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

async fn one_tool(wire: Wire) {
    let answer = Answer::default().with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"]);
    let got = calls_of(wire, &answer).await;
    assert_eq!(
        got.calls,
        [tool_call("call_1", "weather", json!({ "place": "Oslo" }))]
    );
    assert_eq!(got.text(), "");
}

async fn parallel_tools(wire: Wire) {
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
    let (_, sent) = told(wire, request(config, history), &Answer::text(&["Done."])).await;
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

async fn arguments_in_pieces(wire: Wire) {
    let pieces = ["{\"pla", "ce\":\"Os", "", "lo \u{1f327}\"", "}"];
    let got = calls_of(
        wire,
        &Answer::default().with_call("call_1", "weather", &pieces),
    )
    .await;
    assert_eq!(got.calls[0].arguments, json!({ "place": "Oslo \u{1f327}" }));
}

async fn image(wire: Wire) {
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
    let (got, sent) = told(
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

async fn structured_output(wire: Wire) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let mut config = config(wire);
    config.output_schema = Some(OutputSchema {
        name: "number".to_owned(),
        schema: schema.clone(),
    });
    let answer = Answer::text(&["{\"n\"", ":1}"]);
    let (got, sent) = told(wire, request(config, vec![Message::user("one")]), &answer).await;
    assert_eq!(got.text(), "{\"n\":1}");
    let body = sent.json();
    let place = match wire {
        Wire::OpenAi => &body["text"]["format"]["schema"],
        Wire::OpenAiChat => &body["response_format"]["json_schema"]["schema"],
        Wire::Anthropic => &body["output_config"]["format"]["schema"],
        Wire::Gemini => &body["generationConfig"]["responseJsonSchema"],
    };
    assert_eq!(*place, schema, "{body:#}");
}

async fn usage(wire: Wire) {
    let (got, _) = told(wire, ask(wire), &Answer::text(&["x"])).await;
    let used = got.usage();
    assert_eq!((used.input_tokens, used.output_tokens), (14, 7));
    assert_eq!(used.cache_read_tokens, Some(3));
    assert_eq!(used.reasoning_tokens, Some(2));
    assert!(
        used.estimated_cost_usd.is_some_and(|cost| cost > 0.0),
        "{used:?}"
    );

    let mut unknown = config(wire);
    unknown.model = "nobody-knows-me".to_owned();
    let (got, _) = told(
        wire,
        request(unknown, vec![Message::user("x")]),
        &Answer::text(&["x"]),
    )
    .await;
    assert_eq!(got.usage().estimated_cost_usd, None);
}

/// Lets the provider answer with an error.
async fn refused(wire: Wire, status: u16, headers: &[(&str, &str)], body: &Value) -> Got {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let body = body.to_string();
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.answer(status, headers, &body).await
    })
    .await;
    assert_eq!(got.provider_error().status, Some(status));
    got
}

async fn error_401(wire: Wire) {
    let body = wire.error(401, &format!("Incorrect API key provided: {KEY}."));
    let got = refused(wire, 401, &[("x-request-id", "req_9")], &body).await;
    let error = got.provider_error();
    assert_eq!(error.kind, ErrorKind::Auth);
    let id = if wire == Wire::Anthropic {
        "req_1"
    } else {
        "req_9"
    };
    assert_eq!(error.request_id.as_deref(), Some(id));
    let shown = format!(
        "{} {:?} {:?}",
        error,
        error,
        driver(wire, "http://127.0.0.1:1")
    );
    assert!(
        shown.contains("Incorrect API key") && !shown.contains(KEY),
        "{shown}"
    );
}

async fn error_404(wire: Wire) {
    let got = refused(wire, 404, &[], &wire.error(404, "no such model")).await;
    assert_eq!(got.provider_error().kind, ErrorKind::ModelMissing);
    assert_eq!(got.provider_error().message, "no such model");
}

async fn error_429_with_retry_after(wire: Wire) {
    let got = refused(
        wire,
        429,
        &[("retry-after", "7")],
        &wire.error(429, "slow down"),
    )
    .await;
    let error = got.provider_error();
    assert_eq!(error.kind, ErrorKind::RateLimited);
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.code.is_some());
}

async fn error_500_then_success(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let body = wire.error(500, "oops").to_string();
    let (got, first) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.answer(500, &[], &body).await
    })
    .await;
    assert_eq!(got.provider_error().kind, ErrorKind::Server);
    assert!(got.error.unwrap().kind().is_transient());
    let events = wire.events(&Answer::text(&["fine"]));
    let (got, second) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    assert_eq!(got.text(), "fine");
    assert_eq!(first.json(), second.json());
}

async fn overloaded(wire: Wire) {
    let status = wire.overloaded();
    let got = refused(wire, status, &[], &wire.error(status, "busy")).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Overloaded);
    assert!(got.error.unwrap().kind().is_transient());
}

async fn overloaded_in_the_stream(wire: Wire) {
    let mut events = wire.events(&Answer::text(&["Hel", "lo"]));
    // Anything that ends the answer comes after the text.
    let at = events
        .iter()
        .position(|event| event.contains("\"lo\""))
        .unwrap();
    events.truncate(at);
    events.push(wire.error_event());
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    assert_eq!(got.text(), "Hel");
    assert_eq!(got.provider_error().kind, ErrorKind::Overloaded);
}

async fn too_long(wire: Wire) {
    let (status, body) = wire.too_long();
    let got = refused(wire, status, &[], &body).await;
    assert_eq!(got.provider_error().kind, ErrorKind::TooLarge);
    assert!(got.error.unwrap().is_request_too_large());
}

async fn refused_by_filter(wire: Wire) {
    let stop = match wire {
        Wire::OpenAi | Wire::OpenAiChat => "content_filter",
        Wire::Anthropic => "refusal",
        Wire::Gemini => "SAFETY",
    };
    let (got, _) = told(wire, ask(wire), &Answer::default().with_stop(stop)).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Refused);
    assert!(!got.error.unwrap().kind().is_transient());
    // What was said before stays said.
    let (got, _) = told(wire, ask(wire), &Answer::text(&["Once"]).with_stop(stop)).await;
    assert_eq!(
        (got.text().as_str(), got.finish_reason()),
        ("Once", "refusal")
    );
}

async fn out_of_room(wire: Wire) {
    let stop = match wire {
        Wire::OpenAi => "max_output_tokens",
        Wire::OpenAiChat => "length",
        Wire::Anthropic => "max_tokens",
        Wire::Gemini => "MAX_TOKENS",
    };
    let (got, _) = told(wire, ask(wire), &Answer::text(&["Once"]).with_stop(stop)).await;
    assert_eq!(
        (got.text().as_str(), got.finish_reason()),
        ("Once", "length")
    );
}

async fn stall_before_the_stream(wire: Wire) {
    for with_head in [false, true] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let stalled = tokio::spawn(async move { call(&driver, ask(wire)).await });
        let mut exchange = server.next().await;
        if with_head {
            exchange.begin_stream(&[]).await.unwrap();
        }
        // From here on time passes only while everybody waits.
        tokio::time::pause();
        let got = stalled.await.unwrap();
        assert_eq!(got.provider_error().kind, ErrorKind::Stalled);
        tokio::time::resume();
        exchange.closed().await;
    }
}

async fn stall_in_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let said = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    let provider = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        for event in &events[..=said] {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange
    };
    let (stream, mut exchange) = tokio::join!(driver.stream(ask(wire)), provider);
    let mut stream = stream.unwrap();
    let first = next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first, LlmStreamEvent::TextDelta("Hel".to_owned()));
    tokio::time::pause();
    let got = collect(Ok(stream)).await;
    assert_eq!(got.provider_error().kind, ErrorKind::Stalled);
    tokio::time::resume();
    exchange.closed().await;
}

async fn cut_stream(wire: Wire) {
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let said = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    for politely in [false, true] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let (got, _) = exchange(&driver, ask(wire), &mut server, async |mut exchange| {
            exchange.begin_stream(&[]).await?;
            for event in &events[..=said] {
                exchange.chunk(event.as_bytes()).await?;
            }
            exchange.chunk(&events[said + 1].as_bytes()[..20]).await?;
            if politely {
                exchange.finish().await
            } else {
                Ok(())
            }
        })
        .await;
        assert_eq!(got.text(), "Hel");
        assert_eq!(
            got.provider_error().kind,
            ErrorKind::BrokenStream,
            "{got:?}"
        );
    }
}

async fn garbage(wire: Wire) {
    for garbage in [
        "data: not json\n\n",
        "data: {\"a\":\n\n",
        "\u{0}\u{1}\n\n",
        "<html></html>",
    ] {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let events = [garbage.to_owned()];
        let (got, _) = exchange(&driver, ask(wire), &mut server, async |exchange| {
            exchange.stream(&events).await
        })
        .await;
        assert_eq!(
            got.provider_error().kind,
            ErrorKind::BrokenStream,
            "{garbage}"
        );
    }
}

/// How long a connection may take to be closed on a machine that is busy with other things.
const GENEROUS: Duration = Duration::from_secs(20);

async fn cancel_in_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(&Answer::text(&["Hel", "lo"]));
    let said = events
        .iter()
        .position(|event| event.contains("\"Hel\""))
        .unwrap();
    let provider = async {
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        for event in &events[..=said] {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange
    };
    let (stream, mut exchange) = tokio::join!(driver.stream(ask(wire)), provider);
    let mut stream = stream.unwrap();
    next(&mut stream).await.unwrap().unwrap();
    drop(stream);
    tokio::time::timeout(GENEROUS, exchange.closed())
        .await
        .unwrap();
}

async fn cancel_before_the_stream(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let calling = tokio::spawn(async move { call(&driver, ask(wire)).await });
    let mut exchange = server.next().await;
    calling.abort();
    tokio::time::timeout(GENEROUS, exchange.closed())
        .await
        .unwrap();
}

async fn list_models(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let pages = match wire {
        Wire::OpenAi | Wire::OpenAiChat => vec![json!({ "data": [{ "id": "a" }, { "id": "b" }] })],
        Wire::Anthropic => vec![
            json!({ "data": [{ "id": "a", "display_name": "A" }], "has_more": true, "last_id": "a" }),
            json!({ "data": [{ "id": "b" }], "has_more": false, "last_id": "b" }),
        ],
        Wire::Gemini => vec![
            json!({ "models": [{ "name": "models/a" }], "nextPageToken": "2" }),
            json!({ "models": [{ "name": "models/b" }] }),
        ],
    };
    let provider = async {
        let mut paths = Vec::new();
        for page in &pages {
            let exchange = server.next().await;
            paths.push(exchange.request.path.clone());
            exchange.answer(200, &[], &page.to_string()).await.unwrap();
        }
        paths
    };
    let (models, paths) = tokio::join!(driver.list_models(), provider);
    let models = models.unwrap().unwrap();
    let ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let expected: &[&str] = match wire {
        Wire::OpenAi | Wire::OpenAiChat => &["/v1/models"],
        Wire::Anthropic => &["/v1/models", "/v1/models?after_id=a"],
        Wire::Gemini => &["/v1beta/models", "/v1beta/models?pageToken=2"],
    };
    assert_eq!(paths, expected, "{}", api(wire));
}

async fn one_connection_serves_many_calls(wire: Wire) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(&Answer::text(&["x"]));
    let mut ports = HashSet::new();
    for _ in 0..10 {
        let (got, sent) = exchange(&driver, ask(wire), &mut server, async |exchange| {
            exchange.stream_at_once(&events).await
        })
        .await;
        assert_eq!(got.text(), "x");
        ports.insert(sent.client_port);
    }
    assert!(ports.len() < 10, "{ports:?}");
}
