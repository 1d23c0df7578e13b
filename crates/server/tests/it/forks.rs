//! Forks, undo and retry.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::typed_id::SessionId;
use windlass_runtime::SqliteRetention;
use windlass_server::UnknownModels;
use windlass_store::StreamKey;

use crate::support::{Setup, Tap, TestDaemon, assert_sound, other_model, soon, text};

fn ids(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|line| text(&line["id"])).collect()
}

fn summaries(detail: &Value) -> Vec<String> {
    let turns = detail["turns"].as_array().unwrap().iter();
    turns.map(|turn| text(&turn["input_summary"])).collect()
}

fn session(path: &str) -> SessionId {
    let id = path.trim_start_matches("/v1/threads/thr_");
    format!("session_{id}").parse().unwrap()
}

async fn threads(daemon: &TestDaemon) -> Value {
    let list = daemon.client.get("/v1/threads?include_archived=true");
    list.await.expect(200)
}

/// Forks a thread and returns the path of the fork.
async fn forked(daemon: &TestDaemon, thread: &str, body: Value) -> String {
    let fork = daemon.client.post(&format!("{thread}/fork"), body).await;
    format!("/v1/threads/{}", text(&fork.expect(201)["id"]))
}

async fn thread_with(daemon: &TestDaemon, prompts: &[&str]) -> String {
    let thread = daemon.thread(json!({"title": "T"})).await;
    for prompt in prompts {
        daemon.say(&thread, prompt).await;
    }
    thread
}

/// Runs a test in memory and on disk.
async fn each_store(test: impl AsyncFn(TestDaemon)) {
    test(TestDaemon::start().await).await;
    let data = tempfile::tempdir().unwrap();
    test(on_disk(&data, None).await).await;
}

async fn on_disk(data: &tempfile::TempDir, tap: Option<Arc<Tap>>) -> TestDaemon {
    let workspace = data.path().to_owned();
    let setup = Setup {
        data: Some(data.path().join("store")),
        tap,
        ..Setup::settings(|settings| settings.workspace = workspace)
    };
    setup.start().await
}

async fn stopped(daemon: TestDaemon) {
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;
}

#[tokio::test]
async fn r20_retry_returns_the_thread_with_the_new_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"title": "T"})).await;
    daemon.say(&thread, "first").await;
    daemon.say(&thread, "second").await;
    let answer = daemon
        .client
        .post(
            &format!("{thread}/retry"),
            json!({"prompt": "second, better"}),
        )
        .await
        .expect(201);
    assert_eq!(answer["thread"]["latest_turn_id"], answer["turn"]["id"]);
    assert_eq!(answer["turn"]["input_summary"], "second, better");
    let fork = format!("/v1/threads/{}", text(&answer["thread"]["id"]));
    daemon.events(&fork, 0).await.until("turn.completed").await;
    let messages = daemon.model.messages();
    assert_eq!(
        messages,
        [
            "user: first",
            "agent: Hello from the model. You said: first",
            "user: second, better"
        ]
    );
    let summaries: Vec<String> = daemon.detail(&fork).await["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| text(&turn["input_summary"]))
        .collect();
    assert_eq!(summaries, ["first", "second, better"]);
}

#[tokio::test]
async fn r21_failed_retry_creates_no_fork() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "first").await;
    let refused = daemon
        .client
        .post(&format!("{thread}/retry"), json!({"prompt": " "}))
        .await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "prompt_required")
    );
    let deep = daemon
        .client
        .post(&format!("{thread}/retry"), json!({"depth": 1}))
        .await;
    assert_eq!(
        (deep.status, deep.code().as_str()),
        (400, "depth_out_of_range")
    );
    let all = daemon
        .client
        .get("/v1/threads?include_archived=true")
        .await
        .expect(200);
    assert_eq!(ids(&all).len(), 1);
}

