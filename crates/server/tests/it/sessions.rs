//! Saved sessions: named bookmarks of threads.

use std::sync::Arc;

use chrono::Utc;
use serde_json::{Value, json};
use windlass_core::typed_id::SessionId;
use windlass_runtime::Journal;
use windlass_server::{HostWireStore, WireStore};
use windlass_store::HostRecord;

use crate::support::{Client, MultiTokenDaemon, Reply, Setup, TestDaemon, soon, text};

/// Saves a thread and returns the path of the session.
async fn saved(client: &Client, thread: &str, more: Value) -> String {
    let mut body = json!({ "thread_id": id_of(thread) });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let saved = client.post("/v1/sessions", body).await.expect(201);
    format!("/v1/sessions/{}", text(&saved["session_id"]))
}

fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

async fn put(client: &Client, body: Value) -> Reply {
    let body = body.to_string();
    client.raw("PUT", "/v1/sessions", Some(&body)).await
}

async fn thread_with(daemon: &TestDaemon, prompts: &[&str]) -> String {
    let thread = daemon.thread(json!({"title": "T"})).await;
    for prompt in prompts {
        daemon.say(&thread, prompt).await;
    }
    thread
}

fn titles(list: &Value) -> Vec<String> {
    let lines = list.as_array().unwrap().iter();
    lines.map(|line| text(&line["title"])).collect()
}

async fn listed(client: &Client, query: &str) -> Vec<String> {
    let list = client.get(&format!("/v1/sessions{query}")).await;
    titles(&list.expect(200)["sessions"])
}

/// Returns the messages of a session as `role: text`.
fn messages(session: &Value) -> Vec<String> {
    let messages = session["messages"].as_array().unwrap().iter();
    let line = |message: &Value| {
        let content = text(&message["content"][0]["text"]);
        format!("{}: {content}", text(&message["role"]))
    };
    messages.map(line).collect()
}

