//! The first requests of third-party clients, verbatim. An earlier version refused the first message of each.

use serde_json::{Value, json};
use windlass_server::UnknownModels;

use crate::support::{Frame, Setup, TestDaemon, assert_sound, soon, text};

/// Concatenates the text deltas of an answer, as clients do.
fn answer(frames: &[Frame]) -> String {
    let deltas = frames.iter().filter(|frame| {
        frame.event == "item.delta" && frame.data["payload"]["kind"] == "agent_message"
    });
    let deltas = deltas.map(|frame| text(&frame.data["payload"]["delta"]));
    deltas.collect()
}

fn asked_model(daemon: &TestDaemon) -> String {
    daemon.model.requests().last().unwrap().config.model.clone()
}

#[tokio::test]
async fn vscode_extension_gets_its_first_answer() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    client.anonymous().get("/health").await.expect(200);
    client.anonymous().get("/v1/runtime/info").await.expect(200);
    client.get("/v1/threads/summary?limit=50").await.expect(200);
    for group in ["skills", "tasks", "automations", "snapshots", "agent-runs"] {
        client.get(&format!("/v1/{group}")).await.expect(200);
    }
    client.get("/v1/workspace/status").await.expect(200);
    let body = json!({
        "model": "deepseek-v4-pro", "model_provider": "deepseek", "model_provider_id": "deepseek", "mode": "act",
        "workspace": daemon.workspace.path(), "allow_shell": true, "trust_mode": false, "auto_approve": false,
        "permission_posture": "ask", "title": "First"
    });
    let thread = client.post("/v1/threads", body).await.expect(201);
    assert_eq!(
        (&thread["mode"], &thread["model"], &thread["model_provider"]),
        (
            &json!("agent"),
            &json!("deepseek-v4-pro"),
            &json!("deepseek")
        )
    );
    let path = format!("/v1/threads/{}", text(&thread["id"]));
    let mut events = client.stream(&format!("{path}/events?since_seq=0")).await;
    let body = json!({
        "prompt": "hello", "model": "deepseek-v4-pro", "mode": "act", "reasoning_effort": "high",
        "auto_approve": false, "trust_mode": false, "permission_posture": "ask"
    });
    let started = client
        .post(&format!("{path}/turns"), body)
        .await
        .expect(201);
    assert_eq!(started["turn"]["effective_model"], "deepseek-v4-pro");
    let frames = events.until("turn.completed").await;
    assert_sound(&frames, 0);
    assert_eq!(answer(&frames), "Hello from the model. You said: hello");
    assert_eq!(asked_model(&daemon), "deepseek-v4-pro");
    // The extension's parser expects an event name in every block.
    let blocks = events.blocks.iter().filter(|block| !block.starts_with(':'));
    let blocks: Vec<_> = blocks.collect();
    assert!(
        blocks[0].starts_with("retry: 1000\nid: 1\nevent: thread.started\ndata: {"),
        "{}",
        blocks[0]
    );
    for block in &blocks[1..] {
        assert!(block.starts_with("id: "), "{block}");
    }
}

#[tokio::test]
async fn desktop_program_gets_its_first_answer() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let thread = client
        .raw("POST", "/v1/threads", Some("{}"))
        .await
        .expect(201);
    let path = format!("/v1/threads/{}", text(&thread["id"]));
    let body =
        json!({"title": "Compare", "auto_approve": true, "allow_shell": true, "trust_mode": true});
    client.patch(&path, body).await.expect(200);
    let since = daemon.detail(&path).await["latest_seq"].as_u64().unwrap();
    let mut events = daemon.events(&path, since).await;
    let body = json!({"prompt": "hello", "model": "gpt-5.5", "mode": "operate"});
    client
        .post(&format!("{path}/turns"), body)
        .await
        .expect(201);
    let frames = events.until("turn.completed").await;
    assert_sound(&frames, since);
    assert_eq!(
        frames.last().unwrap().data["payload"]["turn"]["status"],
        "completed"
    );
    assert_eq!(asked_model(&daemon), "gpt-5.5");
    // The model of the thread is unchanged.
    daemon.say(&path, "again").await;
    assert_eq!(asked_model(&daemon), "demo-model");
}

