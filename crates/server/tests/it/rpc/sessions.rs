//! Threads and turns over the socket: the same as over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use super::{MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;
use crate::support::text;

async fn event(socket: &mut RpcSocket, name: &str) -> Value {
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
async fn turn_is_started_and_followed_over_the_socket() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
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
async fn socket_refuses_the_same_requests_as_http() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let unknown = "thr_00000000000000000000000000000000";
    for (method, params, code) in [
        (
            "turns.start",
            json!({"thread_id": unknown, "prompt": "x"}),
            -32002,
        ),
        ("events.subscribe", json!({"thread_id": unknown}), -32002),
        ("turns.steer", json!({"thread_id": unknown}), -32602),
        (
            "turns.start",
            json!({"thread_id": "../../health", "prompt": "x"}),
            -32602,
        ),
        ("tools.register", json!({"thread_id": unknown}), -32602),
    ] {
        let refused = socket.refused(method, params.clone()).await;
        assert_eq!(refused.0, code, "{method} {params}: {}", refused.2);
    }
}

#[tokio::test]
async fn agent_sees_only_its_own_threads_on_the_socket() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    let mut host = home.host().await;
    let thread = host.ok("threads.create", json!({})).await;
    let mut agent = home.bound("agent-A", &token).await;
    let params = json!({"thread_id": thread["id"], "prompt": "x"});
    let refused = agent.refused("turns.start", params).await;
    assert_eq!(refused.0, -32002, "{}", refused.2);
}

#[tokio::test]
async fn socket_tool_is_executed_by_its_client() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
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
    let call = loop {
        let frame = match socket.others.pop_front() {
            Some(frame) => frame,
            None => socket.frame().await.unwrap(),
        };
        if frame["method"] == "tools.execute" {
            break frame;
        }
    };
    assert_eq!(call["params"]["tool"], "get_reservation");
    assert_eq!(
        call["params"]["parameters"],
        json!({"reservation_id": "ABC123"})
    );
    let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": {"status": "confirmed"}});
    socket.send(answer.to_string()).await;
    let resolved = event(&mut socket, "tool_call.resolved").await;
    assert_eq!(resolved["payload"]["call_id"], call["params"]["action_id"]);
    let ended = event(&mut socket, "turn.completed").await;
    assert_eq!(ended["payload"]["turn"]["status"], "completed");
}

#[tokio::test]
async fn tools_are_registered_in_a_list_as_original_clients_do() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let registered = socket.ok("tools.register", json!([{"name": "echo"}])).await;
    assert_eq!(registered, 1);
    assert_eq!(socket.ok("tools.register", json!([])).await, 0);
    for wrong in [
        json!([{}]),
        json!(["echo"]),
        json!([{"name": " "}]),
        json!([[{"name": "x"}]]),
    ] {
        let refused = socket.refused("tools.register", wrong.clone()).await;
        assert_eq!(refused.0, -32602, "{wrong}: {}", refused.2);
    }
    let many: Vec<Value> = (0..2_000).map(|n| json!({"name": n.to_string()})).collect();
    assert_eq!(
        socket.refused("tools.register", json!(many)).await.0,
        -32009
    );
    // Only this method accepts an array.
    let refused = socket.refused("runs.start", json!([{"intent": "x"}])).await;
    assert_eq!(refused.0, -32602);
    let action = json!({"id": "a1", "type": "tool_call", "tool": "echo", "parameters": {}});
    let id = socket
        .post(
            "proposal.submit",
            json!({"proposal": {"id": "p1", "actions": [action]}}),
        )
        .await;
    let call = socket.frame().await.unwrap();
    assert_eq!(
        (&call["method"], &call["params"]["tool"]),
        (&json!("tools.execute"), &json!("echo"))
    );
    let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": "said"});
    socket.send(answer.to_string()).await;
    let done = socket.answer(id).await;
    assert_eq!(done["result"]["results"][0]["output"], "said");
}

#[tokio::test]
async fn unauthenticated_client_cannot_register_tools() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.silent().await;
    let refused = socket
        .refused("tools.register", json!([{"name": "echo"}]))
        .await;
    assert_eq!(refused.0, -32001);
    assert_eq!(socket.frame().await.unwrap_err().0, 1008);
}

#[tokio::test]
async fn first_requested_subprotocol_is_selected() {
    let daemon = open_daemon(|_| {}).await;
    let address = daemon.client.address;
    for (requested, chosen) in [
        (&[][..], None),
        (&[&b"car.v1"[..]][..], Some("car.v1")),
        (&[&b"car.v1, jsonrpc"[..]][..], Some("car.v1")),
        (&[&b"car.v1"[..], &b"jsonrpc"[..]][..], Some("car.v1")),
    ] {
        let (status, found) = RpcSocket::ask_for(address, requested).await;
        assert_eq!((status, found.as_deref()), (101, chosen));
    }
    let long = "x".repeat(257);
    for hostile in [
        &b""[..],
        b",",
        b"a b",
        b"car.v1, \"quoted\"",
        b"a;b=c",
        long.as_bytes(),
    ] {
        let (status, found) = RpcSocket::ask_for(address, &[hostile]).await;
        assert_eq!((status, found), (400, None), "{hostile:?}");
    }
}

