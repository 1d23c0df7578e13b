//! A repeated request gets the first response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use windlass_protocol::{EnvironmentInfo, ErrorCode};
use windlass_server::{ApiError, HostWireStore, StoredAnswer, WireStore};
use windlass_store::MemoryRunLog;

use crate::support::{Setup, TOKEN, TestDaemon, soon, text};

#[tokio::test]
async fn r37_equal_repeat_is_recognised_after_later_turns() {
    let daemon = TestDaemon::start().await;
    let tool = json!({"namespace": "tau_bench", "name": "get_reservation", "description": "", "defer_loading": false,
        "input_schema": {"type": "object"}});
    let thread = daemon.thread(json!({"dynamic_tools": [tool]})).await;
    let mut events = daemon.events(&thread, 0).await;
    let mut answers: Vec<(String, Value, Value, u16)> = Vec::new();
    for (prompt, waits) in [
        ("SHELL now", "approval.required"),
        ("LOOKUP it", "tool_call.requested"),
        ("ASK me", "user_input.required"),
    ] {
        let turn = daemon.turn(&thread, json!({ "prompt": prompt })).await;
        let wait = events.until(waits).await.pop().unwrap().data["payload"].clone();
        let (path, equal, other, status) = match waits {
            "approval.required" => (
                format!("/v1/approvals/{}", text(&wait["approval_id"])),
                json!({"decision": "allow"}),
                json!({"decision": "deny"}),
                200,
            ),
            "tool_call.requested" => (
                format!("{turn}/tool-calls/{}/result", text(&wait["call_id"])),
                json!({"success": true, "content": [{"type": "input_text", "text": "booked"}]}),
                json!({"success": false}),
                202,
            ),
            _ => (
                format!(
                    "/v1/user-input/{}/{}",
                    thread.trim_start_matches("/v1/threads/"),
                    text(&wait["id"])
                ),
                json!({"answers": [{"id": "colour", "label": "Red", "value": "red"}]}),
                json!({"answers": [{"id": "colour", "label": "Blue", "value": "blue"}]}),
                200,
            ),
        };
        daemon
            .client
            .post(&path, equal.clone())
            .await
            .expect(status);
        events.until("turn.completed").await;
        answers.push((path, equal, other, status));
    }
    daemon.say(&thread, "continue").await;
    for (path, equal, other, status) in answers {
        let repeated = daemon.client.post(&path, equal).await;
        assert_eq!(repeated.status, status, "{path}: {:?}", repeated.body);
        assert_eq!(daemon.client.post(&path, other).await.status, 404, "{path}");
    }
    let requests = daemon.model.requests().len();
    assert_eq!(requests, 7, "a repeat starts nothing");
}

/// A store that stores a response only when the test permits it.
struct Slow {
    store: HostWireStore,
    called: Notify,
    released: Notify,
}

#[async_trait]
impl WireStore for Slow {
    fn records(&self) -> Arc<dyn windlass_store::HostRecords> {
        self.store.records()
    }
    fn runs(&self) -> std::sync::Arc<dyn windlass_store::RunLog> {
        self.store.runs()
    }
    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError> {
        self.store.answer(key).await
    }
    async fn store_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError> {
        self.called.notify_one();
        self.released.notified().await;
        self.store.store_answer(key, answer).await
    }
    async fn environments(&self) -> Result<Vec<EnvironmentInfo>, ApiError> {
        self.store.environments().await
    }
    async fn add_environment(&self, environment: EnvironmentInfo) -> Result<bool, ApiError> {
        self.store.add_environment(environment).await
    }
    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError> {
        self.store.remove_environment(id).await
    }
}

