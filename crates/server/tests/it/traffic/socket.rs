//! The methods of the socket.

use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::rpc::socket::RpcSocket;
use crate::support::{TOKEN, TestDaemon, text, until};

pub(super) async fn sockets(record: &mut Recorder, daemon: &TestDaemon) {
    record.heading("the socket");
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let call =
        async |record: &mut Recorder, socket: &mut RpcSocket, method: &str, params: Value| {
            record.line(&format!("> {method} {params}"));
            let answer = socket.call(method, params).await;
            record.line(&format!("< {answer}"));
            answer["result"].clone()
        };
    call(record, &mut socket, "session.auth", json!({"token": TOKEN})).await;
    call(
        record,
        &mut socket,
        "server.handshake",
        json!({"protocol_version": "1.0"}),
    )
    .await;
    call(record, &mut socket, "session.init", json!({"tools": []})).await;
    let made = call(
        record,
        &mut socket,
        "runs.start",
        json!({"agent_id": "a", "intent": "sail"}),
    )
    .await;
    let run = text(&made["run_id"]);
    call(
        record,
        &mut socket,
        "runs.subscribe",
        json!({"run_id": run}),
    )
    .await;
    let turns =
        json!({"run_id": run, "turns": [{"tool": "t", "parameters": {"x": 1}, "output": "y"}]});
    call(record, &mut socket, "runs.record_turns", turns).await;
    call(
        record,
        &mut socket,
        "runs.record_model_turn",
        json!({"run_id": run, "turn_index": 1}),
    )
    .await;
    call(
        record,
        &mut socket,
        "runs.get_trace",
        json!({"run_id": run}),
    )
    .await;
    call(
        record,
        &mut socket,
        "runs.unsubscribe",
        json!({"run_id": run}),
    )
    .await;
    call(record, &mut socket, "runs.resume", json!({"run_id": run})).await;
    let done = json!({"run_id": run, "outcome": {"status": "success"}});
    call(record, &mut socket, "runs.complete", done).await;
    call(record, &mut socket, "runs.list", json!({"agent_id": "a"})).await;
    let cancel = json!({"run_id": run, "idempotency_key": "k", "reason": "r"});
    call(record, &mut socket, "runs.cancel", cancel).await;
    let made = call(
        record,
        &mut socket,
        "threads.create",
        json!({"title": "socket"}),
    )
    .await;
    let id = text(&made["id"]);
    let tools = json!([{"name": "echo", "description": "", "input_schema": {"type": "object"}}]);
    call(
        record,
        &mut socket,
        "tools.register",
        json!({"thread_id": id, "tools": tools}),
    )
    .await;
    let begun = call(
        record,
        &mut socket,
        "turns.start",
        json!({"thread_id": id, "prompt": "SLOW please"}),
    )
    .await;
    let turn = text(&begun["turn"]["id"]);
    // The answer must have begun: the next responses list its item.
    let shown = format!("/v1/threads/{id}/turns/{turn}");
    until(record.client(), &shown, |turn| !turn["items"][1].is_null()).await;
    call(
        record,
        &mut socket,
        "turns.steer",
        json!({"thread_id": id, "turn_id": turn, "prompt": "more"}),
    )
    .await;
    call(
        record,
        &mut socket,
        "turns.interrupt",
        json!({"thread_id": id, "turn_id": turn}),
    )
    .await;
    call(record, &mut socket, "no.such_method", json!({})).await;
    call(record, &mut socket, "turns.start", json!({"thread_id": id})).await;
    let mut events = RpcSocket::connect(daemon.client.address).await;
    events.ok("session.auth", json!({"token": TOKEN})).await;
    call(
        record,
        &mut events,
        "events.subscribe",
        json!({"thread_id": id, "since_seq": 0}),
    )
    .await;
    loop {
        let event = match events.others.pop_front() {
            Some(event) => event,
            None => events.frame().await.unwrap(),
        };
        record.line(&format!("< {event}"));
        if event["params"]["event"]["event"] == "turn.completed" {
            break;
        }
    }
}