#[tokio::test]
async fn r27_fork_shows_shared_turns_under_its_own_ids_and_its_cut() {
    let daemon = TestDaemon::start().await;
    let thread = daemon
        .thread(json!({"system_prompt": "Speak like a pirate."}))
        .await;
    for prompt in ["one", "two", "three"] {
        daemon.say(&thread, prompt).await;
    }
    let parent = daemon.detail(&thread).await;
    let undone = daemon
        .client
        .post(&format!("{thread}/undo"), json!({"depth": 1}))
        .await
        .expect(201);
    assert_eq!(undone["original_user_text"], "two");
    let fork = format!("/v1/threads/{}", text(&undone["thread"]["id"]));
    let detail = daemon.detail(&fork).await;
    assert_eq!(detail["turns"].as_array().unwrap().len(), 1);
    assert_eq!(detail["turns"][0]["input_summary"], "one");
    assert_ne!(detail["turns"][0]["id"], parent["turns"][0]["id"]);
    assert_eq!(detail["turns"][0]["thread_id"], undone["thread"]["id"]);
    assert_eq!(detail["turns"][0]["id"], undone["thread"]["latest_turn_id"]);
    assert_eq!(detail["turns"][0]["item_ids"][0], detail["items"][0]["id"]);
    let mut events = daemon.events(&fork, 0).await;
    let first = events.next().await.unwrap();
    assert_eq!(first.event, "thread.forked");
    assert_eq!(first.id, detail["latest_seq"].as_u64());
    let payload = &first.data["payload"];
    assert_eq!(payload["source_seq"].as_u64(), first.id.map(|id| id - 1));
    assert_eq!(payload["source_thread_id"], parent["thread"]["id"]);
    assert_eq!(payload["dropped_turn_id"], parent["turns"][1]["id"]);
    assert_eq!(payload["backtrack_depth_from_tail"], 1);
    daemon.say(&fork, "instead").await;
    assert!(
        daemon
            .model
            .requests()
            .last()
            .unwrap()
            .system_prompt
            .contains("pirate")
    );
    assert_eq!(
        daemon.model.messages(),
        [
            "user: one",
            "agent: Hello from the model. You said: one",
            "user: instead"
        ]
    );
    let again = daemon
        .client
        .raw("POST", &format!("{fork}/fork"), None)
        .await
        .expect(201);
    let again = daemon
        .detail(&format!("/v1/threads/{}", text(&again["id"])))
        .await;
    assert_eq!(again["turns"].as_array().unwrap().len(), 2);
    assert_eq!(daemon.detail(&thread).await, parent);
}

#[tokio::test]
async fn fork_can_end_at_any_turn_and_use_another_model() {
    each_store(async |daemon| {
        let thread = thread_with(&daemon, &["one", "two", "three"]).await;
        let parent = daemon.detail(&thread).await;
        let body = json!({"turn_id": parent["turns"][1]["id"], "model": "another"});
        let fork = forked(&daemon, &thread, body).await;
        let detail = daemon.detail(&fork).await;
        assert_eq!(summaries(&detail), ["one", "two"]);
        assert_eq!(detail["thread"]["model"], "another");
        assert_eq!(parent["thread"]["model"], "demo-model");
        assert_eq!(detail["thread"]["title"], "T");
        daemon.say(&fork, "instead").await;
        let messages = daemon.model.messages();
        assert_eq!((messages.len(), messages[2].as_str()), (5, "user: two"));

        // Shared turns have IDs of the fork, and the thread can be forked at them too.
        let body = json!({"turn_id": detail["turns"][0]["id"]});
        let again = forked(&daemon, &fork, body).await;
        assert_eq!(summaries(&daemon.detail(&again).await), ["one"]);
        assert_eq!(daemon.detail(&thread).await, parent);
    })
    .await;
}

