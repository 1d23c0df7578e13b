//! Invalid input on the socket: a proper error or a clean close, and other clients are not affected.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::open_daemon;
use crate::rpc::socket::RpcSocket;

#[tokio::test]
async fn invalid_frames_are_answered_and_the_connection_stays_open() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let cases = [
        ("", -32700, json!(null)),
        ("{not json", -32700, json!(null)),
        (r#""text""#, -32600, json!(null)),
        (r#"{"id":1,"method":"runs.list"}"#, -32600, json!(1)),
        (
            r#"{"jsonrpc":"1.0","id":"x","method":"runs.list"}"#,
            -32600,
            json!("x"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":[1],"method":"runs.list"}"#,
            -32600,
            json!(null),
        ),
        (r#"{"jsonrpc":"2.0","id":3}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":4,"method":5}"#, -32600, json!(4)),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"runs.bogus"}"#,
            -32601,
            json!(5),
        ),
        (
            r#"{"jsonrpc":"2.0","id":6,"method":"runs.start","params":[]}"#,
            -32602,
            json!(6),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"runs.start","params":{"intent":7}}"#,
            -32602,
            json!(7),
        ),
    ];
    for (text, code, id) in cases {
        socket.send(text).await;
        let frame = socket.frame().await.unwrap();
        let found = (&frame["error"]["code"], &frame["id"]);
        assert_eq!(found, (&json!(code), &id), "{text}: {frame}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    socket.send(deep).await;
    assert_eq!(socket.frame().await.unwrap()["error"]["code"], -32700);
    socket.start("a").await;
}

#[tokio::test]
async fn unknown_parameters_and_stray_responses_are_ignored() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    for stray in [
        json!({"jsonrpc": "2.0", "id": "cb-1", "result": 1}),
        json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "2.0", "id": null, "result": {}}),
    ] {
        socket.send(stray.to_string()).await;
    }
    let params = json!({"agent_id": "a", "intent": "i", "mood": "good"});
    let id = socket.post("runs.start", params).await;
    assert_eq!(socket.frame().await.unwrap()["id"], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_frame_is_refused_and_other_connections_are_unaffected() {
    let daemon = open_daemon(|_| {}).await;
    let address = daemon.client.address;
    let mut other = RpcSocket::connect(address).await;
    let run = other.start("a").await;
    let mut socket = RpcSocket::connect(address).await;
    let big = "x".repeat(20 * 1024 * 1024);
    let sent = socket.ws.send(Message::text(big)).await;
    assert!(sent.is_ok(), "{sent:?}");
    let refusal = socket.frame().await.unwrap();
    assert_eq!(refusal["error"]["code"], -32600);
    let text = refusal["error"]["message"].as_str().unwrap();
    assert!(text.contains("1048576"), "{text}");
    assert_eq!(socket.frame().await.unwrap_err().0, 1009);
    other.complete(&run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flooding_client_does_not_block_others() {
    let daemon = open_daemon(|settings| settings.rpc.limits.queue = 8).await;
    let address = daemon.client.address;
    let mut flood = RpcSocket::connect(address).await;
    let sending = tokio::spawn(async move {
        // The client does not read: eventually the buffers are full and the sender waits.
        for number in 0..20_000_u64 {
            let list = json!({"jsonrpc": "2.0", "id": number, "method": "runs.list", "params": {"agent_id": "a"}});
            let sent = flood.ws.send(Message::text(list.to_string()));
            if tokio::time::timeout(Duration::from_secs(2), sent)
                .await
                .is_err()
            {
                break;
            }
        }
        flood
    });
    let mut other = RpcSocket::connect(address).await;
    for _ in 0..50 {
        let run = other.start("b").await;
        other.complete(&run).await;
    }
    sending.await.unwrap().vanish();
    other.start("b").await;
}

#[tokio::test]
async fn ended_or_unknown_run_cannot_be_completed() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    socket.complete(&run).await;
    let end = |run_id: &str| json!({"run_id": run_id, "outcome": {"status": "failure"}});
    let second = socket.refused("runs.complete", end(&run)).await;
    assert_eq!((second.0, second.1.as_str()), (-32010, "run_terminal"));
    let unknown = socket.refused("runs.complete", end("x")).await;
    assert_eq!((unknown.0, unknown.1.as_str()), (-32002, "not_found"));
    let list = socket.ok("runs.list", json!({"agent_id": "a"})).await;
    assert_eq!(list["runs"][0]["outcome"], "success");
}

#[tokio::test]
async fn idle_connection_is_closed_with_a_reason() {
    let daemon = open_daemon(|settings| {
        settings.rpc.idle = Duration::from_millis(200);
        settings.rpc.ping = Duration::from_secs(3600);
    })
    .await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let (code, reason) = socket.frame().await.unwrap_err();
    assert_eq!(code, 1001);
    assert!(reason.contains("was idle"), "{reason}");
}

#[tokio::test]
async fn ping_keeps_an_idle_connection_open() {
    let daemon = open_daemon(|settings| {
        settings.rpc.idle = Duration::from_secs(2);
        settings.rpc.ping = Duration::from_millis(100);
    })
    .await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    socket.ok("runs.subscribe", json!({"run_id": run})).await;
    let waited = tokio::time::timeout(Duration::from_secs(4), socket.event()).await;
    assert!(waited.is_err(), "nothing happens in the run: {waited:?}");
    socket.complete(&run).await;
    let end: Value = socket.event().await;
    assert_eq!(
        end["status"], "completed",
        "after twice the idle time: {end}"
    );
}

#[tokio::test]
async fn stopping_server_announces_it() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    socket.start("a").await;
    daemon.stop.cancel();
    let (code, reason) = socket.frame().await.unwrap_err();
    assert_eq!((code, reason.as_str()), (1001, "the server stops"));
    daemon.running.await.unwrap();
}
