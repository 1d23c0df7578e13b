//! Data of a turn: an unreadable value is refused from every source, and no turn runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use windlass_core::events::Event;
use windlass_core::typed_id::SessionId;
use windlass_runtime::SqliteStore;
use windlass_server::{Access, Settings};
use windlass_store::{Batch, Journal, StreamKey};

use super::open_daemon;
use crate::rpc::socket::RpcSocket;
use crate::support::{Setup, TestDaemon, soon};

/// Field values that must not start a turn, and the error code for each.
fn refused_fields() -> Vec<(&'static str, Value, &'static str)> {
    let tool = |field: &str, value: Value| {
        let mut tool = json!({"name": "x", "description": "", "input_schema": {"type": "object"}});
        tool[field] = value;
        json!([tool])
    };
    vec![
        ("input_summary", json!(7), "invalid_field"),
        ("model", json!({"name": "x"}), "invalid_field"),
        ("mode", json!("turbo"), "invalid_field"),
        ("mode", json!(["plan"]), "invalid_field"),
        ("allow_shell", json!("no"), "invalid_field"),
        ("trust_mode", json!(0), "invalid_field"),
        ("auto_approve", json!("false"), "invalid_field"),
        ("dynamic_tools", json!([7]), "invalid_field"),
        ("dynamic_tools", json!([{"name": "x"}]), "invalid_field"),
        (
            "dynamic_tools",
            tool("input_schema", json!("any")),
            "invalid_tool_spec",
        ),
        (
            "dynamic_tools",
            tool("timeout_ms", json!(-1)),
            "invalid_field",
        ),
        (
            "environment_id",
            json!("elsewhere"),
            "environment_not_found",
        ),
        ("environment_id", json!({"id": "local"}), "invalid_field"),
        ("reasoning_effort", json!(7), "invalid_field"),
        ("allowed_tools", json!("*"), "invalid_field"),
        ("allowed_tools", json!([["shell"]]), "invalid_field"),
        ("disallowed_tools", json!({"shell": true}), "invalid_field"),
        ("disallowed_tools", json!([null]), "invalid_field"),
    ]
}

#[tokio::test]
async fn request_with_an_invalid_value_starts_nothing() {
    let daemon = open_daemon(|_| {}).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/");
    for (field, value, code) in refused_fields() {
        let mut body = json!({"prompt": "hello"});
        body[field] = value;
        let answer = daemon
            .client
            .post(&format!("{thread}/turns"), body.clone())
            .await;
        assert!((400..500).contains(&answer.status), "{body}");
        assert_eq!(answer.code(), code, "{body}: {:?}", answer.body);

        body["thread_id"] = json!(id);
        let (number, ..) = socket.refused("turns.start", body.clone()).await;
        assert!([-32602, -32002].contains(&number), "{body}: {number}");
    }
    assert_eq!(daemon.detail(&thread).await["latest_seq"], 1);
    assert_eq!(daemon.model.requests().len(), 0);
}

/// The type of a record, the JSON pointer of a value in it, and the value.
type Case = (&'static str, &'static str, Value);

/// Changes of a recorded input or of the record that starts its turn.
fn unreadable_records() -> Vec<Case> {
    let controls = "/data/message/controls";
    let mut cases = vec![
        // Old: the fields of an earlier version.
        (
            "input.message",
            controls,
            json!({"hints": {"turn_wishes": {"allowed_tools": ["clock"]}}}),
        ),
        (
            "input.message",
            controls,
            json!({"hints": {"turn_environment": {"environment_id": "local", "cwd": "."}}}),
        ),
        (
            "input.message",
            "/data/message/metadata",
            json!({"turn_labels": {"provider": "p"}}),
        ),
        (
            "turn.started",
            "/data/outline/labels",
            json!({"environment": {"environment_id": "local", "cwd": "."}}),
        ),
        // Unknown: the fields of an unsupported version.
        (
            "input.message",
            "/data/message/controls/sandbox",
            json!("strict"),
        ),
        (
            "input.message",
            "/data/message/controls/turn/denied_hosts",
            json!(["*"]),
        ),
        (
            "input.message",
            "/data/message/controls/turn/environment/network",
            json!(false),
        ),
        (
            "input.message",
            "/data/message/controls/turn/labels/tenant",
            json!("t"),
        ),
        (
            "turn.started",
            "/data/outline/environment/network",
            json!(false),
        ),
    ];
    // Hostile: of another type.
    for field in [
        "model",
        "system_prompt",
        "tools",
        "allowed_tools",
        "disallowed_tools",
        "approve_all",
        "needs_output",
        "interrupt_on_restart",
        "environment",
        "input_summary",
        "labels",
    ] {
        let pointer = format!("/data/message/controls/turn/{field}").leak();
        cases.push(("input.message", pointer, json!({"": 7})));
    }
    for pointer in [
        "/data/message/controls/turn",
        "/data/message/controls/turn/environment/write",
        "/data/message/controls/turn/environment/shell",
        "/data/message/controls/reasoning",
        "/data/message/controls/model_id",
    ] {
        cases.push(("input.message", pointer, json!("yes")));
    }
    cases
}