#[tokio::test]
async fn invalid_fork_is_refused_and_changes_nothing() {
    let setup = Setup::settings(|settings| settings.models.unknown = UnknownModels::Refuse);
    let daemon = setup.start().await;
    let thread = thread_with(&daemon, &["one", "two"]).await;
    let other = thread_with(&daemon, &["elsewhere"]).await;
    let strange = daemon.detail(&other).await["turns"][0]["id"].clone();
    let fork = forked(&daemon, &thread, json!({})).await;
    let shared = daemon.detail(&thread).await["turns"][0]["id"].clone();
    let open = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let open = open.rsplit('/').next().unwrap().to_owned();
    let before = threads(&daemon).await;
    for (path, body, status, code) in [
        (&thread, json!({"turn_id": "x"}), 404, "turn_not_found"),
        (&thread, json!({"turn_id": strange}), 404, "turn_not_found"),
        (&thread, json!({"turn_id": open}), 409, "turn_active"),
        (&fork, json!({"turn_id": shared}), 404, "turn_not_found"),
        (&thread, json!({"turn_id": 5}), 422, "invalid_field"),
        (&thread, json!({"turnid": "x"}), 422, "invalid_field"),
        (&thread, json!([]), 422, "invalid_field"),
        (&thread, json!({"model": "nope"}), 422, "invalid_field"),
    ] {
        let refused = daemon.client.post(&format!("{path}/fork"), body.clone());
        let refused = refused.await;
        let got = (refused.status, refused.code());
        assert_eq!(got, (status, code.to_owned()), "{body}");
    }
    let path = format!("{thread}/fork");
    let typed = daemon.client.with("content-type", "application/json");
    let broken = typed.raw("POST", &path, Some("{")).await;
    assert_eq!(broken.code(), "invalid_json");
    assert_eq!(threads(&daemon).await, before);

    // Without a turn ID, the running turn is excluded.
    let left_out = forked(&daemon, &thread, json!({})).await;
    assert_eq!(summaries(&daemon.detail(&left_out).await), ["one", "two"]);
    let first = daemon.events(&left_out, 0).await.next().await.unwrap();
    assert_eq!(first.data["payload"]["dropped_turn_id"], json!(open));
    daemon.model.open();
    let mut events = daemon.events(&thread, 0).await;
    for _ in 0..3 {
        events.until("turn.completed").await;
    }
}

#[tokio::test]
async fn r27_shared_records_are_not_events_of_the_fork() {
    each_store(async |daemon| {
        let thread = thread_with(&daemon, &["one", "two"]).await;
        let fork = forked(&daemon, &thread, json!({})).await;
        daemon.say(&fork, "three").await;
        let again = forked(&daemon, &fork, json!({})).await;
        daemon.say(&again, "four").await;
        for fork in [&fork, &again] {
            let latest = daemon.detail(fork).await["latest_seq"].as_u64().unwrap();
            let whole = daemon.events(fork, 0).await.until("turn.completed").await;
            assert_sound(&whole, 0);
            assert_eq!(whole[0].event, "thread.forked");
            assert_eq!(whole.last().unwrap().id, Some(latest - 1), "then it rests");
            let begin = whole[0].id.unwrap();
            let own = format!("thr_{}", fork.trim_start_matches("/v1/threads/thr_"));
            assert!(
                whole
                    .iter()
                    .all(|frame| frame.data["thread_id"] == json!(own))
            );

            // A cursor within the shared records returns none of them and is accepted as given.
            for since in [1, begin / 2, begin - 1] {
                let mut events = daemon.events(fork, since).await;
                let frames = events.until("turn.completed").await;
                assert_sound(&frames, since);
                assert_eq!(frames.len(), whole.len());
                assert_eq!(frames[0].id, Some(begin));
            }
            for (limit, since) in [(4096, 0), (4096, 2), (2, 0)] {
                let query = format!("{fork}/events?since_seq={since}&replay_limit={limit}");
                let mut events = daemon.client.stream(&query).await;
                let frames = events.until("turn.completed").await;
                let count = whole.len().min(limit);
                assert_eq!(frames.len(), count, "{query}");
                let before = if count < whole.len() {
                    whole[whole.len() - count - 1].id.unwrap()
                } else {
                    since
                };
                assert_sound_links(&frames, before);
            }
        }
    })
    .await;
}

