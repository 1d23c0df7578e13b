//! One exchange per API, byte by byte, between these drivers and an independent
//! fake: `<api>.request.http` and `<api>.response.http`.

use std::path::PathBuf;

use serde_json::{Value, json};
use windlass_core::llm_driver_registry::LlmRequest;
use windlass_core::message::Message;
use windlass_testkit::{FakeServer, Wire};

use crate::support::{api, config, driver, exchange, request, tools};

fn fixture(wire: Wire, side: &str) -> Vec<u8> {
    let file = format!("{}.{side}.http", api(wire));
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read(folder.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

pub(crate) fn weather(wire: Wire) -> LlmRequest {
    let mut config = config(wire);
    config.tools = tools();
    config.reasoning_effort = Some("low".to_owned());
    request(config, vec![Message::user("What is the weather in Oslo?")])
}

/// Returns the first line and the body of a request.
fn parts(raw: &[u8]) -> (String, Value) {
    let text = String::from_utf8(raw.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let line = head.lines().next().unwrap().to_owned();
    (line, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn stored_exchange_is_reproduced() {
    for wire in Wire::ALL {
        let mut server = FakeServer::start().await.unwrap();
        let driver = driver(wire, &server.url());
        let answer = fixture(wire, "response");
        let (got, sent) = exchange(&driver, weather(wire), &mut server, async |exchange| {
            exchange.raw(&answer).await
        })
        .await;
        let (line, body) = parts(&fixture(wire, "request"));
        assert_eq!(format!("{} {} HTTP/1.1", sent.method, sent.path), line);
        assert_eq!(sent.json(), body, "{wire:?}");

        assert_eq!(got.text(), "Let me see.", "{wire:?}");
        assert_eq!(got.calls.len(), 1);
        assert_eq!(got.calls[0].name, "weather");
        assert_eq!(got.calls[0].arguments, json!({ "place": "Oslo" }));
        assert_eq!(got.finish_reason(), "tool_calls");
        let thought = if wire == Wire::OpenAiChat {
            ""
        } else {
            "Where is it?"
        };
        assert_eq!(got.thinking, thought, "{wire:?}");
        assert_eq!(got.usage().input_tokens, 14);
    }
}