#[tokio::test]
async fn r8_response_is_stored_for_a_disconnected_client() {
    let store = Arc::new(Slow {
        store: HostWireStore::in_memory(10),
        called: Notify::new(),
        released: Notify::new(),
    });
    let setup = Setup {
        store: Arc::clone(&store) as Arc<dyn WireStore>,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let connections = || async {
        let metrics = daemon.client.get("/metrics").await;
        let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("windlass_connections "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let body = r#"{"prompt":"SILENT please"}"#;
    let mut leaving = TcpStream::connect(daemon.client.address).await.unwrap();
    let request = format!(
        "POST {thread}/turns HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    leaving.write_all(request.as_bytes()).await.unwrap();
    soon(store.called.notified()).await;
    drop(leaving);
    // The second client is connected, and the daemon has noticed that the first disconnected.
    soon(async {
        while connections().await > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    store.released.notify_one();
    let again = daemon.client.with("idempotency-key", "k");
    let path = format!("{thread}/turns");
    let reply = again.raw("POST", &path, Some(body)).await;
    assert_eq!(reply.header("idempotency-replayed"), Some("true"));
    let answer = reply.expect(201);
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["turns"].as_array().unwrap().len(), 1);
    assert_eq!(detail["turns"][0]["id"], answer["turn"]["id"]);
}

/// A store that cannot store its first response.
struct Forgetful {
    store: HostWireStore,
    has_forgotten: AtomicBool,
}

#[async_trait]
impl WireStore for Forgetful {
    fn records(&self) -> Arc<dyn windlass_store::HostRecords> {
        self.store.records()
    }
    fn runs(&self) -> std::sync::Arc<dyn windlass_store::RunLog> {
        HostWireStore::in_memory(1).runs()
    }
    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError> {
        self.store.answer(key).await
    }
    async fn store_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError> {
        if !self.has_forgotten.swap(true, Ordering::SeqCst) {
            return Err(ApiError::new(ErrorCode::StoreUnavailable, "it is full"));
        }
        self.store.store_answer(key, answer).await
    }
    async fn environments(&self) -> Result<Vec<EnvironmentInfo>, ApiError> {
        self.store.environments().await
    }
    async fn add_environment(&self, environment: EnvironmentInfo) -> Result<bool, ApiError> {
        self.store.add_environment(environment).await
    }
    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError> {
        self.store.remove_environment(id).await
    }
}

#[tokio::test]
async fn r8_turn_with_a_lost_response_is_found_by_its_key() {
    let setup = Setup {
        store: Arc::new(Forgetful {
            store: HostWireStore::in_memory(10),
            has_forgotten: AtomicBool::new(false),
        }),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let path = format!("{thread}/turns");
    let body = json!({"prompt": "SILENT please"});
    let keyed = daemon.client.with("idempotency-key", "k");
    assert_eq!(keyed.post(&path, body.clone()).await.status, 503);
    let found = keyed.post(&path, body.clone()).await.expect(201);
    assert_eq!(found["turn"]["status"], "in_progress");
    let again = keyed.post(&path, body.clone()).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.expect(201), found);
    let other = daemon.client.with("idempotency-key", "other");
    assert_eq!(other.post(&path, body).await.code(), "turn_active");
    let turns = daemon.detail(&thread).await["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 1);
    assert_eq!(turns[0]["id"], found["turn"]["id"]);
}

#[tokio::test]
async fn queued_input_with_a_lost_response_is_found_by_its_key() {
    let daemon = forgetful().await;
    let thread = daemon.thread(json!({})).await;
    let path = format!("{thread}/turns");
    let busy = json!({"prompt": "SILENT please"});
    daemon.client.post(&path, busy).await.expect(201);
    let body = json!({"prompt": "next", "on_busy": "queue"});
    let keyed = daemon.client.with("idempotency-key", "k");
    assert_eq!(keyed.post(&path, body.clone()).await.status, 503);
    let found = keyed.post(&path, body).await.expect(201);
    assert_eq!(found["turn"]["status"], "queued");
    let queue = daemon.client.get(&format!("{thread}/queue")).await;
    let queue = queue.expect(200)["queue"].clone();
    assert_eq!(queue.as_array().unwrap().len(), 1);
    assert_eq!(queue[0]["turn_id"], found["turn"]["id"]);
}

/// Starts a daemon whose store loses its first response.
async fn forgetful() -> TestDaemon {
    let setup = Setup::default();
    let runs = Arc::new(MemoryRunLog::default());
    let store = Arc::new(Forgetful {
        store: HostWireStore::new(setup.journal.host_records(), runs, 10),
        has_forgotten: AtomicBool::new(false),
    });
    Setup { store, ..setup }.start().await
}

fn ids(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|line| text(&line["id"])).collect()
}

#[tokio::test]
async fn r8_thread_with_a_lost_response_is_found_by_its_key() {
    let daemon = forgetful().await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let body = json!({"title": "once"});
    assert_eq!(keyed.post("/v1/threads", body.clone()).await.status, 503);
    let found = keyed.post("/v1/threads", body.clone()).await.expect(201);
    assert_eq!(found["title"], "once");
    let again = keyed.post("/v1/threads", body.clone()).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.expect(201), found);
    let list = daemon.client.get("/v1/threads").await.expect(200);
    assert_eq!(ids(&list), [text(&found["id"])]);
    let other = daemon.client.with("idempotency-key", "other");
    let other = other.post("/v1/threads", body).await.expect(201);
    assert_ne!(other["id"], found["id"]);
}

#[tokio::test]
async fn r8_forks_with_lost_responses_are_created_once() {
    for (verb, body) in [
        ("fork", json!({})),
        ("undo", json!({})),
        ("retry", json!({"prompt": "better"})),
    ] {
        let daemon = forgetful().await;
        let parent = daemon.thread(json!({})).await;
        daemon.say(&parent, "first").await;
        daemon.say(&parent, "second").await;
        let path = format!("{parent}/{verb}");
        let keyed = daemon.client.with("idempotency-key", "k");
        assert_eq!(keyed.post(&path, body.clone()).await.status, 503, "{verb}");
        let made = keyed.post(&path, body.clone()).await.expect(201);
        let again = keyed.post(&path, body.clone()).await.expect(201);
        assert_eq!(again, made, "{verb}");
        let thread = if verb == "fork" {
            &made
        } else {
            &made["thread"]
        };
        let list = daemon.client.get("/v1/threads").await.expect(200);
        assert_eq!(ids(&list).len(), 2, "{verb}");
        assert!(ids(&list).contains(&text(&thread["id"])), "{verb}");
        let fork = format!("/v1/threads/{}", text(&thread["id"]));
        let turns = daemon.detail(&fork).await["turns"].clone();
        let expected = if verb == "undo" { 1 } else { 2 };
        assert_eq!(turns.as_array().unwrap().len(), expected, "{verb}");
    }
}

#[tokio::test]
async fn r8_compaction_steering_and_environment_with_lost_responses_are_executed_once() {
    let daemon = forgetful().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "first").await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let path = format!("{thread}/compact");
    assert_eq!(keyed.post(&path, json!({})).await.status, 503);
    let made = keyed.post(&path, json!({})).await.expect(202);
    let turns = daemon.detail(&thread).await["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 2);
    assert_eq!(turns[1]["id"], made["turn"]["id"]);

    let daemon = forgetful().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "SILENT please"}))
        .await;
    let path = format!("{turn}/steer");
    let keyed = daemon.client.with("idempotency-key", "k");
    let words = json!({"prompt": "louder"});
    assert_eq!(keyed.post(&path, words.clone()).await.status, 503);
    let steered = keyed.post(&path, words.clone()).await.expect(200);
    assert_eq!(steered["steer_count"], 1);
    let other = daemon.client.with("idempotency-key", "other");
    let steered = other.post(&path, words).await.expect(200);
    assert_eq!(steered["steer_count"], 2);
    daemon.model.open();

    let daemon = forgetful().await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let root = daemon.workspace.path().to_str().unwrap();
    let body = json!({"id": "staging", "root": root});
    let path = "/v1/environments";
    assert_eq!(keyed.post(path, body.clone()).await.status, 503);
    let made = keyed.post(path, body.clone()).await.expect(201);
    assert_eq!(made["id"], "staging");
    assert_eq!(daemon.client.post(path, body).await.status, 409);
}

#[tokio::test]
async fn r8_jobs_with_lost_responses_are_created_once() {
    let nightly = json!({"name": "n", "prompt": "hi", "rrule": "FREQ=HOURLY;INTERVAL=1"});
    let fleet = json!({"tasks": [{"id": "t", "instructions": "hi"}]});
    for (path, body, id, list) in [
        ("/v1/tasks", json!({"prompt": "hi"}), "/id", "/v1/tasks"),
        ("/v1/automations", nightly.clone(), "/id", "/v1/automations"),
        ("/run", json!({}), "/id", "/runs"),
        ("/v1/fleet/runs", fleet, "/run/id", "/v1/fleet/runs"),
    ] {
        let daemon = forgetful().await;
        let (mut path, mut list) = (path.to_owned(), list.to_owned());
        if path == "/run" {
            let made = daemon.client.post("/v1/automations", nightly.clone()).await;
            let automation = format!("/v1/automations/{}", text(&made.expect(201)["id"]));
            (path, list) = (automation.clone() + &path, automation + &list);
        }
        let keyed = daemon.client.with("idempotency-key", "k");
        assert_eq!(keyed.post(&path, body.clone()).await.status, 503, "{path}");
        let made = keyed.post(&path, body.clone()).await;
        assert!([200, 201].contains(&made.status), "{path}: {}", made.status);
        let made = made.json();
        let again = keyed.post(&path, body.clone()).await;
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.json(), made, "{path}");
        let listed = daemon.client.get(&list).await.expect(200);
        let lists = [&listed, &listed["tasks"], &listed["runs"]];
        let lines = lists.into_iter().find_map(Value::as_array).unwrap();
        let lines: Vec<_> = lines.iter().map(|line| text(&line["id"])).collect();
        assert_eq!(lines, [text(made.pointer(id).unwrap())], "{path}");
    }
}

