//! Shortcomings of the original protocol, line by line: access, retention, order. Lines 7, 23, 24 and 26 are covered by the tests of `windlass-runs`,
//! line 1 by `many_runs`, line 25 by `disk`.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use windlass_core::runs::{RunRecord, RunStarted};
use windlass_protocol::EnvironmentInfo;
use windlass_server::{Access, ApiError, HostWireStore, StoredAnswer, WireStore};
use windlass_store::{BeginOutcome, JournalError, RunFilter, RunLog, RunPage, StoredRun};

use super::{MultiTokenDaemon, open_daemon};
use crate::rpc::socket::RpcSocket;
use crate::support::Setup;

#[tokio::test]
async fn n02_only_the_owner_completes_a_run() {
    let home = MultiTokenDaemon::start().await;
    let mut owner = home.unbound().await;
    let run = owner.start("x").await;
    let done = |run_id: &str| json!({"run_id": run_id, "outcome": {"status": "success"}});
    let mut other = home.unbound().await;
    let foreign = other.refused("runs.complete", done(&run)).await;
    let unknown = other.refused("runs.complete", done("nope")).await;
    assert_eq!(
        unknown,
        (
            -32002,
            "not_found".to_owned(),
            "unknown run_id `nope`".to_owned()
        )
    );
    assert_eq!(foreign.2, unknown.2.replace("nope", &run));
    owner.complete(&run).await;
}

#[tokio::test]
async fn n03_ids_of_agents_with_tokens_need_a_binding() {
    let home = MultiTokenDaemon::start().await;
    home.agent("agent-A");
    let params = json!({"agent_id": "agent-A", "intent": "forge"});
    for mut socket in [home.unbound().await, home.host().await] {
        let (code, reason, _) = socket.refused("runs.start", params.clone()).await;
        assert_eq!((code, reason.as_str()), (-32002, "not_authorized"));
        socket.start("nobodys").await;
    }
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    socket.ok("runs.start", params).await;
}

/// Executes every operation on a run, and removes its ID from the results.
async fn everything(socket: &mut RpcSocket, run_id: &str) -> Vec<String> {
    let calls = [
        (
            "runs.complete",
            json!({"run_id": run_id, "outcome": {"status": "done"}}),
        ),
        (
            "runs.record_turns",
            json!({"run_id": run_id, "turns": [{"tool": "t"}]}),
        ),
        (
            "runs.record_model_turn",
            json!({"run_id": run_id, "turn_index": 1}),
        ),
        (
            "runs.cancel",
            json!({"run_id": run_id, "idempotency_key": "k", "reason": "r"}),
        ),
        ("runs.resume", json!({"run_id": run_id})),
        ("runs.get_trace", json!({"run_id": run_id})),
        (
            "runs.get_trace",
            json!({"run_id": run_id, "cursor": 1, "limit": 5}),
        ),
        ("runs.subscribe", json!({"run_id": run_id})),
        ("runs.subscribe", json!({"run_id": run_id, "limit": 5})),
        ("runs.unsubscribe", json!({"run_id": run_id})),
    ];
    let mut answers = Vec::new();
    for (method, params) in calls {
        let mut answer = socket.call(method, params).await;
        answer["id"] = json!(0);
        answers.push(answer.to_string().replace(run_id, "ID"));
    }
    answers
}

#[tokio::test]
async fn n04_run_of_another_owner_and_unknown_run_get_identical_answers() {
    let home = MultiTokenDaemon::start().await;
    let (a, b) = (home.agent("agent-A"), home.agent("agent-B"));
    let mut owner = home.bound("agent-A", &a).await;
    let (open, done) = (owner.start("agent-A").await, owner.start("agent-A").await);
    owner.complete(&done).await;
    for mut stranger in [home.bound("agent-B", &b).await, home.unbound().await] {
        let unknown = everything(&mut stranger, "00000000-0000-4000-8000-000000000000").await;
        for run in [&open, &done] {
            assert_eq!(everything(&mut stranger, run).await, unknown);
        }
    }
    owner.complete(&open).await;
}

/// A log on a disk that is full.
struct Full;

fn full<T>() -> Result<T, JournalError> {
    Err(JournalError::Unavailable("no space is left".to_owned()))
}

#[async_trait]
impl RunLog for Full {
    async fn begin(&self, _: RunStarted, _: &str) -> Result<BeginOutcome, JournalError> {
        full()
    }
    async fn append(&self, _: &StoredRun, _: Vec<RunRecord>) -> Result<StoredRun, JournalError> {
        full()
    }
    async fn take_over(&self, _: &StoredRun, _: &str) -> Result<StoredRun, JournalError> {
        full()
    }
    async fn get(&self, _: &str) -> Result<Option<StoredRun>, JournalError> {
        Ok(None)
    }
    async fn list(&self, _: RunFilter, _: usize) -> Result<Vec<StoredRun>, JournalError> {
        Ok(Vec::new())
    }
    async fn read(&self, _: &str, _: u64, _: usize, _: usize) -> Result<RunPage, JournalError> {
        Ok(RunPage::default())
    }
    async fn watch(&self, _: &str) -> Result<tokio::sync::watch::Receiver<u64>, JournalError> {
        full()
    }
    async fn forget(&self, _: DateTime<Utc>, _: usize) -> Result<usize, JournalError> {
        full()
    }
}