/// Checks only the links between events, because the list may start in the middle of a turn.
fn assert_sound_links(frames: &[crate::support::Frame], cursor: u64) {
    let mut previous = cursor;
    for frame in frames {
        assert_eq!(frame.data["previous_seq"].as_u64(), Some(previous));
        previous = frame.id.unwrap();
    }
}

#[tokio::test]
async fn shared_records_have_stable_ids_and_accept_no_answers() {
    let data = tempfile::tempdir().unwrap();
    let daemon = on_disk(&data, None).await;
    let tool = json!({"name": "look", "description": "", "input_schema": {"type": "object"}});
    let thread = daemon.thread(json!({"dynamic_tools": [tool]})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "CALL look {}"}))
        .await;
    let call_request = events.until("tool_call.requested").await.pop().unwrap();
    let call = text(&call_request.data["payload"]["call_id"]);
    let result = json!({"success": true, "content": [{"type": "input_text", "text": "x"}]});
    let path = format!("{turn}/tool-calls/{call}/result");
    let answered = daemon.client.post(&path, result.clone()).await;
    assert_eq!(answered.status, 202);
    events.until("turn.completed").await;
    let fork = forked(&daemon, &thread, json!({})).await;
    let again = forked(&daemon, &fork, json!({})).await;

    let parent = daemon.detail(&thread).await;
    let (of_fork, of_again) = (daemon.detail(&fork).await, daemon.detail(&again).await);
    let mut names: Vec<&Value> = Vec::new();
    for detail in [&parent, &of_fork, &of_again] {
        assert_eq!(detail["thread"]["latest_turn_id"], detail["turns"][0]["id"]);
        assert_eq!(detail["turns"][0]["item_ids"][1], detail["items"][1]["id"]);
        assert_eq!(detail["items"][1]["turn_id"], detail["turns"][0]["id"]);
        assert_eq!(detail["items"][1]["detail"], "x");
        names.extend([&detail["turns"][0]["id"], &detail["items"][1]["id"]]);
    }
    names.sort_by_key(|name| name.to_string());
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");

    let old = parent["turns"][0]["id"].as_str().unwrap();
    let new = of_fork["turns"][0]["id"].as_str().unwrap();
    let shown = daemon.client.get(&format!("{fork}/turns/{new}")).await;
    assert_eq!(shown.expect(200)["turn"], of_fork["turns"][0]);
    let hidden = daemon.client.get(&format!("{fork}/turns/{old}")).await;
    assert_eq!(hidden.code(), "turn_not_found");
    for name in [old, new] {
        let turn = format!("{fork}/turns/{name}");
        let words = json!({"prompt": "more"});
        let steered = daemon.client.post(&format!("{turn}/steer"), words).await;
        assert_eq!(steered.status, 409);
        let path = format!("{turn}/interrupt");
        let interrupted = daemon.client.raw("POST", &path, None).await;
        assert_eq!(interrupted.code(), "no_active_turn");
        let path = format!("{turn}/tool-calls/{call}/result");
        let answered = daemon.client.post(&path, result.clone()).await;
        assert_eq!(answered.code(), "tool_call_not_pending");
    }

    // After a restart the result is the same, even without the parent.
    let lists = daemon.client.get("/v1/threads/summary").await.expect(200);
    stopped(daemon).await;
    let daemon = on_disk(&data, None).await;
    assert_eq!(
        daemon.client.get("/v1/threads/summary").await.expect(200),
        lists
    );
    assert_eq!(daemon.detail(&fork).await, of_fork);
    daemon
        .runtime
        .remove_session(session(&thread))
        .await
        .unwrap();
    assert_eq!(daemon.detail(&again).await, of_again);
    let refused = daemon.client.raw("POST", &format!("{thread}/fork"), None);
    assert_eq!(refused.await.code(), "thread_not_found");
}

