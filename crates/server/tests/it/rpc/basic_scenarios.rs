//! The seven scenarios that every daemon of this protocol must support.

use serde_json::json;

use super::{MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;

#[tokio::test]
async fn s1_each_start_has_a_new_id() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let params = json!({"agent_id": "agent-a", "intent": "first goal"});
    let first = socket.ok("runs.start", params).await;
    assert_eq!(first["agent_id"], "agent-a");
    let second = socket.start("agent-a").await;
    assert!(!second.is_empty());
    assert_ne!(first["run_id"], second.as_str());
}

#[tokio::test]
async fn s2_the_current_run_is_set_before_the_start_is_answered() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect_to(daemon.client.address, "/v1/rpc").await;
    let run = socket.start("agent-a").await;
    // A proposal sent right after the response belongs to the run.
    let action = json!({"id": "a1", "type": "tool_call", "tool": "t", "parameters": {}});
    let proposal = socket
        .post(
            "proposal.submit",
            json!({"proposal": {"id": "p1", "actions": [action]}}),
        )
        .await;
    let request = socket.frame().await.unwrap();
    assert_eq!(
        (&request["method"], &request["id"]),
        (&json!("tools.execute"), &json!("cb-1"))
    );
    let answer = json!({"jsonrpc": "2.0", "id": "cb-1", "result": {"done": true}});
    socket.send(answer.to_string()).await;
    let result = socket.answer(proposal).await["result"].clone();
    assert_eq!(result["results"][0]["status"], "succeeded");
    let trace = socket.ok("runs.get_trace", json!({"run_id": run})).await;
    assert_eq!(trace["records"][1]["output"], json!({"done": true}));
    assert_eq!(trace["records"][1]["index"], 0);
}

#[tokio::test]
async fn s3_complete_records_the_status_and_clears_the_current_run() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("agent-a").await;
    let outcome = json!({"status": "success", "summary": "did the thing", "evidence": [], "metrics": {"turns": 1},
        "timestamp": "2026-11-15T18:15:47.189015Z"});
    let params = json!({"run_id": run, "outcome": outcome});
    let done = socket.ok("runs.complete", params).await;
    assert_eq!(done, json!({"run_id": run, "ok": true}));
    let trace = socket.ok("runs.get_trace", json!({"run_id": run})).await;
    let end = &trace["records"][1];
    assert_eq!(end["termination"]["kind"], "outcome");
    assert_eq!(end["termination"]["status"], "success");
    assert_eq!(end["termination"]["outcome"]["summary"], "did the thing");
    // No run is current, so a proposal is not recorded.
    let action = json!({"id": "a1", "type": "tool_call", "tool": "t", "parameters": {}});
    let proposal = socket
        .post(
            "proposal.submit",
            json!({"proposal": {"actions": [action]}}),
        )
        .await;
    let id = socket.frame().await.unwrap()["id"].clone();
    socket
        .send(json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
        .await;
    socket.answer(proposal).await;
    let list = socket.ok("runs.list", json!({"agent_id": "agent-a"})).await;
    let rows = list["runs"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["turn_count"]), (1, &json!(0)));
}

#[tokio::test]
async fn s4_completed_then_closed_stays_completed() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.unbound().await;
    let (run, other) = (socket.start("agent-a").await, socket.start("agent-a").await);
    socket.complete(&run).await;
    socket.close().await;
    // The end of the other run shows that the cleanup of the connection has finished.
    assert_eq!(
        home.ended(&other).await["termination"]["kind"],
        "incomplete"
    );
    let mut host = home.host().await;
    let trace = host.ok("runs.get_trace", json!({"run_id": run})).await;
    assert_eq!(trace["records"].as_array().unwrap().len(), 2);
    assert_eq!(trace["records"][1]["termination"]["status"], "success");
}

#[tokio::test]
async fn s5_dropped_run_is_incomplete() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.unbound().await;
    let run = socket.start("agent-a").await;
    socket.close().await;
    assert_eq!(
        home.ended(&run).await["termination"],
        json!({"kind": "incomplete"})
    );
}

#[tokio::test]
async fn s6_start_requires_an_agent_and_accepts_a_name() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.unbound().await;
    let (code, reason, text) = socket
        .refused("runs.start", json!({"intent": "orphan"}))
        .await;
    assert_eq!((code, reason.as_str()), (-32602, "no_agent"));
    assert!(
        text.starts_with("runs.start could not resolve an agent_id"),
        "{text}"
    );
    let params = json!({"agent_name": "Bulldozer Agent", "intent": "one-shot run"});
    let started = socket.ok("runs.start", params).await;
    assert_eq!(started["agent_id"], "name:bulldozer-agent");
    let all = home.host().await.ok("runs.list", json!({})).await;
    assert_eq!(all["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn s7_bound_connection_cannot_write_as_another_agent() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    let mut socket = home.bound("agent-A", &token).await;
    let params = json!({"agent_id": "agent-B", "intent": "forge under B"});
    let (code, reason, text) = socket.refused("runs.start", params).await;
    assert_eq!((code, reason.as_str()), (-32010, "agent_mismatch"));
    assert_eq!(
        text,
        "runs.start `agent_id` (`agent-B`) does not match this session's bound agent: a bound connection can only \
         record runs under its own agent"
    );
    let mut host = home.host().await;
    let of_b = host.ok("runs.list", json!({"agent_id": "agent-B"})).await;
    assert_eq!(of_b, json!({"agent_id": "agent-B", "runs": []}));
    for params in [
        json!({"agent_id": "agent-A", "intent": "explicit"}),
        json!({"intent": "derived"}),
    ] {
        let started = socket.ok("runs.start", params).await;
        assert_eq!(started["agent_id"], "agent-A");
    }
}