#[tokio::test]
async fn saved_session_is_a_position_and_resuming_forks_there() {
    let daemon = TestDaemon::start().await;
    let (client, model) = (&daemon.client, &daemon.model);
    let thread = thread_with(&daemon, &["first", "second"]).await;
    let body = json!({"thread_id": id_of(&thread), "title": "  A good place "});
    let answer = client.post("/v1/sessions", body).await.expect(201);
    let session = format!("/v1/sessions/{}", text(&answer["session_id"]));
    assert_eq!(
        answer,
        json!({"session_id": id_of(&session), "thread_id": id_of(&thread), "message_count": 4, "title": "A good place"})
    );
    daemon.say(&thread, "third").await;

    let shown = client.get(&session).await.expect(200);
    let expected = [
        "user: first",
        "assistant: Hello from the model. You said: first",
        "user: second",
        "assistant: Hello from the model. You said: second",
    ];
    assert_eq!(messages(&shown), expected);
    assert_eq!(shown["system_prompt"], json!(null));
    let metadata = &shown["metadata"];
    assert_eq!(metadata["model"], "demo-model");
    assert_eq!(metadata["mode"], "agent");
    assert_eq!(metadata["archived"], false);
    assert_eq!(
        metadata["total_tokens"].as_u64().map(|used| used > 0),
        Some(true)
    );
    let turns = daemon.detail(&thread).await["turns"].clone();
    assert_eq!(metadata["turn_id"], turns[1]["id"]);

    let peek = format!("{session}?peek=true&entries=3");
    let peek = client.get(&peek).await.expect(200);
    let entries = peek["entries"].as_array().unwrap();
    let entries: Vec<_> = entries.iter().map(|entry| text(&entry["text"])).collect();
    let last = expected[1..]
        .iter()
        .map(|line| line.split_once(": ").unwrap().1);
    assert_eq!(entries, last.collect::<Vec<_>>());
    assert_eq!(peek["entries"][0]["kind"], "assistant");
    assert_eq!(peek["session_id"], id_of(&session));
    assert_eq!(
        (
            &peek["message_count"],
            &peek["omitted_before"],
            &peek["live"]
        ),
        (&json!(4), &json!(1), &json!(false))
    );
    let peek = client.get(&format!("{session}?peek=true&entries=5000"));
    assert_eq!(
        peek.await.expect(200)["entries"].as_array().unwrap().len(),
        4
    );

    let resume = format!("{session}/resume-thread");
    let resumed = client.raw("POST", &resume, None).await.expect(201);
    assert_eq!(resumed["session_id"], id_of(&session));
    assert_eq!(resumed["message_count"], 4);
    assert!(resumed["summary"].is_string());
    let fork = format!("/v1/threads/{}", text(&resumed["thread_id"]));
    assert_ne!(fork, thread);
    daemon.say(&fork, "another way").await;
    let sent: Vec<_> = model
        .messages()
        .iter()
        .map(|line| line.replace("agent:", "assistant:"))
        .collect();
    assert_eq!(sent[..4], expected);
    assert_eq!(sent[4..], ["user: another way"]);

    // A saved fork refers to its own turn IDs, also for shared turns.
    let of_fork = saved(client, &fork, json!({})).await;
    let shown = client.get(&of_fork).await.expect(200);
    assert_eq!(shown["metadata"]["message_count"], 6);
    assert_eq!(messages(&shown).len(), 6);
    let other = json!({"mode": "plan", "model": "any-name"});
    let resumed = client
        .post(&format!("{of_fork}/resume-thread"), other)
        .await;
    let other = format!("/v1/threads/{}", text(&resumed.expect(201)["thread_id"]));
    let other = daemon.detail(&other).await;
    assert_eq!(other["thread"]["mode"], "plan");
    assert_eq!(other["thread"]["model"], "any-name");
    assert_eq!(other["turns"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn preview_and_title_show_no_credential_or_long_text() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let long = format!("token=hunter2 {}", "word ".repeat(200));
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, &long).await;
    let session = saved(client, &thread, json!({})).await;
    let peek = client
        .get(&format!("{session}?peek=true"))
        .await
        .expect(200);
    assert!(!peek.to_string().contains("hunter2"), "{peek:#}");
    let entry = &peek["entries"][0];
    assert_eq!(
        (&entry["redacted"], &entry["truncated"]),
        (&json!(true), &json!(true))
    );
    assert!(
        text(&entry["text"]).starts_with("token=[redacted] word"),
        "{entry}"
    );
    assert_eq!(text(&entry["text"]).chars().count(), 400);
    assert!(
        text(&peek["title"]).starts_with("token=[redacted]"),
        "{peek:#}"
    );
    // The session contains only the messages.
    let whole = client.get(&session).await.expect(200);
    assert!(messages(&whole)[0].contains("token=hunter2"));
}

#[tokio::test]
async fn session_ending_at_a_fork_is_shown_and_resumes() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = thread_with(&daemon, &["one", "two"]).await;
    let fork = client.post(&format!("{thread}/fork"), json!({})).await;
    let fork = format!("/v1/threads/{}", text(&fork.expect(201)["id"]));
    let session = saved(client, &fork, json!({})).await;
    daemon.say(&fork, "three").await;
    let shown = client.get(&session).await.expect(200);
    assert_eq!(messages(&shown).len(), 4);
    let peek = client
        .get(&format!("{session}?peek=1&entries=1"))
        .await
        .expect(200);
    assert_eq!(
        peek["entries"][0]["text"],
        "Hello from the model. You said: two"
    );
    let resumed = client.post(&format!("{session}/resume-thread"), json!({}));
    let resumed = format!(
        "/v1/threads/{}",
        text(&resumed.await.expect(201)["thread_id"])
    );
    let turns = daemon.detail(&resumed).await["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn saving_again_moves_the_session_and_preserves_its_name() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = thread_with(&daemon, &["first"]).await;
    // The first time there is no session to overwrite.
    let made = put(client, json!({"thread_id": id_of(&thread)}))
        .await
        .expect(200);
    let id = text(&made["session_id"]);
    assert_eq!(made["session"]["id"], id);
    assert_eq!(made["session"]["title"], "T");
    assert_eq!(made["session"]["message_count"], 2);
    let session = format!("/v1/sessions/{id}");
    let change = json!({"title": "Mine", "archived": true});
    client.patch(&session, change).await.expect(200);
    daemon.say(&thread, "second").await;
    for body in [
        json!({"thread_id": id_of(&thread)}),
        json!({"session_id": id}),
        json!({"session_id": id, "thread_id": id_of(&thread)}),
    ] {
        let again = put(client, body).await.expect(200);
        assert_eq!(again["session_id"], id);
        let session = &again["session"];
        assert_eq!(
            (&session["title"], &session["archived"]),
            (&json!("Mine"), &json!(true))
        );
        assert_eq!(session["message_count"], 4);
        assert_eq!(session["created_at"], made["session"]["created_at"]);
    }
    // A thread resumed from a session can overwrite it.
    let resumed = client.post(&format!("{session}/resume-thread"), json!({}));
    let fork = text(&resumed.await.expect(201)["thread_id"]);
    daemon.say(&format!("/v1/threads/{fork}"), "third").await;
    let moved = put(client, json!({"session_id": id, "thread_id": fork})).await;
    let moved = moved.expect(200);
    assert_eq!(moved["session"]["thread_id"], fork);
    assert_eq!(moved["session"]["message_count"], 6);
    let removed = client.raw("DELETE", &thread, None).await;
    assert_eq!(removed.status, 204);
    client.get(&session).await.expect(200);
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_limited() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let (short, long) = (
        thread_with(&daemon, &["a"]).await,
        thread_with(&daemon, &["a", "b"]).await,
    );
    let old = saved(client, &short, json!({"title": "Beta"})).await;
    saved(client, &long, json!({"title": "alpha"})).await;
    saved(client, &short, json!({"title": "100% gamma_"})).await;
    assert_eq!(listed(client, "").await, ["100% gamma_", "alpha", "Beta"]);
    assert_eq!(
        listed(client, "?sort=name").await,
        ["100% gamma_", "alpha", "Beta"]
    );
    assert_eq!(listed(client, "?sort=size&limit=1").await, ["alpha"]);
    assert_eq!(listed(client, "?limit=0").await.len(), 1);
    assert_eq!(listed(client, "?search=BETA").await, ["Beta"]);
    assert_eq!(
        listed(client, "?search=%25").await,
        ["100% gamma_"],
        "no pattern"
    );
    assert_eq!(
        listed(client, &format!("?search={}", id_of(&old))).await,
        ["Beta"]
    );
    let workspace = text(&daemon.detail(&short).await["thread"]["workspace"]);
    let workspace: String = workspace
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    assert_eq!(
        listed(client, &format!("?workspace={workspace}/"))
            .await
            .len(),
        3
    );
    assert!(listed(client, "?workspace=/elsewhere").await.is_empty());

    let change = json!({"archived": true, "title": "Zeta"});
    let changed = client.patch(&old, change.clone()).await.expect(200);
    assert_eq!(changed["changes"], change);
    assert_eq!(changed["session"]["title"], "Zeta");
    let changed = client.patch(&old, change).await.expect(200);
    assert_eq!(changed["changes"], json!({}), "nothing is different");
    assert_eq!(listed(client, "").await, ["100% gamma_", "alpha"]);
    assert_eq!(listed(client, "?archived_only=true").await, ["Zeta"]);
    assert_eq!(listed(client, "?include_archived=true").await[0], "Zeta");

    let lines = client.get("/v1/sessions/summary?sort=size&limit=1").await;
    let lines = lines.expect(200);
    assert_eq!(titles(&lines), ["alpha"]);
    assert_eq!(lines[0]["preview"], "alpha");
    assert_eq!(lines[0]["message_count"], 4);
    assert_eq!(lines[0]["thread_id"], id_of(&long));
    for query in ["sort=age", "limit=x", "archived_only=maybe"] {
        for list in ["/v1/sessions", "/v1/sessions/summary"] {
            let refused = client.get(&format!("{list}?{query}")).await;
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (400, "invalid_query")
            );
        }
    }
}