#[tokio::test]
async fn repeated_turn_start_is_recognised_after_later_turns() {
    for (verb, body, status) in [
        ("turns", json!({"prompt": "first"}), 201),
        ("compact", json!({}), 202),
    ] {
        let daemon = forgetful().await;
        let thread = daemon.thread(json!({})).await;
        daemon.say(&thread, "something").await;
        let since = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
        let mut events = daemon.events(&thread, since).await;
        let keyed = daemon.client.with("idempotency-key", "k");
        let path = format!("{thread}/{verb}");
        assert_eq!(keyed.post(&path, body.clone()).await.status, 503, "{verb}");
        let ended = events.until("turn.completed").await;
        let lost = ended.last().unwrap().data["turn_id"].clone();
        daemon.say(&thread, "second").await;
        let turns = daemon.detail(&thread).await["turns"].clone();
        let repeated = keyed.post(&path, body).await.expect(status);
        assert_eq!(repeated["turn"]["id"], lost, "{verb}");
        assert_eq!(daemon.detail(&thread).await["turns"], turns, "{verb}");
    }
}

#[tokio::test]
async fn repeated_retry_does_not_change_a_used_fork() {
    let daemon = forgetful().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "one").await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let path = format!("{thread}/retry");
    assert_eq!(keyed.post(&path, json!({})).await.status, 503);
    let list = daemon.client.get("/v1/threads").await.expect(200);
    let fork = ids(&list).into_iter().find(|id| !thread.ends_with(id));
    let fork = format!("/v1/threads/{}", fork.unwrap());
    let first = daemon.events(&fork, 0).await.until("turn.completed").await;
    let first = first.last().unwrap().data["turn_id"].clone();
    let body = json!({"prompt": "SILENT please"});
    let turn = daemon.client.post(&format!("{fork}/turns"), body).await;
    let turn = turn.expect(201)["turn"]["id"].clone();
    let repeated = keyed.post(&path, json!({})).await;
    assert_eq!(repeated.expect(201)["turn"]["id"], first);
    let detail = daemon.detail(&fork).await;
    assert_eq!(
        detail["turns"].as_array().unwrap().last().unwrap()["id"],
        turn
    );
}