#[tokio::test]
async fn fork_is_one_commit_and_reads_only_the_newest_turn() {
    let data = tempfile::tempdir().unwrap();
    let tap = Arc::<Tap>::default();
    let daemon = on_disk(&data, Some(Arc::clone(&tap))).await;
    let thread = thread_with(&daemon, &["one"]).await;
    let mut read = Vec::new();
    for turns in [40, 80] {
        for _ in 0..turns {
            daemon.say(&thread, "more").await;
        }
        let key = StreamKey::from(session(&thread));
        let store = daemon.opened.as_ref().unwrap();
        let head = store.verify_stream(&key, None).await.unwrap().heads;
        tap.events_read();
        tap.writes();
        forked(&daemon, &thread, json!({})).await;
        assert_eq!(tap.writes(), 1);
        read.push(tap.events_read());
        let after = store.verify_stream(&key, None).await.unwrap();
        assert_eq!((after.heads, after.findings), (head, Vec::new()));
    }
    assert_eq!(read[0], read[1]);
}

#[tokio::test]
async fn usage_of_shared_turns_belongs_to_the_parent() {
    let daemon = TestDaemon::start().await;
    let thread = thread_with(&daemon, &["one", "two"]).await;
    let fork = forked(&daemon, &thread, json!({})).await;
    daemon.say(&fork, "three").await;
    let report = daemon.client.get("/v1/usage?group_by=thread").await;
    let report = report.expect(200);
    assert_eq!(report["totals"]["turns"], 3);
    let mut turns: Vec<_> = report["buckets"].as_array().unwrap().iter().collect();
    turns.sort_by_key(|bucket| bucket["turns"].as_u64());
    assert_eq!(
        (&turns[0]["turns"], &turns[1]["turns"]),
        (&json!(1), &json!(2))
    );
}