#[tokio::test]
async fn active_turn_or_empty_thread_is_not_saved() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = daemon.thread(json!({})).await;
    let body = json!({ "thread_id": id_of(&thread) });
    let empty = client.post("/v1/sessions", body.clone()).await;
    assert_eq!(
        (empty.status, empty.code().as_str()),
        (400, "nothing_to_save")
    );
    assert_eq!(put(client, body.clone()).await.code(), "nothing_to_save");

    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    for refused in [
        client.post("/v1/sessions", body.clone()).await,
        put(client, body.clone()).await,
    ] {
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "turn_active")
        );
        let named = refused.json()["error"]["details"]["turn_id"].clone();
        assert_eq!(named, id_of(&turn));
    }
    assert!(listed(client, "").await.is_empty(), "nothing was saved");
    daemon.model.open();
    events.until("turn.completed").await;
    let session = saved(client, &thread, json!({})).await;
    let shown = client.get(&session).await.expect(200);
    assert_eq!(shown["metadata"]["title"], "SLOW please", "by message text");

    // A saved session can be resumed while the next turn of its thread is running.
    let mut events = daemon.events(&thread, 0).await;
    events.until("turn.completed").await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    events.until("approval.required").await;
    let resumed = client.post(&format!("{session}/resume-thread"), json!({}));
    let fork = format!(
        "/v1/threads/{}",
        text(&resumed.await.expect(201)["thread_id"])
    );
    assert_eq!(
        daemon.detail(&fork).await["turns"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(messages(&client.get(&session).await.expect(200)).len(), 2);
}

#[tokio::test]
async fn sessions_are_removed_separately_or_with_their_thread() {
    let data = tempfile::tempdir().unwrap();
    let start = || {
        let workspace = data.path().to_owned();
        let setup = Setup {
            data: Some(data.path().join("store")),
            ..Setup::settings(|settings| settings.workspace = workspace)
        };
        setup.start()
    };
    let daemon = start().await;
    let client = &daemon.client;
    let (thread, other) = (
        thread_with(&daemon, &["one"]).await,
        thread_with(&daemon, &["two"]).await,
    );
    let mut sessions = Vec::new();
    for thread in [&thread, &thread, &other] {
        sessions.push(saved(client, thread, json!({})).await);
    }
    let removed = client.raw("DELETE", &sessions[0], None).await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    let again = client.raw("DELETE", &sessions[0], None).await;
    assert_eq!(
        (again.status, again.code().as_str()),
        (404, "session_not_found")
    );
    daemon.detail(&thread).await;
    client.get(&sessions[1]).await.expect(200);

    // Threads resumed from it remain.
    let resumed = client.post(&format!("{}/resume-thread", sessions[1]), json!({}));
    let fork = format!(
        "/v1/threads/{}",
        text(&resumed.await.expect(201)["thread_id"])
    );
    assert_eq!(client.raw("DELETE", &thread, None).await.status, 204);
    let check = async |daemon: &TestDaemon| {
        let client = &daemon.client;
        assert_eq!(client.get(&sessions[1]).await.code(), "session_not_found");
        let list = client
            .get("/v1/sessions?include_archived=true")
            .await
            .expect(200);
        assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(list["sessions"][0]["id"], id_of(&sessions[2]));
        let shown = client.get(&sessions[2]).await.expect(200);
        assert_eq!(messages(&shown)[0], "user: two");
        assert_eq!(
            daemon.detail(&fork).await["turns"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    };
    check(&daemon).await;
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
    check(&start().await).await;
}

#[tokio::test]
async fn invalid_or_unknown_values_are_refused_by_name() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = thread_with(&daemon, &["hello"]).await;
    let session = saved(client, &thread, json!({})).await;
    let unknown = format!("sess_{}", "0".repeat(32));
    let encoded = id_of(&session).replace('_', "%5F%00");
    for id in [
        unknown.as_str(),
        "sess_1",
        "%00",
        "..%2F..%2Fthreads",
        &encoded,
        "SUMMARY",
    ] {
        let path = format!("/v1/sessions/{id}");
        for (method, path, body) in [
            ("GET", path.clone(), None),
            ("GET", format!("{path}?peek=true"), None),
            ("PATCH", path.clone(), Some(r#"{"title":"x"}"#)),
            ("DELETE", path.clone(), None),
            ("POST", format!("{path}/resume-thread"), None),
        ] {
            let refused = client.raw(method, &path, body).await;
            let answer = (refused.status, refused.code());
            assert_eq!(
                answer,
                (404, "session_not_found".to_owned()),
                "{method} {path}"
            );
        }
    }
    let no_thread = format!("thr_{}", "0".repeat(32));
    for (body, expected) in [
        (json!({}), (422, "invalid_field")),
        (json!({"thread_id": 7}), (422, "invalid_field")),
        (json!({"thread_id": no_thread}), (404, "thread_not_found")),
        (json!({"thread_id": "../x"}), (404, "thread_not_found")),
    ] {
        let refused = client.post("/v1/sessions", body.clone()).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            expected,
            "{body}"
        );
    }
    for (body, expected) in [
        (json!({}), (422, "invalid_field")),
        (json!({"session_id": unknown}), (404, "session_not_found")),
        (
            json!({"session_id": unknown, "thread_id": id_of(&thread)}),
            (404, "session_not_found"),
        ),
        (
            json!({"session_id": id_of(&session), "thread_id": no_thread}),
            (404, "thread_not_found"),
        ),
    ] {
        let refused = put(client, body.clone()).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            expected,
            "{body}"
        );
    }
    assert_eq!(client.patch(&session, json!({})).await.code(), "no_changes");
    let mode = json!({"mode": "nonsense"});
    let refused = client.post(&format!("{session}/resume-thread"), mode).await;
    assert_eq!(refused.code(), "invalid_field");
}

#[tokio::test]
async fn hostile_titles_are_refused_or_sanitized() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let hostile = "\u{1b}]0;owned\u{7}\r\nline two\u{0}";
    let thread = daemon.thread(json!({ "title": hostile })).await;
    daemon.say(&thread, "hello").await;
    let session = saved(client, &thread, json!({})).await;
    let shown = text(&client.get(&session).await.expect(200)["metadata"]["title"]);
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert!(shown.contains("line two"), "{shown:?}");
    let long = "\u{1F600}".repeat(201);
    for title in [hostile, "a\nb", &long] {
        let body = json!({"thread_id": id_of(&thread), "title": title});
        for refused in [
            client.post("/v1/sessions", body).await,
            client.patch(&session, json!({ "title": title })).await,
        ] {
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (422, "invalid_field")
            );
            assert_eq!(refused.json()["error"]["details"]["field"], "/title");
        }
    }
    let blank = client.patch(&session, json!({"title": "  "})).await;
    assert_eq!(blank.code(), "invalid_field");
    let longest = "\u{1F600}".repeat(200);
    let renamed = client.patch(&session, json!({ "title": longest })).await;
    assert_eq!(renamed.expect(200)["session"]["title"], longest);
    assert_eq!(
        listed(client, "").await,
        [longest],
        "one was saved, by its thread's title"
    );
}