#[tokio::test]
async fn python_server_gets_its_first_answer() {
    let daemon = TestDaemon::start().await;
    let body = json!({
        "prompt": "SHELL now", "model": "deepseek-chat", "mode": "bypassPermissions", "auto_approve": true,
        "allow_shell": true
    });
    let frames = daemon
        .client
        .post_stream("/v1/stream", body)
        .await
        .rest()
        .await;
    let named = |name: &str| {
        let found = frames.iter().find(|frame| frame.event == name);
        found.unwrap_or_else(|| panic!("no {name}")).data.clone()
    };
    assert_eq!(named("turn.started")["model"], "deepseek-chat");
    assert_eq!(named("tool.completed")["output"], "hi\n");
    assert_eq!(named("turn.completed")["status"], "completed");
    assert_eq!(asked_model(&daemon), "deepseek-chat");
}

#[tokio::test]
async fn named_model_answers() {
    let daemon = TestDaemon::start().await;
    let path = daemon
        .thread(json!({"model": "auto", "mode": "agent"}))
        .await;
    let thread = daemon
        .client
        .patch(&path, json!({"model": " some-model "}))
        .await
        .expect(200);
    assert_eq!(thread["model"], "some-model");
    daemon.say(&path, "hello").await;
    assert_eq!(asked_model(&daemon), "some-model");
    daemon
        .client
        .patch(&path, json!({"model": "auto"}))
        .await
        .expect(200);
    daemon.say(&path, "hello").await;
    assert_eq!(asked_model(&daemon), "demo-model");
}

#[tokio::test]
async fn operator_can_forbid_unconfigured_models() {
    let setup = Setup::settings(|settings| settings.models.unknown = UnknownModels::Refuse);
    let daemon = setup.start().await;
    let path = daemon.thread(json!({"model": "demo-model"})).await;
    let turns = format!("{path}/turns");
    for (method, path, body) in [
        ("POST", "/v1/threads", json!({"model": "x"})),
        ("PATCH", path.as_str(), json!({"model": "x"})),
        (
            "POST",
            turns.as_str(),
            json!({"prompt": "hello", "model": "x"}),
        ),
        (
            "POST",
            "/v1/stream",
            json!({"prompt": "hello", "model": "x"}),
        ),
    ] {
        let reply = daemon
            .client
            .raw(method, path, Some(&body.to_string()))
            .await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (422, "invalid_field"),
            "{path}"
        );
        assert_eq!(
            reply.json()["error"]["details"],
            json!({"field": "/model", "known": ["demo-model"]})
        );
    }
    assert!(daemon.model.requests().is_empty());
}

#[tokio::test]
async fn model_name_is_validated_before_use() {
    let daemon = TestDaemon::start().await;
    let path = daemon.thread(json!({"model": "  "})).await;
    assert_eq!(daemon.detail(&path).await["thread"]["model"], "demo-model");
    for blank in ["", "  ", "\n"] {
        let reply = daemon.client.patch(&path, json!({"model": blank})).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "model_required")
        );
    }
    for name in [
        "a\nb".to_owned(),
        "a\u{0}".to_owned(),
        "\u{1b}[31mred".to_owned(),
        "x".repeat(257),
    ] {
        for (method, path) in [("POST", "/v1/threads"), ("PATCH", path.as_str())] {
            let body = json!({ "model": name }).to_string();
            let reply = daemon.client.raw(method, path, Some(&body)).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (422, "invalid_field"),
                "{name:?}"
            );
        }
    }
    assert_eq!(daemon.detail(&path).await["thread"]["model"], "demo-model");
}

#[tokio::test]
async fn resumed_turn_uses_the_same_model() {
    let data = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let setup = || {
        let root = workspace.path().to_owned();
        Setup {
            data: Some(data.path().join("store")),
            ..Setup::settings(|settings| settings.workspace = root)
        }
    };
    let daemon = setup().start().await;
    let path = daemon.thread(json!({})).await;
    let mut events = daemon.events(&path, 0).await;
    let body = json!({"prompt": "SHELL now", "model": "another"});
    daemon.turn(&path, body).await;
    let frames = events.until("approval.required").await;
    let approval = text(&frames.last().unwrap().data["payload"]["approval_id"]);
    let since = frames.last().unwrap().id.unwrap();
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let daemon = setup().start().await;
    let mut events = daemon.events(&path, since).await;
    let decision = json!({"decision": "allow"});
    let path = format!("/v1/approvals/{approval}");
    daemon.client.post(&path, decision).await.expect(200);
    let ended = events.until("turn.completed").await;
    assert_eq!(
        ended.last().unwrap().data["payload"]["turn"]["status"],
        "completed"
    );
    assert_eq!(asked_model(&daemon), "another");
}

