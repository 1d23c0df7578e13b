//! Input that cannot be parsed or recorded is reported and never silently dropped; clients of the original protocol find the report in the fields
//! that they read.

use serde_json::json;

use super::open_daemon;
use super::socket::RpcSocket;
use crate::support::MultiTokenDaemon;

#[tokio::test]
async fn unknown_field_is_refused_by_name() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    for (method, params, field, suggestion) in [
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": [{"tool": "t"}, {"tool": "t", "result": 1}]}),
            "turns[1].result",
            Some("output"),
        ),
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": [{"tool": "t", "status": "done"}]}),
            "turns[0].status",
            None,
        ),
        (
            "runs.record_model_turn",
            json!({"run_id": run, "turn_index": 1, "response": "hi"}),
            "response",
            Some("assistant_text"),
        ),
        (
            "runs.record_model_turn",
            json!({"run_id": run, "turn_index": 1, "model": "m"}),
            "model",
            Some("model_id"),
        ),
        (
            "runs.list",
            json!({"agent_id": "a", "limits": 3}),
            "limits",
            Some("limit"),
        ),
        (
            "runs.get_trace",
            json!({"run_id": run, "curser": 3}),
            "curser",
            Some("cursor"),
        ),
        (
            "runs.unsubscribe",
            json!({"run_id": run, "x": 3}),
            "x",
            None,
        ),
    ] {
        let answer = socket.call(method, params).await;
        let error = &answer["error"];
        assert_eq!(error["code"], -32602, "{answer}");
        let data = json!({"reason": "unknown_field", "field": field});
        assert_eq!(error["data"], data, "{answer}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{field}`")), "{message}");
        let hint = suggestion.map(|suggestion| format!("did you mean `{suggestion}`?"));
        assert_eq!(
            message.contains("did you mean"),
            hint.is_some(),
            "{method}: {message}"
        );
        assert!(hint.is_none_or(|hint| message.contains(&hint)), "{message}");
    }
    let trace = socket.ok("runs.get_trace", json!({"run_id": run})).await;
    let records = trace["records"].as_array().unwrap().len();
    assert_eq!(records, 1, "nothing was recorded but the start");
}

#[tokio::test]
async fn extra_fields_of_original_clients_are_named_in_the_answer() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let params = json!({"agent_id": "a", "intent": "i", "harness": "h"});
    let started = socket.ok("runs.start", params).await;
    assert_eq!(started["ignored"], json!(["harness"]));
    let run = &started["run_id"];
    let outcome = json!({"status": "give_up", "tools_called": ["x"], "metrics": {"turn": 1}});
    let params = json!({"run_id": run, "outcome": outcome});
    let ended = socket.ok("runs.complete", params).await;
    let expected = json!(["outcome.tools_called", "outcome.metrics.turn"]);
    assert_eq!(
        ended,
        json!({"run_id": run, "ok": true, "ignored": expected})
    );
    let run = socket.start("a").await;
    let ended = socket.complete(&run).await;
    assert!(ended.get("ignored").is_none(), "{ended}");

    let shake = json!({"protocol_version": 3});
    socket.ok("server.handshake", shake).await;
    let run = socket.start("a").await;
    let turns = json!({"run_id": run, "turns": [{"tool": "t", "action_id": "a1"}]});
    let recorded = socket.ok("runs.record_turns", turns).await;
    assert_eq!(
        recorded,
        json!({"run_id": run, "base_index": 0, "count": 1, "ok": true, "ignored": ["turns[0].action_id"]})
    );
}