#[tokio::test]
async fn agent_sees_and_saves_only_its_own_sessions() {
    let home = MultiTokenDaemon::start().await;
    let (a, b) = (home.client(&home.agent("a")), home.client(&home.agent("b")));
    let operator = &home.daemon.client;
    let made = a
        .post("/v1/threads", json!({"title": "of a"}))
        .await
        .expect(201);
    let own = format!("/v1/threads/{}", text(&made["id"]));
    home.daemon.say(&own, "hello").await;
    let other_thread = thread_with(&home.daemon, &["secret words"]).await;
    let session = saved(&a, &own, json!({})).await;
    let hidden = saved(operator, &other_thread, json!({"title": "hidden"})).await;

    for (client, session, thread) in [(&b, &session, &own), (&a, &hidden, &other_thread)] {
        for (method, path, body) in [
            ("GET", session.clone(), None),
            ("GET", format!("{session}?peek=true"), None),
            ("PATCH", session.clone(), Some(r#"{"title":"x"}"#)),
            ("DELETE", session.clone(), None),
            ("POST", format!("{session}/resume-thread"), None),
        ] {
            let refused = client.raw(method, &path, body).await;
            assert_eq!(refused.code(), "session_not_found", "{method} {path}");
        }
        let body = json!({ "thread_id": id_of(thread) });
        let refused = client.post("/v1/sessions", body.clone()).await;
        assert_eq!(refused.code(), "thread_not_found");
        assert_eq!(put(client, body).await.code(), "thread_not_found");
        let body = json!({ "session_id": id_of(session) });
        assert_eq!(put(client, body).await.code(), "session_not_found");
    }
    // An agent cannot move its own session to a thread that it may not see.
    let body = json!({"session_id": id_of(&session), "thread_id": id_of(&other_thread)});
    assert_eq!(put(&a, body).await.code(), "thread_not_found");
    assert_eq!(listed(&a, "").await, ["of a"]);
    assert!(listed(&b, "?include_archived=true").await.is_empty());
    assert_eq!(listed(operator, "?sort=name").await, ["hidden", "of a"]);

    let yolo = json!({"mode": "yolo"});
    let refused = a.post(&format!("{session}/resume-thread"), yolo).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (403, "forbidden")
    );
    let resumed = a.post(&format!("{session}/resume-thread"), json!({})).await;
    let fork = format!("/v1/threads/{}", text(&resumed.expect(201)["thread_id"]));
    assert_eq!(a.get(&fork).await.expect(200)["thread"]["agent"], "a");
    assert_eq!(b.get(&fork).await.status, 404);
    // The agent also owns a session that the operator saves of its thread.
    saved(operator, &own, json!({"title": "by the operator"})).await;
    assert_eq!(listed(&a, "?sort=name").await, ["by the operator", "of a"]);
    assert_eq!(a.raw("DELETE", &own, None).await.status, 204);
    assert!(listed(&a, "").await.is_empty());
    assert_eq!(listed(operator, "").await, ["hidden"]);
}

#[tokio::test]
async fn repeated_request_saves_and_resumes_once() {
    let daemon = TestDaemon::start().await;
    let thread = thread_with(&daemon, &["hello"]).await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let first = saved(&keyed, &thread, json!({})).await;
    assert_eq!(saved(&keyed, &thread, json!({})).await, first);
    assert_eq!(listed(&daemon.client, "").await.len(), 1);
    let keyed = daemon.client.with("idempotency-key", "other");
    let resume = format!("{first}/resume-thread");
    let one = keyed.post(&resume, json!({})).await.expect(201);
    assert_eq!(keyed.post(&resume, json!({})).await.expect(201), one);
}

#[tokio::test]
async fn saved_sessions_are_limited_and_a_damaged_one_hides_no_other() {
    let store = Arc::new(HostWireStore::in_memory(10));
    let setup = Setup {
        store: Arc::clone(&store) as Arc<dyn WireStore>,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let client = &daemon.client;
    let thread = thread_with(&daemon, &["hello"]).await;
    let session = saved(client, &thread, json!({"title": "whole"})).await;
    let damaged = |number: u32| HostRecord {
        name: format!("sess_{number:032x}"),
        body: b"{\"id\":7".to_vec().into(),
    };
    let records = (0..8_190).map(|number| ("saved_session", damaged(number)));
    let host_records = store.records();
    host_records
        .put_all(records.collect(), Utc::now())
        .await
        .unwrap();
    assert_eq!(listed(client, "").await, ["whole"]);
    let broken = client.get(&format!("/v1/sessions/sess_{:032x}", 1)).await;
    assert_eq!((broken.status, broken.code().as_str()), (500, "internal"));
    saved(client, &thread, json!({"title": "the last"})).await;
    let body = json!({ "thread_id": id_of(&thread) });
    let refused = client.post("/v1/sessions", body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    // Existing sessions can still be overwritten, and removed to free quota.
    let body = json!({ "session_id": id_of(&session) }).to_string();
    client
        .raw("PUT", "/v1/sessions", Some(&body))
        .await
        .expect(200);
    assert_eq!(client.raw("DELETE", &session, None).await.status, 204);
    saved(client, &thread, json!({})).await;
}

#[tokio::test]
async fn session_of_an_interrupted_removal_is_hidden_and_removable() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup {
        data: Some(data.path().join("store")),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let client = &daemon.client;
    let thread = thread_with(&daemon, &["hello"]).await;
    let session = saved(client, &thread, json!({})).await;
    let other = saved(client, &thread, json!({})).await;
    let id: SessionId = id_of(&thread).replace("thr_", "session_").parse().unwrap();
    let journal = daemon.opened.as_ref().unwrap().journal();
    assert!(journal.remove(&id.into()).await.unwrap());
    for (method, path, body) in [
        ("GET", session.clone(), None),
        ("GET", format!("{session}?peek=true"), None),
        ("PATCH", session.clone(), Some(r#"{"title":"x"}"#)),
        ("POST", format!("{session}/resume-thread"), None),
    ] {
        let refused = client.raw(method, &path, body).await;
        let message = text(&refused.json()["error"]["message"]);
        assert_eq!(refused.code(), "session_not_found", "{method} {path}");
        assert!(message.contains("was removed"), "{message}");
    }
    let again = put(client, json!({ "session_id": id_of(&session) })).await;
    assert_eq!(again.code(), "session_not_found");
    assert_eq!(client.raw("DELETE", &session, None).await.status, 204);
    // Completing the removal of the thread removes its remaining session.
    assert_eq!(client.raw("DELETE", &thread, None).await.status, 204);
    assert!(listed(client, "").await.is_empty());
    assert_eq!(client.raw("DELETE", &other, None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn session_saved_during_the_removal_of_its_thread_is_removed() {
    let daemon = TestDaemon::start().await;
    for _ in 0..10 {
        let thread = thread_with(&daemon, &["hello"]).await;
        let body = json!({ "thread_id": id_of(&thread) });
        let saving: Vec<_> = (0..4)
            .map(|_| tokio::spawn(daemon.client.post("/v1/sessions", body.clone())))
            .collect();
        let removed = daemon.client.raw("DELETE", &thread, None).await;
        assert_eq!(removed.status, 204);
        for saved in saving {
            let saved = saved.await.unwrap();
            assert!([201, 404].contains(&saved.status), "{:?}", saved.body);
        }
        assert!(listed(&daemon.client, "").await.is_empty());
    }
}