#[tokio::test]
async fn every_spelling_of_plan_mode_is_accepted() {
    let daemon = Setup {
        has_tools: true,
        ..Setup::default()
    }
    .start()
    .await;
    for (mode, may_write) in [
        ("2", false),
        (" PLAN ", false),
        ("act", true),
        ("ops", true),
        ("4", true),
    ] {
        let path = daemon.thread(json!({ "mode": mode })).await;
        daemon.say(&path, "hello").await;
        let offered = daemon.model.offered();
        assert_eq!(
            offered.iter().any(|tool| tool == "write"),
            may_write,
            "{mode}: {offered:?}"
        );
    }
    let shown: Vec<Value> = daemon
        .client
        .get("/v1/threads")
        .await
        .expect(200)
        .as_array()
        .unwrap()
        .clone();
    let mut modes: Vec<_> = shown.iter().map(|thread| text(&thread["mode"])).collect();
    modes.sort_unstable();
    assert_eq!(modes, ["agent", "operate", "plan", "plan", "yolo"]);
}

#[tokio::test]
async fn agent_cannot_bypass_approvals_with_another_spelling() {
    for word in ["bypasspermissions", "BypassPermissions", "4"] {
        let daemon = TestDaemon::start().await;
        let path = daemon.thread(json!({ "mode": word })).await;
        assert_eq!(daemon.detail(&path).await["thread"]["mode"], "yolo");
        let frames = daemon.say(&path, "SHELL now").await;
        assert!(
            frames
                .iter()
                .all(|frame| frame.event != "approval.required")
        );
    }
}

#[tokio::test]
async fn first_thread_list_contains_branches() {
    let daemon = TestDaemon::start().await;
    let git = std::process::Command::new("git")
        .args(["-c", "init.defaultBranch=first", "init", "--quiet"])
        .arg(daemon.workspace.path())
        .status();
    if !git.is_ok_and(|status| status.success()) {
        return;
    }
    daemon.thread(json!({})).await;
    let lines = daemon.client.get("/v1/threads/summary").await.expect(200);
    assert_eq!(lines[0]["branch"], "first");
}

#[tokio::test]
async fn empty_model_answer_fails_the_turn() {
    let daemon = TestDaemon::start().await;
    let path = daemon.thread(json!({})).await;
    let frames = daemon.say(&path, "NOTHING").await;
    assert_sound(&frames, 1);
    let turn = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(
        (&turn["status"], &turn["error"]),
        (
            &json!("failed"),
            &json!("Turn completed without engine output")
        )
    );
    let frames = daemon.say(&path, "hello").await;
    assert_eq!(
        frames.last().unwrap().data["payload"]["turn"]["status"],
        "completed"
    );
}

#[tokio::test]
async fn large_text_is_split_into_deltas() {
    let daemon = TestDaemon::start().await;
    let path = daemon.thread(json!({})).await;
    let frames = daemon.say(&path, "FLOOD").await;
    assert_eq!(answer(&frames), "ä".repeat(50_000));
    for frame in frames.iter().filter(|frame| frame.event == "item.delta") {
        let delta = text(&frame.data["payload"]["delta"]);
        assert!(delta.len() <= 16 * 1024, "{}", delta.len());
    }
}

#[tokio::test]
async fn slow_reader_gets_a_lag_event() {
    use windlass_core::events::SessionUpdatedData;

    let daemon = TestDaemon::start().await;
    let path = daemon.thread(json!({})).await;
    let id = daemon.detail(&path).await["thread"]["id"].clone();
    let id = text(&id).replace("thr_", "session_").parse().unwrap();
    for number in 0..2_000 {
        let data = SessionUpdatedData {
            title: Some(number.to_string()),
            record: None,
            changed_fields: None,
        };
        daemon.runtime.note_session(id, data).await.unwrap();
    }
    let mut events = daemon.events(&path, 0).await;
    let comment = events.until_comment("lag ").await;
    let missed: u64 = comment["lag ".len()..].parse().unwrap();
    assert!(missed > 1_000, "{comment}");
}
