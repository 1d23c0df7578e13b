//! The conversations of the golden traces, repeated with this daemon: the same event names in the same order, the same
//! fields. Intended differences are listed in `docs/runtime-api-differences.md`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Frame, TestDaemon, assert_sound, text};

fn names(frames: &[Frame]) -> Vec<&str> {
    let mut names: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    names.dedup_by(|a, b| *a == "item.delta" && a == b);
    names
}

fn fields(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[track_caller]
fn has(value: &Value, wanted: &[&str]) {
    let fields = fields(value);
    for name in wanted {
        assert!(fields.contains(*name), "{name} in {value}");
    }
}

const ENVELOPE: &[&str] = &[
    "schema_version",
    "seq",
    "event",
    "kind",
    "thread_id",
    "turn_id",
    "item_id",
    "timestamp",
    "created_at",
    "payload",
    "previous_seq",
];
const THREAD: &[&str] = &[
    "schema_version",
    "id",
    "created_at",
    "updated_at",
    "model",
    "model_provider",
    "model_provider_id",
    "workspace",
    "mode",
    "allow_shell",
    "trust_mode",
    "auto_approve",
    "archived",
];
const TURN: &[&str] = &[
    "schema_version",
    "id",
    "thread_id",
    "status",
    "input_summary",
    "created_at",
    "started_at",
    "effective_provider",
    "effective_provider_id",
    "effective_model",
    "item_ids",
    "steer_count",
];
const ITEM: &[&str] = &[
    "schema_version",
    "id",
    "turn_id",
    "kind",
    "status",
    "summary",
    "detail",
    "artifact_refs",
    "started_at",
];

#[tokio::test]
async fn text_turn_followed_by_a_steered_and_interrupted_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"mode": "agent", "allow_shell": true, "auto_approve": false}))
        .await;
    let empty = daemon.detail(&thread).await;
    has(&empty["thread"], THREAD);
    assert_eq!(
        (&empty["latest_seq"], &empty["turns"], &empty["items"]),
        (&json!(1), &json!([]), &json!([]))
    );
    let mut events = daemon.events(&thread, 0).await;
    let body =
        json!({"prompt": "hello there", "input_summary": "greeting", "environment_id": "local"});
    let started = daemon
        .client
        .post(&format!("{thread}/turns"), body)
        .await
        .expect(201);
    has(&started["turn"], TURN);
    assert_eq!(started["turn"]["status"], "in_progress");
    assert_eq!(started["turn"]["item_ids"].as_array().unwrap().len(), 1);
    assert_eq!(started["thread"]["latest_turn_id"], started["turn"]["id"]);
    let mut frames = events.until("turn.completed").await;
    assert_eq!(
        names(&frames),
        [
            "thread.started",
            "turn.started",
            "item.started",
            "item.completed",
            "turn.lifecycle",
            "item.started",
            "item.delta",
            "item.completed",
            "turn.completed"
        ]
    );
    for frame in &frames {
        has(&frame.data, ENVELOPE);
        let payload = &frame.data["payload"];
        match frame.event.as_str() {
            "thread.started" => has(&payload["thread"], THREAD),
            "turn.started" => has(&payload["turn"], TURN),
            "turn.completed" => {
                has(&payload["turn"], TURN);
                has(&payload["turn"], &["ended_at", "duration_ms", "usage"]);
                assert_eq!(
                    payload["turn"]["usage"],
                    json!({"input_tokens": 100, "output_tokens": 20})
                );
            }
            "item.started" | "item.completed" => has(&payload["item"], ITEM),
            "item.delta" => assert_eq!(fields(payload), fields(&json!({"delta": 0, "kind": 0}))),
            "turn.lifecycle" => assert_eq!(*payload, json!({"status": "in_progress"})),
            other => panic!("{other}"),
        }
        if payload["item"]["kind"] == "user_message" {
            assert_eq!(payload["item"]["status"], "completed");
            has(&payload["item"], &["ended_at"]);
        }
    }
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    frames.extend(events.until("item.delta").await);
    daemon
        .client
        .post(
            &format!("{turn}/steer"),
            json!({"prompt": "also mention whales"}),
        )
        .await
        .expect(200);
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    let second: Vec<Frame> = frames
        .iter()
        .skip_while(|frame| frame.event != "turn.completed")
        .skip(1)
        .cloned()
        .collect();
    assert_eq!(
        names(&second),
        [
            "turn.started",
            "item.started",
            "item.completed",
            "turn.lifecycle",
            "item.started",
            "item.delta",
            "turn.steered",
            "item.completed",
            "turn.interrupt_requested",
            "item.interrupted",
            "turn.completed"
        ]
    );
    let steered = second
        .iter()
        .find(|frame| frame.event == "turn.steered")
        .unwrap();
    assert_eq!(
        fields(&steered.data["payload"]),
        fields(&json!({"thread_id": 0, "turn_id": 0, "input": 0}))
    );
    assert_eq!(steered.data["payload"]["input"], "also mention whales");
    let requested = second
        .iter()
        .find(|frame| frame.event == "turn.interrupt_requested")
        .unwrap();
    assert_eq!(
        fields(&requested.data["payload"]),
        fields(&json!({"thread_id": 0, "turn_id": 0}))
    );
}