struct FullStore(HostWireStore);

#[async_trait]
impl WireStore for FullStore {
    fn records(&self) -> Arc<dyn windlass_store::HostRecords> {
        self.0.records()
    }
    fn runs(&self) -> Arc<dyn RunLog> {
        Arc::new(Full)
    }
    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError> {
        self.0.answer(key).await
    }
    async fn store_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError> {
        self.0.store_answer(key, answer).await
    }
    async fn environments(&self) -> Result<Vec<EnvironmentInfo>, ApiError> {
        self.0.environments().await
    }
    async fn add_environment(&self, environment: EnvironmentInfo) -> Result<bool, ApiError> {
        self.0.add_environment(environment).await
    }
    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError> {
        self.0.remove_environment(id).await
    }
}

#[tokio::test]
async fn n05_failed_write_is_an_error_and_creates_no_run() {
    let mut setup = Setup::settings(|settings| settings.access = Access::Open);
    setup.store = Arc::new(FullStore(HostWireStore::in_memory(1)));
    let daemon = setup.start().await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let params = json!({"agent_id": "a", "intent": "i"});
    let (code, reason, text) = socket.refused("runs.start", params).await;
    assert_eq!((code, reason.as_str()), (-32603, "storage"));
    assert!(text.contains("no space is left"), "{text}");
    let list = socket.ok("runs.list", json!({"agent_id": "a"})).await;
    assert_eq!(list["runs"], json!([]));
}

#[tokio::test]
async fn n06_pages_have_at_most_two_hundred_entries() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let mut ids = Vec::new();
    for _ in 0..250 {
        ids.push(json!(socket.start("a").await));
    }
    ids.reverse();
    let first = socket.ok("runs.list", json!({"agent_id": "a"})).await;
    let rows = |page: &Value| -> Vec<Value> {
        let runs = page["runs"].as_array().unwrap().iter();
        runs.map(|run| run["run_id"].clone()).collect()
    };
    assert_eq!(rows(&first), ids[..200]);
    let params = json!({"agent_id": "a", "cursor": first["next_cursor"], "limit": 200});
    let second = socket.ok("runs.list", params).await;
    assert_eq!(rows(&second), ids[200..]);
    assert_eq!(second["limit"], 200);
    assert!(second.get("next_cursor").is_none());
    let params = json!({"agent_id": "a", "limit": 201});
    assert_eq!(socket.refused("runs.list", params).await.0, -32602);
}

#[tokio::test]
async fn n08_every_limit_has_its_own_error() {
    let daemon = open_daemon(|settings| settings.rpc.run_limits.open_runs = 2).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let long = json!({"agent_id": "a", "intent": "x".repeat(65 * 1024)});
    let (code, reason, text) = socket.refused("runs.start", long).await;
    assert_eq!((code, reason.as_str()), (-32009, "limit"));
    assert!(text.contains("65536"), "{text}");
    let run = socket.start("a").await;
    socket.start("a").await;
    let start = json!({"agent_id": "a", "intent": "i"});
    let (_, reason, text) = socket.refused("runs.start", start).await;
    assert!(reason == "limit" && text.contains("open runs"), "{text}");
    let turns = json!({"run_id": run, "turns": vec![json!({"tool": "t"}); 257]});
    assert_eq!(socket.refused("runs.record_turns", turns).await.0, -32602);
    let heavy = json!({"policy_rejected": {"rule": "x".repeat(300 * 1024)}});
    let params = json!({"run_id": run, "turns": [heavy]});
    let (code, reason, text) = socket.refused("runs.record_turns", params).await;
    assert_eq!((code, reason.as_str()), (-32009, "limit"));
    assert!(text.contains("too large"), "{text}");
    for _ in 0..7 {
        let params = json!({"run_id": run, "turns": vec![json!({"tool": "t"}); 256]});
        assert_eq!(socket.ok("runs.record_turns", params).await["ok"], true);
    }
    let params = json!({"run_id": run, "turns": vec![json!({"tool": "t"}); 209]});
    let (code, reason, text) = socket.refused("runs.record_turns", params).await;
    assert_eq!((code, reason.as_str()), (-32009, "limit"));
    assert!(text.contains("limit of turns"), "{text}");
}

#[tokio::test]
async fn n09_waiting_call_does_not_block_other_calls() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let action = json!({"id": "a1", "type": "tool_call", "tool": "slow", "parameters": {}});
    let params = json!({"proposal": {"actions": [action]}});
    let waiting = socket.post("proposal.submit", params).await;
    let call = socket.frame().await.unwrap();
    for _ in 0..10 {
        let run = socket.start("a").await;
        socket.complete(&run).await;
    }
    let id = &call["id"];
    let failed = json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}});
    socket.send(failed.to_string()).await;
    let result = socket.answer(waiting).await["result"]["results"][0].clone();
    assert_eq!(
        (&result["status"], &result["error"]),
        (&json!("failed"), &json!("no"))
    );
}

#[tokio::test]
async fn n09_slow_tool_exceeds_its_deadline() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let action =
        json!({"id": "a1", "type": "tool_call", "tool": "slow", "parameters": {}, "timeout_ms": 1});
    let params = json!({"proposal": {"actions": [action]}});
    let (code, reason, _) = socket.refused("proposal.submit", params).await;
    assert_eq!((code, reason.as_str()), (-32004, "deadline"));
}
