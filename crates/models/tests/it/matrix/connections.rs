//! Requests other than answers, and the number of connections.

use std::collections::HashSet;

use serde_json::json;
use windlass_core::llm_driver_registry::LlmDriver;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::support::{api, ask, driver, exchange};

pub(super) async fn list_models(wire: Wire) {
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

pub(super) async fn one_connection_serves_many_calls(wire: Wire) {
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