#[tokio::test]
async fn resolved_and_canceled_external_calls() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let tools = json!([{"namespace": "tau_bench", "name": "get_reservation", "description": "Look up.",
        "input_schema": {"type": "object"}}]);
    let mut events = daemon.events(&thread, 1).await;
    let turn = daemon
        .turn(
            &thread,
            json!({"prompt": "LOOKUP reservation", "dynamic_tools": tools}),
        )
        .await;
    let mut frames = events.until("tool_call.requested").await;
    let payload = frames.last().unwrap().data["payload"].clone();
    has(
        &payload,
        &[
            "thread_id",
            "turn_id",
            "call_id",
            "namespace",
            "tool",
            "arguments",
        ],
    );
    let bogus = daemon
        .client
        .post(
            &format!("{turn}/tool-calls/call_bogus/result"),
            json!({"success": true}),
        )
        .await;
    assert_eq!(
        bogus.json()["error"]["message"],
        "No pending dynamic tool call 'call_bogus'"
    );
    let path = format!("{turn}/tool-calls/{}/result", text(&payload["call_id"]));
    assert_eq!(
        daemon
            .client
            .post(&path, json!({"success": true}))
            .await
            .status,
        202
    );
    frames.extend(events.until("turn.completed").await);
    assert_eq!(
        names(&frames),
        [
            "turn.started",
            "item.started",
            "item.completed",
            "turn.lifecycle",
            "item.started",
            "tool_call.requested",
            "tool_call.resolved",
            "item.completed",
            "item.started",
            "item.delta",
            "item.completed",
            "turn.completed"
        ]
    );
    let turn = daemon
        .turn(
            &thread,
            json!({"prompt": "LOOKUP two", "dynamic_tools": tools}),
        )
        .await;
    let mut second = events.until("tool_call.requested").await;
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    second.extend(events.until("turn.completed").await);
    assert_eq!(
        names(&second)[6..],
        [
            "turn.interrupt_requested",
            "tool_call.canceled",
            "item.interrupted",
            "turn.completed"
        ]
    );
    frames.extend(second);
    assert_sound(&frames, 1);
}

#[tokio::test]
async fn commands_failure_and_thread_changes() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 1).await;
    let mut all = Vec::new();
    for (decision, end) in [("allow", "item.completed"), ("deny", "item.failed")] {
        daemon
            .turn(&thread, json!({ "prompt": format!("SHELL {decision}") }))
            .await;
        let mut frames = events.until("approval.required").await;
        let payload = &frames.last().unwrap().data["payload"];
        has(
            payload,
            &[
                "id",
                "approval_id",
                "tool_name",
                "description",
                "intent_summary",
            ],
        );
        let id = text(&payload["approval_id"]);
        daemon
            .client
            .post(
                &format!("/v1/approvals/{id}"),
                json!({"decision": decision, "remember": false}),
            )
            .await
            .expect(200);
        frames.extend(events.until("turn.completed").await);
        assert_eq!(
            names(&frames),
            [
                "turn.started",
                "item.started",
                "item.completed",
                "turn.lifecycle",
                "item.started",
                "approval.required",
                "approval.decided",
                end,
                "item.started",
                "item.delta",
                "item.completed",
                "turn.completed"
            ]
        );
        let decided = frames
            .iter()
            .find(|frame| frame.event == "approval.decided")
            .unwrap();
        has(
            &decided.data["payload"],
            &["approval_id", "decision", "remember"],
        );
        all.extend(frames);
    }
    daemon.turn(&thread, json!({"prompt": "ERR500 now"})).await;
    all.extend(events.until("turn.completed").await);
    for body in [
        json!({"title": "My title"}),
        json!({"archived": true}),
        json!({"archived": false}),
    ] {
        daemon.client.patch(&thread, body.clone()).await.expect(200);
        let frame = events.next().await.unwrap();
        assert_eq!(frame.event, "thread.updated");
        assert_eq!(frame.data["payload"]["changes"], body);
        has(&frame.data["payload"]["thread"], THREAD);
        has(&frame.data["payload"]["thread"], &["latest_turn_id"]);
        all.push(frame);
    }
    assert_sound(&all, 1);
}
