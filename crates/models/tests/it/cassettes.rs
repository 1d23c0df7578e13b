//! Recording and playing cassettes.

use std::sync::Arc;

use windlass_core::error::ErrorKind;
use windlass_core::llm_driver_registry::LlmDriver;
use windlass_core::message::Message;
use windlass_models::cassette::{CassetteDriver, CassetteError, Matching, RecordingDriver};
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{CollectedAnswer, KEY, ask, call, config, driver, exchange, request, tools};

fn same(a: &CollectedAnswer, b: &CollectedAnswer) {
    let shape = |got: &CollectedAnswer| {
        format!(
            "{:?} {} {:?} {:?} {:?}",
            got.pieces, got.thinking, got.items, got.calls, got.done
        )
    };
    assert_eq!(shape(a), shape(b));
}

#[tokio::test]
async fn recording_plays_back_identically_without_the_provider() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.jsonl");
    let wire = Wire::Anthropic;
    let mut server = FakeServer::start().await.unwrap();
    let inner: Arc<dyn LlmDriver> = Arc::new(driver(wire, &server.url()));
    let recorder = RecordingDriver::new(inner, &file, [KEY.to_owned()]).unwrap();

    let answer = Answer::text(&["Let me ", "see."])
        .with_thinking(&["hm"], "c2ln")
        .with_call("call_1", "weather", &["{\"place\":\"Oslo\"}"]);
    let events = wire.events(&answer);
    let mut with_tools = config(wire);
    with_tools.tools = tools();
    // A key that occurs in the conversation is masked too.
    let weather = request(with_tools, vec![Message::user(format!("weather? {KEY}"))]);
    let (first, _) = exchange(&recorder, weather.clone(), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    let body = wire.error(429, "slow").to_string();
    let (second, _) = exchange(&recorder, ask(wire), &mut server, async |exchange| {
        exchange.answer(429, &[("retry-after", "3")], &body).await
    })
    .await;

    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().count(), 2);
    assert!(
        !written.contains(KEY) && !written.contains("x-api-key"),
        "{written}"
    );

    let player = CassetteDriver::open(&file, Matching::InOrder).unwrap();
    same(&call(&player, weather).await, &first);
    let limited = call(&player, ask(wire)).await;
    assert_eq!(limited.provider_error(), second.provider_error());
    assert_eq!(player.left(), 0);
}

#[tokio::test]
async fn unrecorded_request_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.jsonl");
    let wire = Wire::OpenAi;
    let mut server = FakeServer::start().await.unwrap();
    let inner: Arc<dyn LlmDriver> = Arc::new(driver(wire, &server.url()));
    let recorder = RecordingDriver::new(inner, &file, []).unwrap();
    let events = wire.events(&Answer::text(&["hi"]));
    let (_, _) = exchange(&recorder, ask(wire), &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await;
    let player = CassetteDriver::open(&file, Matching::SameRequest).unwrap();
    let other = request(config(wire), vec![Message::user("something else")]);
    let error = call(&player, other).await.error.unwrap();
    assert_eq!(error.kind(), ErrorKind::Other);
    assert!(error.to_string().contains("/messages/1/content"), "{error}");
    assert_eq!(call(&player, ask(wire)).await.text(), "hi");
    let error = call(&player, ask(wire)).await.error.unwrap();
    assert!(error.to_string().contains("none is left"), "{error}");
}

#[test]
fn unplayable_cassette_reports_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.jsonl");
    let open = |text: &str| {
        std::fs::write(&file, text).unwrap();
        CassetteDriver::open(&file, Matching::InOrder).unwrap_err()
    };
    assert!(matches!(
        open("\nnonsense"),
        CassetteError::Line { line: 2, .. }
    ));
    assert!(matches!(
        open("{\"v\":9}"),
        CassetteError::Version {
            line: 1,
            version: 9
        }
    ));
    std::fs::remove_file(&file).unwrap();
    let missing = CassetteDriver::open(&file, Matching::InOrder).unwrap_err();
    assert!(matches!(missing, CassetteError::Read(_)));
}
