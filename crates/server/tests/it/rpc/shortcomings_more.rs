//! Shortcomings of the original protocol, line by line: errors, order, frames, closing, following.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;
use crate::support::TOKEN;

#[tokio::test]
async fn n10_every_case_has_its_code_and_reason() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    let done = socket.start("a").await;
    socket.complete(&done).await;
    let key = json!({"agent_id": "a", "intent": "i", "idempotency_key": run});
    let cases = [
        (
            "runs.bogus",
            json!({}),
            -32601,
            "unknown_method",
            "unknown method: runs.bogus",
        ),
        (
            "runs.start",
            json!({"agent_id": "a"}),
            -32602,
            "invalid_params",
            "runs.start requires { intent, agent_id?, agent_name?, outcome_description? }: missing field `intent`",
        ),
        (
            "runs.start",
            json!({"agent_id": "a", "intent": " "}),
            -32602,
            "invalid_params",
            "runs.start requires a non-empty `intent`",
        ),
        (
            "runs.start",
            json!({"intent": "i"}),
            -32602,
            "no_agent",
            "runs.start could not resolve an agent_id",
        ),
        (
            "runs.start",
            key,
            -32010,
            "conflict",
            "run ownership conflict: ",
        ),
        (
            "runs.complete",
            json!({"run_id": run, "outcome": {"status": "great"}}),
            -32602,
            "invalid_params",
            "runs.complete requires { run_id, outcome }: unknown variant `great`, expected one of `success`",
        ),
        (
            "runs.complete",
            json!({"run_id": "nope", "outcome": {"status": "done"}}),
            -32002,
            "not_found",
            "unknown run_id `nope`",
        ),
        (
            "runs.complete",
            json!({"run_id": done, "outcome": {"status": "done"}}),
            -32010,
            "run_terminal",
            "run `",
        ),
        (
            "runs.record_turns",
            json!({"run_id": run}),
            -32602,
            "invalid_params",
            "runs.record_turns requires",
        ),
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": [7]}),
            -32602,
            "invalid_params",
            "runs.record_turns",
        ),
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": []}),
            -32602,
            "invalid_params",
            "runs.record_turns",
        ),
        (
            "runs.resume",
            json!({"run_id": "nope"}),
            -32002,
            "not_found",
            "run not found or not authorized",
        ),
        (
            "runs.resume",
            json!({"run_id": done}),
            -32010,
            "conflict",
            "run ownership conflict: ",
        ),
        (
            "runs.resume",
            json!({"run_id": run, "extra": 1}),
            -32602,
            "invalid_params",
            "runs.resume requires",
        ),
        (
            "runs.cancel",
            json!({"run_id": run, "idempotency_key": "k", "reason": " "}),
            -32602,
            "invalid_params",
            "runs.cancel",
        ),
        (
            "server.handshake",
            json!({"protocol_version": 0}),
            -32006,
            "protocol",
            "protocol version mismatch: ",
        ),
        (
            "server.handshake",
            json!({"protocol_version": 3, "required_capabilities": ["x.v1"]}),
            -32008,
            "capability",
            "protocol capability mismatch: ",
        ),
        (
            "session.init",
            json!({"policies": [{"rule": "be_nice"}]}),
            -32602,
            "invalid_params",
            "session.init",
        ),
    ];
    for (method, params, code, reason, text) in cases {
        let found = socket.refused(method, params.clone()).await;
        assert_eq!(
            (found.0, found.1.as_str()),
            (code, reason),
            "{method} {params}"
        );
        assert!(found.2.starts_with(text), "{method} {params}: {}", found.2);
    }
}

#[tokio::test]
async fn n11_calls_take_effect_and_are_answered_in_order() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let mut sent = Vec::new();
    for number in 0..200 {
        let key = format!("k{number}");
        let start = json!({"agent_id": "a", "intent": "i", "idempotency_key": key});
        sent.push(socket.post("runs.start", start).await);
        let complete = json!({"run_id": key, "outcome": {"status": "success"}});
        sent.push(socket.post("runs.complete", complete).await);
    }
    for id in sent {
        let frame = socket.frame().await.unwrap();
        assert_eq!(frame["id"], id);
        assert!(frame.get("error").is_none(), "{frame}");
    }
}

#[tokio::test]
async fn n12_start_immediately_after_auth_is_accepted() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    for _ in 0..50 {
        let mut socket = home.silent().await;
        let auth = json!({"token": token, "agent_id": "agent-A"});
        socket.post("session.auth", auth).await;
        let shake =
            json!({"protocol_version": 3, "client_version": "0.58.0", "required_capabilities": []});
        let shaken = socket.post("server.handshake", shake).await;
        let started = socket.post("runs.start", json!({"intent": "i"})).await;
        let shaken = socket.answer(shaken).await;
        assert_eq!(shaken["result"]["protocol_version"], 3);
        let started = socket.answer(started).await;
        assert_eq!(started["result"]["agent_id"], "agent-A", "{started}");
    }
}