#[tokio::test]
async fn empty_turn_and_unknown_status_are_refused() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let run = socket.start("a").await;
    for (method, params) in [
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": [{"tool": "t"}, {}]}),
        ),
        (
            "runs.record_turns",
            json!({"run_id": run, "turns": [{"index": 4}]}),
        ),
        ("runs.list", json!({"agent_id": "a", "status": "done"})),
        (
            "runs.complete",
            json!({"run_id": run, "outcome": {"status": "finished"}}),
        ),
    ] {
        let (code, reason, _) = socket.refused(method, params).await;
        assert_eq!((code, reason.as_str()), (-32602, "invalid_params"));
    }
    let listed = socket.ok("runs.list", json!({"agent_id": "a"})).await;
    assert_eq!(listed["runs"][0]["turn_count"], 0);
    assert_eq!(listed["runs"][0]["status"], "in_progress");

    // The original protocol accepts an empty turn.
    let shake = json!({"protocol_version": 3});
    socket.ok("server.handshake", shake).await;
    let turns = json!({"run_id": run, "turns": [{}]});
    assert_eq!(socket.ok("runs.record_turns", turns).await["count"], 1);
}

#[tokio::test]
async fn unrecorded_write_is_an_error_and_a_result_for_original_clients() {
    let home = MultiTokenDaemon::start().await;
    let mut owner = home.unbound().await;
    let run = owner.start("x").await;
    let turns = |run: &str| json!({"run_id": run, "turns": [{"tool": "t"}]});
    let mut host = home.host().await;
    let foreign = host.refused("runs.record_turns", turns(&run)).await;
    let text = format!("unknown run_id `{run}`");
    assert_eq!(foreign, (-32002, "not_found".to_owned(), text));
    let model_turn = json!({"run_id": run, "turn_index": 1});
    let foreign = host.refused("runs.record_model_turn", model_turn).await;
    assert_eq!(foreign.1, "not_found");
    owner.complete(&run).await;
    let late = owner.refused("runs.record_turns", turns(&run)).await;
    assert_eq!((late.0, late.1.as_str()), (-32010, "run_terminal"));

    let shake = json!({"protocol_version": 3});
    owner.ok("server.handshake", shake).await;
    let late = owner.ok("runs.record_turns", turns(&run)).await;
    assert_eq!(
        late,
        json!({"run_id": run, "base_index": 0, "count": 0, "ok": false, "dropped": "run_terminal"})
    );
}

#[tokio::test]
async fn operator_token_reads_all_runs_and_writes_its_own() {
    let home = MultiTokenDaemon::start().await;
    let token = home.agent("agent-A");
    let mut agent = home.bound("agent-A", &token).await;
    let of_agent = agent.start("agent-A").await;
    let mut operator = home.operator().await;
    let own = operator.start("x").await;
    let listed = operator.ok("runs.list", json!({})).await;
    let ids: Vec<_> = listed["runs"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 2, "{listed}");
    let listed = operator
        .ok("runs.list", json!({"agent_id": "agent-A"}))
        .await;
    assert_eq!(listed["runs"][0]["run_id"], of_agent);
    let trace = operator
        .ok("runs.get_trace", json!({"run_id": of_agent}))
        .await;
    assert_eq!(trace["agent_id"], "agent-A");
    let outcome = json!({"run_id": of_agent, "outcome": {"status": "success"}});
    let refused = operator.refused("runs.complete", outcome).await;
    assert_eq!(refused.1, "not_found");
    operator.complete(&own).await;
    // Revoking a token revokes its read access.
    let (_, client) = home.token("client");
    operator.ok("session.auth", json!({"token": client})).await;
    assert_eq!(
        operator.refused("runs.list", json!({})).await.1,
        "not_authorized"
    );
}

#[tokio::test]
async fn handshake_before_the_token_grants_nothing() {
    let home = MultiTokenDaemon::start().await;
    let mut socket = home.silent().await;
    let shake = json!({"protocol_version": 3});
    let shaken = socket.ok("server.handshake", shake).await;
    assert_eq!(shaken["protocol_version"], 3);
    let (_, token) = home.token("client");
    socket.ok("session.auth", json!({"token": token})).await;
    let run = socket.start("x").await;
    socket.complete(&run).await;

    let mut stranger = home.silent().await;
    let shake = json!({"protocol_version": 3});
    stranger.ok("server.handshake", shake).await;
    let start = json!({"agent_id": "x", "intent": "i"});
    let refused = stranger.refused("runs.start", start).await;
    assert_eq!((refused.0, refused.1.as_str()), (-32001, "auth_required"));
    assert_eq!(stranger.frame().await.unwrap_err().0, 1008);
}
