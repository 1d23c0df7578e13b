//! Turns whose final answer must match a JSON Schema.

use serde_json::{Value, json};

use crate::support::{Frame, TestDaemon};

fn number() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// Runs a turn to its end; returns its detail and its events.
async fn run(daemon: &TestDaemon, thread: &str, prompt: &str) -> (Value, Vec<Frame>) {
    let since = daemon.detail(thread).await["latest_seq"].as_u64().unwrap();
    let body = json!({"prompt": prompt, "output_schema": number()});
    let turn = daemon.turn(thread, body).await;
    let frames = daemon
        .events(thread, since)
        .await
        .until("turn.completed")
        .await;
    (daemon.client.get(&turn).await.expect(200), frames)
}

fn rejections(frames: &[Frame]) -> Vec<&Frame> {
    let rejected = frames
        .iter()
        .filter(|frame| frame.event == "output.rejected");
    rejected.collect()
}

#[tokio::test]
async fn answer_value_is_in_the_turn_detail() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let (detail, frames) = run(&daemon, &thread, r#"{"n": 1}"#).await;
    assert_eq!(detail["output"], json!({"n": 1}));
    assert_eq!(detail["turn"]["status"], "completed");
    assert!(rejections(&frames).is_empty());
    let plain = daemon.turn(&thread, json!({"prompt": r#"{"n": 1}"#})).await;
    daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    assert_eq!(
        daemon.client.get(&plain).await.expect(200).get("output"),
        None
    );
}

#[tokio::test]
async fn invalid_answer_is_repaired_and_shown() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let (detail, frames) = run(&daemon, &thread, r#"REPAIRED {"n": "one"}"#).await;
    assert_eq!(detail["output"], json!({"n": 1}));
    let rejected = rejections(&frames);
    let errors = json!(["/n: value is not of type \"integer\""]);
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].data["payload"]["errors"], errors);
    let item = rejected[0].data["item_id"].clone();
    assert!(
        detail["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["id"] == item)
    );
    let forked = daemon
        .client
        .post(&format!("{thread}/fork"), json!({}))
        .await
        .expect(201);
    assert_eq!(forked["archived"], false);
    let replayed = daemon
        .client
        .post(&format!("{thread}/replay"), json!({}))
        .await;
    assert_eq!(replayed.expect(200).get("divergence"), None);
}

#[tokio::test]
async fn unrepaired_answer_fails_the_turn_with_its_code() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let (detail, frames) = run(&daemon, &thread, "no JSON").await;
    assert_eq!(detail["turn"]["status"], "failed");
    assert_eq!(
        detail["turn"]["error_code"],
        windlass_protocol::errors::OUTPUT_SCHEMA_MISMATCH
    );
    assert_eq!(detail.get("output"), None);
    assert_eq!(rejections(&frames).len(), 1);
}

#[tokio::test]
async fn unusable_schema_is_refused_before_the_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    for schema in [
        json!(7),
        json!({"type": "no such type"}),
        json!({"$ref": "https://example.com/a.json"}),
        json!({"properties": {"a": {"$ref": "#"}}}),
        json!({"description": "x".repeat(70_000)}),
    ] {
        let body = json!({"prompt": "hello", "output_schema": schema});
        for path in [format!("{thread}/turns"), "/v1/stream".to_owned()] {
            let answer = daemon.client.post(&path, body.clone()).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (422, "invalid_field")
            );
            let error: Value = answer.json();
            assert_eq!(error["error"]["details"]["field"], "/output_schema");
        }
    }
    assert_eq!(daemon.detail(&thread).await["turns"], json!([]));
}

#[tokio::test]
async fn steering_input_cannot_set_a_schema() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.turn(&thread, json!({"prompt": "SILENT"})).await;
    let body = json!({"prompt": "hello", "output_schema": number(), "on_busy": "steer"});
    let answer = daemon.client.post(&format!("{thread}/turns"), body).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (422, "invalid_field")
    );
}

#[tokio::test]
async fn one_shot_stream_ends_with_the_value() {
    let daemon = TestDaemon::start().await;
    let body = json!({"prompt": r#"{"n": 1}"#, "output_schema": number()});
    let answer = daemon.client.post("/v1/stream", body).await;
    assert_eq!(answer.status, 200);
    let frames = String::from_utf8_lossy(&answer.body);
    assert!(frames.contains(r#""output":{"n":1}"#), "{frames}");
}