#[tokio::test]
async fn retry_has_exactly_the_rights_of_its_turn() {
    let setup = Setup {
        has_tools: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let body = json!({"id": "staging", "root": elsewhere.path()});
    let made = daemon.client.post("/v1/environments", body).await;
    made.expect(201);
    let thread = daemon.thread(json!({})).await;
    let retry = |body: Value| daemon.client.post(&format!("{thread}/retry"), body);
    for narrow in [
        json!({"mode": "plan"}),
        json!({"allow_shell": false}),
        json!({"disallowed_tools": ["read", "shell"]}),
        json!({"allowed_tools": ["rea*"]}),
        json!({"environment_id": "staging", "reasoning_effort": "high", "input_summary": "in short"}),
        json!({"auto_approve": true}),
    ] {
        let mut body = narrow.clone();
        body["prompt"] = "hello".into();
        let mut events = daemon.events(&thread, 0).await;
        let turn = daemon.turn(&thread, body).await;
        while events.until("turn.completed").await.last().unwrap().data["turn_id"]
            != json!(turn.rsplit('/').next().unwrap())
        {}
        let before = daemon.model.requests().pop().unwrap().config;
        let turn = daemon.client.get(&turn).await.expect(200)["turn"].clone();
        for body in [json!({}), json!({"prompt": "hello!"})] {
            let is_same = body == json!({});
            let answer = retry(body).await.expect(201);
            let fork = format!("/v1/threads/{}", text(&answer["thread"]["id"]));
            daemon.events(&fork, 0).await.until("turn.completed").await;
            let after = daemon.model.requests().pop().unwrap().config;
            assert_eq!(after.tools, before.tools, "{narrow}");
            assert_eq!(after.reasoning_effort, before.reasoning_effort);
            assert_eq!(answer["turn"]["environment"], turn["environment"]);
            let summary = if is_same {
                turn["input_summary"].clone()
            } else {
                json!("hello!")
            };
            assert_eq!(answer["turn"]["input_summary"], summary);
        }
    }
}

#[tokio::test]
async fn r21_retry_in_a_removed_environment_creates_no_fork() {
    let daemon = TestDaemon::start().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let body = json!({"id": "staging", "root": elsewhere.path()});
    daemon
        .client
        .post("/v1/environments", body)
        .await
        .expect(201);
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let body = json!({"prompt": "hello", "environment_id": "staging"});
    daemon.turn(&thread, body).await;
    events.until("turn.completed").await;
    let path = "/v1/environments/staging";
    let removed = daemon.client.raw("DELETE", path, None).await;
    assert!(removed.status < 300, "{}", removed.status);
    let before = threads(&daemon).await;
    let refused = daemon.client.post(&format!("{thread}/retry"), json!({}));
    assert_eq!(refused.await.code(), "environment_not_found");
    assert_eq!(threads(&daemon).await, before);
}

#[tokio::test]
async fn fork_at_a_pruned_position_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup {
        data: Some(data.path().join("store")),
        retention: SqliteRetention {
            max_age: Some(Duration::ZERO),
            ..SqliteRetention::default()
        },
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let mut turns = Vec::new();
    for _ in 0..2 {
        let turn = daemon.turn(&thread, json!({"prompt": "hello"})).await;
        turns.push(text(&json!(turn.rsplit('/').next())));
        events.until("turn.completed").await;
    }
    let store = daemon.opened.as_ref().unwrap();
    let later = chrono::Utc::now() + chrono::TimeDelta::days(1);
    store.maintain(later).await.unwrap();
    let remaining = summaries(&daemon.detail(&thread).await);
    assert!(remaining.len() < 2, "something was removed");
    let before = threads(&daemon).await;
    let body = json!({"turn_id": turns[0]});
    let refused = daemon.client.post(&format!("{thread}/fork"), body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "not_forkable")
    );
    let replay = format!("{thread}/replay");
    let refused = daemon.client.post(&replay, json!({})).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "not_replayable")
    );
    for (verb, depth) in [("undo", 1), ("retry", 1)] {
        let path = format!("{thread}/{verb}");
        let refused = daemon.client.post(&path, json!({ "depth": depth })).await;
        assert_eq!(refused.code(), "depth_out_of_range", "{verb}");
    }
    assert_eq!(threads(&daemon).await, before);
    let whole = forked(&daemon, &thread, json!({})).await;
    assert_eq!(summaries(&daemon.detail(&whole).await), remaining);
}

#[tokio::test]
async fn undo_of_shared_turns_uses_the_ids_of_the_fork() {
    each_store(async |daemon| {
        let thread = thread_with(&daemon, &["one", "two"]).await;
        let fork = forked(&daemon, &thread, json!({})).await;
        daemon.say(&fork, "three").await;
        let shown = daemon.detail(&fork).await;
        for (verb, expected) in [("undo", vec!["one"]), ("retry", vec!["one", "two"])] {
            let path = format!("{fork}/{verb}");
            let answer = daemon.client.post(&path, json!({"depth": 1})).await;
            let answer = answer.expect(201);
            let again = format!("/v1/threads/{}", text(&answer["thread"]["id"]));
            let mut events = daemon.events(&again, 0).await;
            let first = events.next().await.unwrap();
            let payload = &first.data["payload"];
            assert_eq!(payload["dropped_turn_id"], shown["turns"][1]["id"]);
            assert_eq!(payload["source_thread_id"], shown["thread"]["id"]);
            if verb == "retry" {
                events.until("turn.completed").await;
                assert_eq!(daemon.model.messages().last().unwrap(), "user: two");
            } else {
                assert_eq!(answer["original_user_text"], "two");
            }
            assert_eq!(summaries(&daemon.detail(&again).await), expected, "{verb}");
        }
        let path = format!("{fork}/undo");
        let deep = daemon.client.post(&path, json!({"depth": 3})).await;
        assert_eq!(deep.code(), "depth_out_of_range");
    })
    .await;
}

