//! Threads and turns over the socket: the same as over HTTP.

use serde_json::{Value, json};

use super::{Home, open_daemon};
use crate::rpc::socket::Socket;
use crate::support::text;

async fn event(socket: &mut Socket, name: &str) -> Value {
    loop {
        let frame = match socket.others.pop_front() {
            Some(frame) => frame,
            None => socket.frame().await.unwrap(),
        };
        if frame["method"] == "threads.event" && frame["params"]["event"]["event"] == name {
            return frame["params"]["event"].clone();
        }
    }
}

#[tokio::test]
async fn a_turn_is_started_and_heard_over_the_socket() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = Socket::connect(daemon.client.address).await;
    let thread = socket
        .ok("threads.create", json!({"title": "by socket"}))
        .await;
    let id = text(&thread["id"]);
    let subscribed = socket
        .ok("events.subscribe", json!({"thread_id": id}))
        .await;
    assert_eq!(subscribed["subscribed"], true);
    let turn = socket
        .ok("turns.start", json!({"thread_id": id, "prompt": "hello"}))
        .await;
    let ended = event(&mut socket, "turn.completed").await;
    assert_eq!(ended["payload"]["turn"]["status"], "completed");
    assert_eq!(ended["payload"]["turn"]["id"], turn["turn"]["id"]);
    let over_http = daemon.detail(&format!("/v1/threads/{id}")).await;
    assert_eq!(over_http["thread"]["title"], "by socket");
    assert_eq!(over_http["turns"][0]["id"], turn["turn"]["id"]);
    let turn_id = &turn["turn"]["id"];
    let params = json!({"thread_id": id, "turn_id": turn_id});
    let late = socket.refused("turns.interrupt", params).await;
    let http = daemon
        .client
        .post(
            &format!("/v1/threads/{id}/turns/{}/interrupt", text(turn_id)),
            json!({}),
        )
        .await;
    assert!(
        !late.2.is_empty() && http.status >= 400,
        "both refuse: {late:?}"
    );
}

#[tokio::test]
async fn what_http_refuses_the_socket_refuses() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = Socket::connect(daemon.client.address).await;
    let nobody = "thr_00000000000000000000000000000000";
    for (method, params, code) in [
        (
            "turns.start",
            json!({"thread_id": nobody, "prompt": "x"}),
            -32002,
        ),
        ("events.subscribe", json!({"thread_id": nobody}), -32002),
        ("turns.steer", json!({"thread_id": nobody}), -32602),
        (
            "turns.start",
            json!({"thread_id": "../../health", "prompt": "x"}),
            -32602,
        ),
        ("tools.register", json!({"thread_id": nobody}), -32602),
    ] {
        let refused = socket.refused(method, params.clone()).await;
        assert_eq!(refused.0, code, "{method} {params}: {}", refused.2);
    }
}

#[tokio::test]
async fn an_agent_sees_only_its_own_threads_here_too() {
    let home = Home::start().await;
    let token = home.agent("agent-A");
    let mut host = home.host().await;
    let thread = host.ok("threads.create", json!({})).await;
    let mut agent = home.bound("agent-A", &token).await;
    let params = json!({"thread_id": thread["id"], "prompt": "x"});
    let refused = agent.refused("turns.start", params).await;
    assert_eq!(refused.0, -32002, "{}", refused.2);
}

#[tokio::test]
async fn a_tool_of_the_socket_is_carried_out_by_its_client() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = Socket::connect(daemon.client.address).await;
    let thread = socket.ok("threads.create", json!({})).await;
    let id = text(&thread["id"]);
    let tool = json!({
        "namespace": "tau_bench", "name": "get_reservation", "description": "Look up a reservation.",
        "input_schema": {"type": "object", "properties": {"reservation_id": {"type": "string"}}, "required": ["reservation_id"]}
    });
    let registered = socket
        .ok("tools.register", json!({"thread_id": id, "tools": [tool]}))
        .await;
    assert_eq!(registered["tools_registered"], 1);
    socket
        .ok("events.subscribe", json!({"thread_id": id}))
        .await;
    socket
        .ok(
            "turns.start",
            json!({"thread_id": id, "prompt": "LOOKUP it"}),
        )
        .await;
    let asked = loop {
        let frame = match socket.others.pop_front() {
            Some(frame) => frame,
            None => socket.frame().await.unwrap(),
        };
        if frame["method"] == "tools.execute" {
            break frame;
        }
    };
    assert_eq!(asked["params"]["tool"], "get_reservation");
    assert_eq!(
        asked["params"]["parameters"],
        json!({"reservation_id": "ABC123"})
    );
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"status": "confirmed"}});
    socket.send(answer.to_string()).await;
    let resolved = event(&mut socket, "tool_call.resolved").await;
    assert_eq!(resolved["payload"]["call_id"], asked["params"]["action_id"]);
    let ended = event(&mut socket, "turn.completed").await;
    assert_eq!(ended["payload"]["turn"]["status"], "completed");
}
