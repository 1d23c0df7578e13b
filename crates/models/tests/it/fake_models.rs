//! The drivers against an independent fake. `cargo xtask fake-models` runs these tests and sets
//! `WINDLASS_FAKE_MODELS` to the script of the fake.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use windlass_core::error::ErrorKind;
use windlass_core::message::Message;
use windlass_testkit::Wire;

use crate::support::{CollectedAnswer, ask, call, config, driver, request, tools};

/// The fake, stopped when it is dropped.
struct FakeModels {
    url: String,
    _process: Child,
}

impl FakeModels {
    async fn start() -> Self {
        let program = std::env::var_os("WINDLASS_FAKE_MODELS");
        let program = program.unwrap_or_else(|| panic!("WINDLASS_FAKE_MODELS names no script"));
        let mut process = Command::new("python3")
            .arg(program)
            .args(["--port", "0", "--queue-policy", "all"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        let url = first.rsplit(' ').next().unwrap().to_owned();
        Self {
            url,
            _process: process,
        }
    }

    /// Sets the answers of the fake.
    async fn script(&self, turns: &Value) {
        self.post("/__control/script", turns).await;
    }

    async fn post(&self, path: &str, body: &Value) {
        let body = body.to_string();
        let host = self.url.strip_prefix("http://").unwrap();
        let mut socket = TcpStream::connect(host).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

async fn call_fake(fake: &FakeModels, wire: Wire) -> CollectedAnswer {
    call(&driver(wire, &fake.url), ask(wire)).await
}

#[tokio::test]
#[ignore = "needs the independent fake: cargo xtask fake-models"]
async fn text_and_thinking() {
    let turn = json!({ "thinking": ["so ", "so"], "text": ["he", "llo"],
        "usage": { "input": 11, "output": 7, "cache_read": 3, "reasoning": 0 }, "times": "forever" });
    let fake = FakeModels::start().await;
    fake.script(&json!([turn])).await;
    for wire in Wire::ALL {
        let got = call_fake(&fake, wire).await;
        assert_eq!(got.pieces, ["he", "llo"], "{wire:?}");
        // The fake does not support thinking for Chat Completions.
        let thought = if wire == Wire::OpenAiChat {
            ""
        } else {
            "so so"
        };
        assert_eq!(got.thinking, thought, "{wire:?}");
        let used = got.usage();
        assert_eq!((used.input_tokens, used.output_tokens), (14, 7), "{wire:?}");
        assert_eq!(used.cache_read_tokens, Some(3), "{wire:?}");
        assert_eq!(got.finish_reason(), "stop");
    }
}

#[tokio::test]
#[ignore = "needs the independent fake: cargo xtask fake-models"]
async fn tools_and_their_results() {
    let tool = |name: &str, place: &str| json!({ "name": name, "input": { "place": place } });
    let turn = json!({ "text": "both", "tools": [tool("weather", "Oslo"), tool("time", "Rome")] });
    let fake = FakeModels::start().await;
    for wire in Wire::ALL {
        fake.script(&json!([turn])).await;
        let driver = driver(wire, &fake.url);
        let mut config = config(wire);
        config.tools = tools();
        let question = Message::user("weather?");
        let got = call(&driver, request(config.clone(), vec![question.clone()])).await;
        let calls: Vec<_> = got
            .calls
            .iter()
            .map(|call| (call.name.clone(), call.arguments.clone()))
            .collect();
        assert_eq!(
            calls,
            [
                ("weather".to_owned(), json!({ "place": "Oslo" })),
                ("time".to_owned(), json!({ "place": "Rome" })),
            ]
        );
        let ids: Vec<_> = got.calls.iter().map(|call| call.id.clone()).collect();
        assert_ne!(ids[0], ids[1]);
        let results = ids
            .iter()
            .map(|id| Message::tool_result(id, Some(json!("rain")), None));
        let history = [question, got.message()]
            .into_iter()
            .chain(results)
            .collect();
        let got = call(&driver, request(config, history)).await;
        assert!(
            got.text().starts_with("tool said: ") && got.text().contains("rain"),
            "{got:?}"
        );
    }
}

#[tokio::test]
#[ignore = "needs the independent fake: cargo xtask fake-models"]
async fn errors() {
    let cases = [
        (json!({ "status": 401 }), ErrorKind::Auth),
        (json!({ "status": 404 }), ErrorKind::ModelMissing),
        (
            json!({ "status": 429, "headers": { "Retry-After": "7" } }),
            ErrorKind::RateLimited,
        ),
        (json!({ "status": 500 }), ErrorKind::Server),
        (json!({ "status": 529 }), ErrorKind::Overloaded),
        (
            json!({ "text": "hello", "cut_after": 1 }),
            ErrorKind::BrokenStream,
        ),
        (
            json!({ "text": "hello", "garbage": "not json" }),
            ErrorKind::BrokenStream,
        ),
    ];
    let fake = FakeModels::start().await;
    for wire in Wire::ALL {
        for (turn, kind) in &cases {
            fake.script(&json!([turn])).await;
            let got = call_fake(&fake, wire).await;
            let error = got.provider_error();
            // Except for Anthropic, the fake sends 529 with the body of a plain server error.
            let plain = *kind == ErrorKind::Overloaded && wire != Wire::Anthropic;
            let kind = if plain { ErrorKind::Server } else { *kind };
            assert_eq!(error.kind, kind, "{wire:?} {turn}");
            if kind == ErrorKind::RateLimited {
                assert_eq!(error.retry_after.map(|wait| wait.as_secs()), Some(7));
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs the independent fake: cargo xtask fake-models"]
async fn error_inside_a_stream() {
    let fake = FakeModels::start().await;
    for wire in Wire::ALL {
        let error = match wire {
            Wire::OpenAi | Wire::OpenAiChat => {
                json!({ "code": "server_is_overloaded", "message": "busy" })
            }
            Wire::Anthropic => json!({ "type": "overloaded_error", "message": "busy" }),
            Wire::Gemini => json!({ "code": 503, "status": "UNAVAILABLE", "message": "busy" }),
        };
        fake.script(&json!([{ "text": "hi", "stream_error": error }]))
            .await;
        let got = call_fake(&fake, wire).await;
        assert_eq!(got.text(), "hi");
        assert_eq!(got.provider_error().kind, ErrorKind::Overloaded, "{wire:?}");
        assert_eq!(got.provider_error().message, "busy");
    }
}