#[tokio::test]
async fn empty_thread_can_be_forked_within_the_quota() {
    let setup = Setup::settings(|settings| settings.limits.threads = 2);
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({"archived": true})).await;
    let fork = forked(&daemon, &thread, json!({})).await;
    let detail = daemon.detail(&fork).await;
    assert_eq!(
        (&detail["turns"], &detail["thread"]["archived"]),
        (&json!([]), &json!(false))
    );
    let first = daemon.events(&fork, 0).await.next().await.unwrap();
    assert_eq!(first.event, "thread.forked");
    let full = daemon
        .client
        .raw("POST", &format!("{thread}/fork"), None)
        .await;
    assert_eq!(full.code(), "limit_reached");
}

#[tokio::test]
async fn retry_uses_the_model_of_the_turn_unless_another_is_named() {
    let data = tempfile::tempdir().unwrap();
    let start = async |has_other: bool| {
        let setup = Setup {
            data: Some(data.path().join("store")),
            ..Setup::settings(move |settings| {
                settings.models.unknown = UnknownModels::Refuse;
                let other = has_other.then(|| ("other".to_owned(), other_model()));
                settings.models.known.extend(other);
            })
        };
        setup.start().await
    };
    let used = |daemon: &TestDaemon| daemon.model.requests().pop().unwrap().config.model.clone();
    let daemon = start(true).await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let body = json!({"prompt": "hello", "model": "other"});
    daemon.turn(&thread, body).await;
    events.until("turn.completed").await;
    assert_eq!(used(&daemon), "other-model");
    for (body, model) in [
        (json!({}), "other-model"),
        (json!({"model": "demo-model"}), "demo-model"),
    ] {
        let answer = daemon.client.post(&format!("{thread}/retry"), body);
        let answer = answer.await.expect(201);
        let fork = format!("/v1/threads/{}", text(&answer["thread"]["id"]));
        daemon.events(&fork, 0).await.until("turn.completed").await;
        assert_eq!(used(&daemon), model);
    }
    let fork = forked(&daemon, &thread, json!({"model": "other"})).await;
    daemon.say(&fork, "continue").await;
    assert_eq!(used(&daemon), "other-model");
    stopped(daemon).await;

    let daemon = start(false).await;
    let before = threads(&daemon).await;
    let refused = daemon
        .client
        .post(&format!("{thread}/retry"), json!({}))
        .await;
    assert_eq!(refused.code(), "invalid_field");
    assert_eq!(threads(&daemon).await, before);
}

#[tokio::test]
async fn any_turn_can_be_retried_with_another_model() {
    each_store(async |daemon: TestDaemon| {
        let thread = thread_with(&daemon, &["one", "two", "three"]).await;
        let before = daemon.detail(&thread).await;
        let second = text(&before["turns"][1]["id"]);
        let retry = |body: Value| daemon.client.post(&format!("{thread}/retry"), body);
        let retried = retry(json!({"turn_id": second, "model": "demo-model"})).await;
        let retried = retried.expect(201);
        let fork = format!("/v1/threads/{}", text(&retried["thread"]["id"]));
        daemon.events(&fork, 0).await.until("turn.completed").await;
        let fork = daemon.detail(&fork).await;
        assert_eq!(summaries(&fork), ["one", "two"]);
        assert_eq!(daemon.detail(&thread).await, before);
        let both = retry(json!({"turn_id": second, "depth": 1})).await;
        assert_eq!(both.code(), "invalid_field");
        let unknown = retry(json!({"turn_id": "turn_none"})).await;
        assert_eq!(unknown.code(), "turn_not_found");
    })
    .await;
}
