//! Removed threads, and their export before the removal.

use serde_json::{Value, json};
use windlass_core::typed_id::{HarnessId, SessionId};
use windlass_runtime::{HarnessBuilder, Journal, SessionBuilder};

use crate::support::{MultiTokenDaemon, Setup, TestDaemon, soon, text};

/// Reads the lines of an export.
async fn exported(daemon: &TestDaemon, path: &str) -> Vec<Value> {
    let reply = daemon.client.get(path).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(text.ends_with('\n'), "the last line is whole");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn export_is_the_thread_followed_by_its_stream_events() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"title": "stored"})).await;
    // More than one page of records.
    for _ in 0..40 {
        daemon.say(&thread, "hello").await;
    }
    let detail = daemon.detail(&thread).await;
    assert!(detail["latest_seq"].as_u64().unwrap() > 256, "{detail}");
    let mut stream = daemon.events(&thread, 0).await;
    let mut shown = Vec::new();
    for _ in 0..40 {
        shown.extend(stream.until("turn.completed").await);
    }
    let lines = exported(&daemon, &format!("{thread}/export")).await;
    assert_eq!(lines[0], json!({ "thread": detail["thread"] }));
    let shown: Vec<_> = shown.into_iter().map(|frame| frame.data).collect();
    assert_eq!(lines[1..], shown);

    let since = shown[4]["seq"].as_u64().unwrap();
    let rest = exported(&daemon, &format!("{thread}/export?since_seq={since}")).await;
    assert_eq!(rest[1..], shown[5..]);

    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = text(&fork.await.expect(201)["id"]);
    let lines = exported(&daemon, &format!("/v1/threads/{fork}/export")).await;
    assert_eq!(lines[0]["thread"]["id"], fork);
    let names: Vec<_> = lines[1..].iter().map(|line| text(&line["event"])).collect();
    assert_eq!(names, ["thread.forked"], "what it shares is its parent's");
    let fork = format!("/v1/threads/{fork}");
    daemon.say(&fork, "and on its own").await;
    let detail = daemon.detail(&fork).await;
    let shared = exported(&daemon, &format!("{fork}/export")).await[0]["shared"].clone();
    let (turns, items) = (&detail["turns"], &detail["items"]);
    let (turns, items) = (turns.as_array().unwrap(), items.as_array().unwrap());
    assert_eq!(shared["turns"].as_array().unwrap()[..], turns[..40]);
    let own = turns[40]["id"].clone();
    let items: Vec<_> = items.iter().filter(|item| item["turn_id"] != own).collect();
    assert_eq!(json!(items), shared["items"], "as the fork shows them");
    let rest = exported(&daemon, &format!("{fork}/export?since_seq={since}")).await;
    assert_eq!(
        rest[0]["shared"]["turns"], shared["turns"],
        "some is behind"
    );
    let head = detail["latest_seq"].as_u64().unwrap();
    let rest = exported(&daemon, &format!("{fork}/export?since_seq={head}")).await;
    assert!(rest[0].get("shared").is_none());
}

#[tokio::test]
async fn removed_thread_is_gone_and_its_fork_remains() {
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
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = format!("/v1/threads/{}", text(&fork.await.expect(201)["id"]));
    let before = daemon.detail(&fork).await;
    let mut follower = daemon.events(&thread, 0).await;
    follower.until("turn.completed").await;

    let removed = daemon.client.raw("DELETE", &thread, None).await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    assert_eq!(follower.rest().await, [], "its streams end");
    let gone = async |daemon: &TestDaemon| {
        for (method, path) in [
            ("DELETE", thread.clone()),
            ("GET", thread.clone()),
            ("GET", format!("{thread}/events")),
            ("GET", format!("{thread}/export")),
        ] {
            let reply = daemon.client.raw(method, &path, None).await;
            let answer = (reply.status, reply.code());
            assert_eq!(answer, (404, "thread_not_found".to_owned()), "{path}");
        }
        let listed = daemon.client.get("/v1/threads").await.expect(200);
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(daemon.detail(&fork).await, before);
    };
    gone(&daemon).await;
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
    let daemon = start().await;
    gone(&daemon).await;
    daemon.say(&fork, "still there?").await;
}

#[tokio::test]
async fn thread_with_an_active_turn_is_not_removed() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let refused = daemon.client.raw("DELETE", &thread, None).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "turn_active")
    );
    let id = refused.json()["error"]["details"]["turn_id"].clone();
    assert!(turn.ends_with(&text(&id)), "{id}");
    daemon.model.open();
    events.until("turn.completed").await;
    let removed = daemon.client.raw("DELETE", &thread, None).await;
    assert_eq!(removed.status, 204);
}

#[tokio::test]
async fn admin_completes_an_interrupted_removal() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup {
        data: Some(data.path().join("store")),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let session = ids_of(&daemon).await;
    // The state after a kill between the removal of the conversation and of its record.
    let journal = daemon.opened.as_ref().unwrap().journal();
    assert!(journal.remove(&session[0].into()).await.unwrap());
    assert_eq!(daemon.client.get(&thread).await.status, 404);

    let removed = daemon.client.raw("DELETE", &thread, None).await;
    assert_eq!(removed.status, 204);
    assert!(ids_of(&daemon).await.is_empty());
    let again = daemon.client.raw("DELETE", &thread, None).await;
    assert_eq!(again.status, 404);
}

#[tokio::test]
async fn internal_session_cannot_be_removed() {
    let daemon = TestDaemon::start().await;
    let foreign = SessionBuilder::new(HarnessId::from_seed(2)).build();
    let other = HarnessBuilder::new("other", "");
    let mut other = other.build();
    other.id = foreign.harness_id;
    daemon.runtime.add_harness(other).await.unwrap();
    let id = foreign.id;
    daemon.runtime.add_session(foreign).await.unwrap();
    let path = format!("/v1/threads/thr_{}", id.uuid().simple());
    assert_eq!(daemon.client.raw("DELETE", &path, None).await.status, 404);
    assert_eq!(ids_of(&daemon).await, [id]);
}

async fn ids_of(daemon: &TestDaemon) -> Vec<SessionId> {
    daemon.runtime.session_ids().await.unwrap()
}

#[tokio::test]
async fn agent_removes_its_own_thread_and_regains_quota() {
    let home = MultiTokenDaemon::with(|settings| settings.limits.threads_of_agent = 1).await;
    let agent = home.client(&home.agent("a"));
    let made = async || agent.post("/v1/threads", json!({})).await;
    let own = format!("/v1/threads/{}", text(&made().await.expect(201)["id"]));
    assert_eq!(made().await.code(), "limit_reached");
    let others = home.daemon.thread(json!({})).await;
    assert_eq!(agent.raw("DELETE", &others, None).await.status, 404);
    assert_eq!(agent.get(&format!("{others}/export")).await.status, 404);
    assert_eq!(agent.get(&format!("{own}/export")).await.status, 200);
    assert_eq!(agent.raw("DELETE", &own, None).await.status, 204);
    made().await.expect(201);
    home.daemon.detail(&others).await;
}