#[tokio::test]
async fn n13_oversized_message_gets_the_limit_and_is_closed() {
    let daemon = open_daemon(|settings| settings.rpc.limits.message_bytes = 4096).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    let params = json!({"run_id": run, "turns": [{"output": "x".repeat(5000)}]});
    socket.post("runs.record_turns", params).await;
    let refusal = socket.frame().await.unwrap();
    assert_eq!(
        (&refusal["error"]["code"], &refusal["id"]),
        (&json!(-32600), &json!(null))
    );
    let text = refusal["error"]["message"].as_str().unwrap();
    assert!(text.contains("4096"), "{text}");
    assert_eq!(socket.frame().await.unwrap_err().0, 1009);
}

async fn upgrade_from(address: std::net::SocketAddr, origin: &str) -> Result<u16, u16> {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    request
        .headers_mut()
        .insert("origin", origin.parse().unwrap());
    match client_async(request, stream).await {
        Ok((_, response)) => Ok(response.status().as_u16()),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn n14_web_page_connects_only_from_a_listed_origin() {
    let daemon = open_daemon(|settings| {
        settings.cors_origins = vec!["https://console.example/".to_owned(), "*".to_owned()];
    })
    .await;
    let address = daemon.client.address;
    let origin = "https://console.example";
    assert_eq!(upgrade_from(address, origin).await, Ok(101));
    let usual = "http://localhost:3000";
    for origin in [
        "https://evil.example",
        "null",
        "*",
        "http://localhost:3001",
        usual,
    ] {
        assert_eq!(upgrade_from(address, origin).await, Err(403), "{origin}");
    }
    // Where a token is required, the origins of known local clients are on the list too.
    let home = MultiTokenDaemon::start().await;
    let address = home.daemon.client.address;
    assert_eq!(upgrade_from(address, usual).await, Ok(101));
    let other = "http://localhost:3001";
    assert_eq!(upgrade_from(address, other).await, Err(403));
}

#[tokio::test]
async fn n15_three_wrong_tokens_close_the_connection() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    let wrong = [
        (
            json!({"token": "guess"}),
            "auth failed: token mismatch".to_owned(),
        ),
        (
            json!({"host_token": token}),
            "auth failed: host token mismatch".to_owned(),
        ),
        (
            json!({"token": TOKEN, "agent_id": "agent-A"}),
            "auth failed: agent_id `agent-A` is not supervised, or token mismatch".to_owned(),
        ),
    ];
    let mut socket = home.silent().await;
    for (params, text) in wrong {
        let refused = socket.refused("session.auth", params).await;
        assert_eq!(refused, (-32001, "auth_failed".to_owned(), text));
    }
    assert_eq!(socket.frame().await.unwrap_err().0, 1008);
    let mut socket = home.silent().await;
    socket
        .refused("session.auth", json!({"token": "guess"}))
        .await;
    socket.ok("session.auth", json!({"token": TOKEN})).await;
    socket.start("x").await;
}

#[tokio::test]
async fn n15_without_a_token_the_first_frame_is_the_last() {
    let home = MultiTokenDaemon::start().await;
    for frame in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "runs.start", "params": {"intent": "i", "agent_id": "a"}}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session.init", "params": {}}).to_string(),
    ] {
        let mut socket = home.silent().await;
        socket.send(frame).await;
        let refusal = socket.frame().await.unwrap();
        assert_eq!(refusal["error"]["code"], -32001);
        let text = refusal["error"]["message"].as_str().unwrap();
        assert!(text.starts_with("auth required: send `session.auth`"), "{text}");
        assert_eq!(socket.frame().await.unwrap_err().0, 1008);
    }
    let mut socket = home.silent().await;
    socket.send("{not json").await;
    assert_eq!(socket.frame().await.unwrap()["error"]["code"], -32700);
    assert_eq!(socket.frame().await.unwrap_err().0, 1008);
}

#[tokio::test]
async fn n16_no_route_returns_a_token() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    for path in ["/", "/v1/rpc", "/health", "/v1/runtime/info"] {
        let body = home.daemon.client.get(path).await.body;
        let body = String::from_utf8_lossy(&body);
        assert!(
            !body.contains(&token) && !body.contains(TOKEN),
            "{path}: {body}"
        );
    }
}

#[tokio::test]
async fn n17_notification_is_executed_without_an_answer() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    for (method, params) in [
        (
            "runs.complete",
            json!({"run_id": run, "outcome": {"status": "done"}}),
        ),
        (
            "runs.complete",
            json!({"run_id": "nope", "outcome": {"status": "done"}}),
        ),
        ("runs.bogus", json!({})),
        ("runs.start", json!([1])),
    ] {
        let frame = json!({"jsonrpc": "2.0", "method": method, "params": params});
        socket.send(frame.to_string()).await;
    }
    let id = socket.post("runs.get_trace", json!({"run_id": run})).await;
    let frame = socket.frame().await.unwrap();
    assert_eq!(frame["id"], id, "nothing came before it: {frame}");
    assert_eq!(frame["result"]["records"][1]["record"], "ended");
}