#[tokio::test]
async fn a12_idle_socket_is_closed_when_its_token_is_revoked() {
    let home = MultiTokenDaemon::start().await;
    let (id, token) = home.token("agent:a");
    let mut socket = home.bound("a", &token).await;
    let run_id = socket.start("a").await;
    socket.ok("runs.subscribe", json!({"run_id": run_id})).await;
    home.tokens.revoke(&id).unwrap();
    let closed = loop {
        if let Err(closed) = socket.frame().await {
            break closed;
        }
    };
    assert_eq!(closed, (1008, "the token was revoked".to_owned()));
}

#[tokio::test]
async fn a13_active_socket_without_a_token_is_closed() {
    let home = MultiTokenDaemon::with(|settings| {
        settings.limits.token_time = Duration::from_millis(300);
        settings.rpc.ping = Duration::from_millis(20);
    })
    .await;
    let mut known = home.unbound().await;
    let mut stranger = home.silent().await;
    let closed = stranger.frame().await.unwrap_err();
    assert_eq!(closed, (1008, "no token was presented in time".to_owned()));
    known.ok("threads.create", json!({})).await;
}

#[tokio::test]
async fn a13_sockets_without_a_token_do_not_exhaust_the_limit() {
    let home = MultiTokenDaemon::with(|settings| {
        settings.limits.token_time = Duration::from_secs(600);
        settings.rpc.connections = 2;
    })
    .await;
    let mut first = home.silent().await;
    let _second = home.silent().await;
    let mut known = home.unbound().await;
    assert_eq!(first.frame().await.unwrap_err().0, 1008);
    let mut other = home.unbound().await;
    known.ok("threads.create", json!({})).await;
    other.ok("threads.create", json!({})).await;
}

fn lookup_tool() -> Value {
    json!({
        "namespace": "tau_bench", "name": "get_reservation", "description": "Look up a reservation.",
        "input_schema": {"type": "object", "properties": {"reservation_id": {"type": "string"}}, "required": ["reservation_id"]}
    })
}

/// Returns the next call from the server.
async fn execution(socket: &mut RpcSocket) -> Value {
    loop {
        let frame = match socket.others.pop_front() {
            Some(frame) => frame,
            None => socket.frame().await.unwrap(),
        };
        if frame["method"] == "tools.execute" {
            return frame;
        }
    }
}

#[tokio::test]
async fn tools_registered_twice_are_executed_once() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = socket.ok("threads.create", json!({})).await;
    let register = json!({"thread_id": thread["id"], "tools": [lookup_tool()]});
    for _ in 0..2 {
        socket.ok("tools.register", register.clone()).await;
    }
    let params = json!({"thread_id": thread["id"], "since_seq": 0});
    socket.ok("events.subscribe", params).await;
    let turn = json!({"thread_id": thread["id"], "prompt": "LOOKUP it"});
    socket.ok("turns.start", turn).await;
    let first = execution(&mut socket).await;
    // Registering during a call does not deliver the call again.
    socket.ok("tools.register", register).await;
    let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": "confirmed"});
    socket.send(answer.to_string()).await;
    let mut executions = 1;
    loop {
        let frame = match socket.others.pop_front() {
            Some(frame) => frame,
            None => socket.frame().await.unwrap(),
        };
        executions += usize::from(frame["method"] == "tools.execute");
        if frame["params"]["event"]["event"] == "turn.completed" {
            break;
        }
    }
    // The answer to a later call proves that no other message is pending.
    socket.ok("runs.list", json!({})).await;
    let late = socket.others.iter();
    let late = late.filter(|frame| frame["method"] == "tools.execute");
    assert_eq!(executions + late.count(), 1);
}

#[tokio::test]
async fn pending_call_is_delivered_after_a_reconnect() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = socket.ok("threads.create", json!({})).await;
    let register = json!({"thread_id": thread["id"], "tools": [lookup_tool()]});
    socket.ok("tools.register", register.clone()).await;
    let turn = json!({"thread_id": thread["id"], "prompt": "LOOKUP it"});
    socket.ok("turns.start", turn).await;
    let lost = execution(&mut socket).await;
    socket.vanish();
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let params = json!({"thread_id": thread["id"]});
    socket.ok("events.subscribe", params).await;
    socket.ok("tools.register", register).await;
    let call = execution(&mut socket).await;
    assert_eq!(call["params"]["action_id"], lost["params"]["action_id"]);
    let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": "confirmed"});
    socket.send(answer.to_string()).await;
    let ended = event(&mut socket, "turn.completed").await;
    assert_eq!(ended["payload"]["turn"]["status"], "completed");
}