/// Replaces a value in a recorded event and repairs the hash chain, as a process with access to the file could.
fn forge(data: &Path, session: SessionId, events: &[Arc<Event>], (kind, pointer, value): &Case) {
    let database = Connection::open(data.join("windlass.db")).unwrap();
    let find = "SELECT id FROM streams WHERE key = ?1";
    let stream: i64 = database
        .query_row(find, [session.to_string()], |row| row.get(0))
        .unwrap();
    let is_meant = |event: &Arc<Event>| event.event_type == *kind;
    let forged = events.iter().position(is_meant).unwrap();
    let mut event = serde_json::to_value(&*events[forged]).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    event.pointer_mut(parent).unwrap()[name] = value.clone();
    let forged_bytes = event.to_string().into_bytes();
    let seq = events[forged].seq() as i64;
    let change = "UPDATE records SET form = 0, body = ?1 WHERE stream = ?2 AND seq = ?3";
    let changed = database.execute(change, params![forged_bytes, stream, seq]);
    assert_eq!(changed.unwrap(), 1);

    let before = "SELECT chain FROM records WHERE stream = ?1 AND seq = ?2";
    let mut link: Vec<u8> = database
        .query_row(before, [stream, seq - 1], |row| row.get(0))
        .unwrap();
    for event in &events[forged..] {
        let bytes = if is_meant(event) {
            forged_bytes.clone()
        } else {
            serde_json::to_vec(&**event).unwrap()
        };
        link.extend(event.seq().to_le_bytes());
        link.extend(blake3::hash(&bytes).as_bytes());
        link = blake3::hash(&link).as_bytes().to_vec();
        let change = "UPDATE records SET chain = ?1 WHERE stream = ?2 AND seq = ?3";
        let changed = database.execute(change, params![link, stream, event.seq() as i64]);
        assert_eq!(changed.unwrap(), 1);
    }
}

/// Records an invalid event: a turn starts a second time.
async fn begin_again(store: &SqliteStore, session: SessionId, events: &[Arc<Event>]) {
    let is_start = |event: &&Arc<Event>| event.event_type == "turn.started";
    let started = events.iter().find(is_start).unwrap();
    let first_seq = events.len() as u64 + 1;
    let again = Event {
        sequence: Some(first_seq),
        ..Event::clone(started)
    };
    let (journal, key) = (store.journal(), StreamKey::from(session));
    let claim = journal.claim(&key).await.unwrap();
    let batch = Batch {
        first_seq,
        records: vec![Arc::new(again)],
        ..Batch::default()
    };
    journal.append(&claim, batch).await.unwrap();
}

async fn on_disk(data: &Path, workspace: tempfile::TempDir) -> TestDaemon {
    let setup = Setup {
        workspace,
        data: Some(data.to_owned()),
        ..Setup::settings(|settings: &mut Settings| settings.access = Access::Open)
    };
    setup.start().await
}

#[tokio::test]
async fn unreadable_record_stops_only_its_thread() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let daemon = on_disk(&data, tempfile::tempdir().unwrap()).await;
    let cases = unreadable_records();
    let mut threads = Vec::new();
    // Another thread gets an invalid record, and the last one is unchanged.
    for _ in 0..cases.len() + 2 {
        let thread = daemon.thread(json!({})).await;
        let body = json!({"prompt": "SILENT", "environment_id": "local"});
        daemon.turn(&thread, body).await;
        threads.push(thread);
    }
    daemon.stop.cancel();
    daemon.running.await.unwrap();
    let mut recorded = Vec::new();
    for thread in &threads {
        let session = session_of(thread);
        recorded.push(daemon.runtime.events_for(session).await.unwrap());
    }
    daemon.runtime.shutdown(Duration::ZERO).await;
    let store = daemon.opened.unwrap();
    let misfit = cases.len();
    begin_again(&store, session_of(&threads[misfit]), &recorded[misfit]).await;
    store.close().await;
    for ((thread, events), case) in threads.iter().zip(&recorded).zip(&cases) {
        forge(&data, session_of(thread), events, case);
    }

    let daemon = on_disk(&data, daemon.workspace).await;
    let sound = threads.pop().unwrap();
    let mut events = daemon.events(&sound, 0).await;
    daemon.model.open();
    soon(events.until("turn.completed")).await;
    let mut socket = RpcSocket::connect(daemon.client.address).await;
    let not_fitting: Case = ("turn.started", "", Value::Null);
    for (thread, case) in threads.iter().zip(cases.iter().chain([&not_fitting])) {
        for (verb, body) in [
            ("turns", json!({"prompt": "hello"})),
            ("fork", json!({})),
            ("retry", json!({})),
        ] {
            // A fork that ends before the record does not contain it.
            if *case == not_fitting && verb != "turns" {
                continue;
            }
            let answer = daemon.client.post(&format!("{thread}/{verb}"), body).await;
            let found = (answer.status, answer.code());
            let expected = (503, "store_unavailable".to_owned());
            assert_eq!(found, expected, "{verb} of {case:?}: {:?}", answer.body);
        }
        let id = thread.trim_start_matches("/v1/threads/");
        let body = json!({"thread_id": id, "prompt": "hello"});
        let (number, ..) = socket.refused("turns.start", body).await;
        assert_eq!(number, -32603, "{case:?}");
    }
    let requests = daemon.model.requests();
    assert_eq!(requests.len(), 1, "only the sound thread resumed");
}

fn session_of(thread: &str) -> SessionId {
    let id = thread.trim_start_matches("/v1/threads/thr_");
    format!("session_{id}").parse().unwrap()
}