#[tokio::test]
async fn n18_batch_gets_one_error() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let one = json!({"jsonrpc": "2.0", "id": 1, "method": "runs.list", "params": {}});
    socket.send(json!([one, one]).to_string()).await;
    let refusal = socket.frame().await.unwrap();
    assert_eq!(
        (&refusal["error"]["code"], &refusal["id"]),
        (&json!(-32600), &json!(null))
    );
    let text = refusal["error"]["message"].as_str().unwrap();
    assert!(text.contains("batches are not supported"), "{text}");
    socket.start("a").await;
}

#[tokio::test]
async fn n19_close_is_answered_within_the_grace_period() {
    let daemon = open_daemon(|settings| settings.rpc.grace = Duration::from_secs(3600)).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    socket.close().await;
    let mut other = RpcSocket::connect(daemon.client.address).await;
    let list = other.ok("runs.list", json!({"agent_id": "a"})).await;
    assert_eq!(list["runs"][0]["run_id"], run.as_str());
    assert_eq!(list["runs"][0]["status"], "in_progress");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n20_slow_subscriber_loses_nothing_and_receives_the_end() {
    let daemon = open_daemon(|settings| settings.rpc.limits.queue = 4).await;
    let mut writer = RpcSocket::connect(daemon.client.address).await;
    let mut slow = RpcSocket::connect(daemon.client.address).await;
    let run = writer.start("a").await;
    slow.ok("runs.subscribe", json!({"run_id": run})).await;
    let turns = vec![json!({"output": "x".repeat(3000)}); 200];
    for _ in 0..8 {
        let params = json!({"run_id": run, "turns": turns});
        assert_eq!(writer.ok("runs.record_turns", params).await["ok"], true);
    }
    writer.complete(&run).await;
    for cursor in 1..=1600_u64 {
        let event = slow.event().await;
        assert_eq!(
            (&event["cursor"], &event["status"]),
            (&json!(cursor), &json!("in_progress"))
        );
        assert_eq!(event["record"]["index"], cursor - 1);
    }
    let end = slow.event().await;
    assert_eq!(
        (&end["cursor"], &end["status"]),
        (&json!(1600), &json!("completed"))
    );
    assert_eq!(end["record"]["record"], "ended");
}

#[tokio::test]
async fn n21_agents_with_similar_names_are_separate() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    for agent in ["a/b", "a_b", "a\\b", ".a_b", "../a", "a\u{0}b"] {
        let run = socket.start(agent).await;
        let list = socket.ok("runs.list", json!({"agent_id": agent})).await;
        let rows = list["runs"].as_array().unwrap();
        assert_eq!(
            (rows.len(), &rows[0]["run_id"]),
            (1, &json!(run)),
            "{agent}"
        );
        let trace = socket.ok("runs.get_trace", json!({"run_id": run})).await;
        assert_eq!(trace["agent_id"], agent);
    }
}

#[tokio::test]
async fn n22_each_turn_is_recorded_when_its_action_ends() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.unbound().await;
    let run = socket.start("x").await;
    let action = |id: &str| json!({"id": id, "type": "tool_call", "tool": "drive_cli", "parameters": {"prompt": id}});
    let params = json!({"proposal": {"actions": [action("a1"), action("a2")]}});
    socket.post("proposal.submit", params).await;
    let first = socket.frame().await.unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": {"exit_code": 3}});
    socket.send(answer.to_string()).await;
    let second = socket.frame().await.unwrap();
    assert_eq!(second["params"]["action_id"], "a2");
    socket.vanish();
    assert_eq!(home.ended(&run).await["termination"]["kind"], "incomplete");
    let trace = home
        .host()
        .await
        .ok("runs.get_trace", json!({"run_id": run}))
        .await;
    let records = trace["records"].as_array().unwrap();
    assert_eq!(records.len(), 3, "the first action is recorded: {trace}");
    assert_eq!(
        records[1]["cli_outcome"],
        json!({"kind": "exited", "code": 3})
    );
    assert_eq!(records[1]["prompt"], "a1");
}

#[tokio::test]
async fn n26_texts_are_truncated_between_characters() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    let turns: Vec<Value> = (0..4)
        .map(|n| json!({"output": format!("{}{}", "x".repeat(n), "😀".repeat(5000))}))
        .collect();
    socket
        .ok("runs.record_turns", json!({"run_id": run, "turns": turns}))
        .await;
    let trace = socket
        .ok("runs.get_trace", json!({"run_id": run, "cursor": 1}))
        .await;
    for record in trace["records"].as_array().unwrap() {
        let text = record["output"].as_str().unwrap();
        assert!(text.ends_with("😀…[truncated]") && text.len() <= 16 * 1024);
    }
}

#[tokio::test]
async fn n27_binary_frame_closes_the_connection_with_a_reason() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    socket
        .ws
        .send(Message::binary(vec![1, 2, 3]))
        .await
        .unwrap();
    let (code, reason) = socket.frame().await.unwrap_err();
    assert_eq!(code, 1003);
    assert!(reason.contains("text"), "{reason}");
}
