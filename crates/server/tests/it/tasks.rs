//! Tasks over HTTP: each is a turn of its own thread.

use serde_json::{Value, json};

use crate::support::{self, Client, MultiTokenDaemon, Setup, TestDaemon, text};

/// Polls a task until it satisfies `is_wanted`.
async fn until_task(client: &Client, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    support::until(client, &format!("/v1/tasks/{id}"), is_wanted).await
}

/// Waits until a task has a status, and returns it.
pub(crate) async fn until(client: &Client, id: &str, status: &str) -> Value {
    until_task(client, id, |task| task["status"] == status).await
}

/// Waits until the turn of a task runs.
async fn begun(client: &Client, id: &str) -> Value {
    let is_begun = |task: &Value| task["runtime_event_count"].as_u64() > Some(1);
    until_task(client, id, is_begun).await
}

async fn queue(client: &Client, body: Value) -> String {
    let task = client.post("/v1/tasks", body).await.expect(201);
    text(&task["id"])
}

/// Returns the thread of a task.
async fn thread_of(daemon: &TestDaemon, task: &Value) -> Value {
    let path = format!("/v1/threads/{}", text(&task["thread_id"]));
    daemon.detail(&path).await
}

async fn ended(client: &Client, body: Value, status: &str) -> Value {
    let id = queue(client, body).await;
    until(client, &id, status).await
}

#[tokio::test]
async fn task_is_a_turn_of_its_own_thread() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let task = client.post("/v1/tasks", json!({"prompt": "hi"})).await;
    let task = task.expect(201);
    assert_eq!(task["schema_version"], 1);
    assert_eq!(task["model"], "demo-model");
    assert_eq!(task["mode"], "agent");
    assert_eq!(task["auto_approve"], false);
    let task = until(client, &text(&task["id"]), "completed").await;
    assert_eq!(task["result_summary"], "Hello from the model. You said: hi");
    assert_eq!(task["attempt_count"], 1);
    assert!(task["duration_ms"].is_u64(), "{task}");
    let timeline = task["timeline"].as_array().unwrap();
    let kinds: Vec<_> = timeline.iter().map(|entry| text(&entry["kind"])).collect();
    assert_eq!(kinds, ["queued", "started", "message", "completed"]);
    let thread = thread_of(&daemon, &task).await;
    assert_eq!(thread["thread"]["task_id"], task["id"]);
    assert_eq!(thread["turns"].as_array().unwrap().len(), 1);
    assert_eq!(thread["turns"][0]["id"], task["turn_id"]);
    assert_eq!(thread["latest_seq"], task["runtime_event_count"]);
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["counts"]["completed"], 1);
    let figures = client.get("/metrics").await;
    let figures = String::from_utf8_lossy(&figures.body).into_owned();
    for line in [
        "windlass_tasks{status=\"queued\"} 0",
        "windlass_tasks_ended_total{status=\"completed\"} 1",
    ] {
        assert!(figures.contains(line), "{line}: {figures}");
    }
    assert_eq!(list["tasks"][0]["prompt_summary"], "hi");
    assert_eq!(list["tasks"][0]["turn_id"], task["turn_id"]);
}

#[tokio::test]
async fn task_calls_and_approvals_work_as_in_any_thread() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let id = queue(client, json!({"prompt": "SHELL"})).await;
    let task = begun(client, &id).await;
    let thread = format!("/v1/threads/{}", text(&task["thread_id"]));
    let mut events = daemon.events(&thread, 0).await;
    let frames = events.until("approval.required").await;
    let approval = text(&frames.last().unwrap().data["payload"]["approval_id"]);
    let answer = client.post(
        &format!("/v1/approvals/{approval}"),
        json!({"decision": "allow"}),
    );
    answer.await.expect(200);
    let task = until(client, &id, "completed").await;
    let calls = task["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{task}");
    assert_eq!(calls[0]["name"], "shell");
    assert_eq!(calls[0]["status"], "success");
    assert!(calls[0]["started_at"].is_string());
}

#[tokio::test]
async fn waiting_task_does_not_block_others() {
    let daemon = Setup::settings(|settings| {
        settings.jobs.as_mut().unwrap().tasks.workers = 1;
    });
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let approved = queue(client, json!({"prompt": "SHELL"})).await;
    let question = queue(client, json!({"prompt": "ASK"})).await;
    ended(client, json!({"prompt": "hi"}), "completed").await;
    let counts = client.get("/v1/tasks").await.expect(200)["counts"].clone();
    assert_eq!(
        (&counts["running"], &counts["queued"]),
        (&json!(2), &json!(0))
    );
    // The tasks resume as soon as their input arrives.
    for (id, event) in [
        (&approved, "approval.required"),
        (&question, "user_input.required"),
    ] {
        let task = until(client, id, "running").await;
        let thread = text(&task["thread_id"]);
        let mut events = daemon.events(&format!("/v1/threads/{thread}"), 0).await;
        let waits = events.until(event).await.pop().unwrap().data["payload"].clone();
        let (path, answer) = match event {
            "approval.required" => (
                format!("/v1/approvals/{}", text(&waits["approval_id"])),
                json!({"decision": "allow"}),
            ),
            _ => (
                format!("/v1/user-input/{thread}/{}", text(&waits["id"])),
                json!({"answers": [{"id": "colour", "label": "Red", "value": "red"}]}),
            ),
        };
        client.post(&path, answer).await.expect(200);
        until(client, id, "completed").await;
    }
}

#[tokio::test]
async fn tasks_wait_while_the_thread_quota_is_exhausted() {
    let daemon = Setup::settings(|settings| settings.limits.threads = 1);
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let thread = client.post("/v1/threads", json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", text(&thread["id"]));
    let id = queue(client, json!({"prompt": "hi"})).await;
    let called_off = queue(client, json!({"prompt": "no"})).await;
    let task = until_task(client, &id, |task| task["error"].is_string()).await;
    assert_eq!(task["status"], "queued", "{task}");
    assert_eq!(task["attempt_count"], 0);
    assert_eq!(task["thread_id"], Value::Null);
    let why = text(&task["error"]);
    assert!(why.contains("the limit of 1 threads is reached"), "{why}");
    let timeline = task["timeline"].as_array().unwrap();
    let last = timeline.last().unwrap();
    assert_eq!(last["kind"], "waiting", "{task}");
    let cancel = format!("/v1/tasks/{called_off}/cancel");
    client.post(&cancel, json!({})).await.expect(200);
    let removed = client.raw("DELETE", &thread, None).await;
    assert_eq!(removed.status, 204);
    let task = until(client, &id, "completed").await;
    assert_eq!(task["attempt_count"], 1);
    assert_eq!(task["error"], Value::Null);
}

#[tokio::test]
async fn failed_task_reports_its_reason_and_is_retried_up_to_its_limit() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let task = ended(client, json!({"prompt": "ERR500"}), "failed").await;
    assert!(text(&task["error"]).contains("boom"), "{task}");
    assert_eq!(task["attempt_count"], 1);
    let body = json!({"prompt": "ERR500", "max_attempts": 2});
    let task = ended(client, body, "failed").await;
    assert_eq!(task["attempt_count"], 2);
    let thread = thread_of(&daemon, &task).await;
    let turns = thread["turns"].as_array().unwrap().len();
    assert_eq!(turns, 2, "one turn for each attempt");
    for _ in 0..10 {
        ended(client, json!({"prompt": "hi"}), "completed").await;
    }
    let list = client.get("/v1/tasks?status=failed,running&limit=1").await;
    assert_eq!(list.expect(200)["tasks"][0]["id"], task["id"]);
}

#[tokio::test]
async fn task_is_cancelled_while_queued_and_while_running() {
    let daemon = Setup::settings(|settings| {
        settings.jobs.as_mut().unwrap().tasks.workers = 1;
    });
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let running = queue(client, json!({"prompt": "SLOW"})).await;
    begun(client, &running).await;
    let waiting = queue(client, json!({"prompt": "hi"})).await;
    let cancel = |id: &str| client.post(&format!("/v1/tasks/{id}/cancel"), json!({}));
    let called_off = cancel(&waiting).await.expect(200);
    assert_eq!(called_off["status"], "canceled");
    assert_eq!(called_off["thread_id"], Value::Null);
    cancel(&running).await.expect(200);
    let task = until(client, &running, "canceled").await;
    let thread = thread_of(&daemon, &task).await;
    assert_eq!(thread["turns"][0]["status"], "interrupted");
    // The outcome of an ended task does not change.
    let again = cancel(&running).await.expect(200);
    assert_eq!(again["ended_at"], task["ended_at"]);
    let list = client.get("/v1/tasks?status=canceled&limit=1").await;
    assert!(list.header("x-windlass-next-cursor").is_some());
    let list = list.expect(200);
    assert_eq!(list["counts"]["canceled"], 2);
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(list["tasks"][0]["id"], waiting.as_str());
}

#[tokio::test]
async fn invalid_task_is_refused_before_it_is_queued() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    for (body, status, code) in [
        (json!({"prompt": " "}), 400, "prompt_required"),
        (json!({}), 422, "invalid_field"),
        (
            json!({"prompt": "hi", "mode": "wild"}),
            422,
            "invalid_field",
        ),
        (
            json!({"prompt": "hi", "max_attempts": 0}),
            422,
            "invalid_field",
        ),
        (
            json!({"prompt": "hi", "max_attempts": 11}),
            422,
            "invalid_field",
        ),
        (
            json!({"prompt": "hi", "workspace": "/etc"}),
            422,
            "cwd_outside_root",
        ),
        (
            json!({"prompt": "hi", "workspace": "missing"}),
            422,
            "cwd_not_found",
        ),
        (
            json!({"prompt": "hi", "backend": "unknown"}),
            422,
            "invalid_field",
        ),
        (json!({"prompt": "x".repeat(300_000)}), 422, "invalid_field"),
    ] {
        let reply = client.post("/v1/tasks", body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
    }
    for path in [
        "/v1/tasks/task_1",
        "/v1/tasks/task_00000000000000000000000000000001",
    ] {
        let reply = client.get(path).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (404, "task_not_found")
        );
    }
    for query in ["status=done", "limit=many", "cursor=task_x"] {
        let reply = client.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "invalid_query")
        );
    }
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["counts"]["queued"], 0);
}

#[tokio::test]
async fn repeated_request_queues_one_task() {
    let daemon = TestDaemon::start().await;
    let client = daemon.client.with("idempotency-key", "one");
    let first = queue(&client, json!({"prompt": "hi"})).await;
    assert_eq!(queue(&client, json!({"prompt": "hi"})).await, first);
    until(&client, &first, "completed").await;
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn agent_sees_only_its_own_tasks_and_cannot_disable_approvals() {
    let home = MultiTokenDaemon::start().await;
    let (one, other) = (
        home.client(&home.agent("one")),
        home.client(&home.agent("other")),
    );
    let id = queue(&one, json!({"prompt": "hi"})).await;
    let task = until(&one, &id, "completed").await;
    for path in [
        format!("/v1/tasks/{id}"),
        format!("/v1/threads/{}", text(&task["thread_id"])),
    ] {
        assert_eq!(other.get(&path).await.status, 404, "{path}");
    }
    let cancel = other
        .post(&format!("/v1/tasks/{id}/cancel"), json!({}))
        .await;
    assert_eq!(cancel.code(), "task_not_found");
    let list = other.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"], json!([]));
    assert_eq!(
        list["counts"]["completed"], 0,
        "how busy others are is not its business"
    );
    let own = one.get("/v1/tasks").await.expect(200);
    assert_eq!(own["counts"]["completed"], 1);
    let all = home.daemon.client.get("/v1/tasks").await.expect(200);
    assert_eq!(all["tasks"][0]["id"], id.as_str());
    for body in [
        json!({"prompt": "hi", "auto_approve": true}),
        json!({"prompt": "hi", "trust_mode": true}),
        json!({"prompt": "hi", "mode": "yolo"}),
    ] {
        assert_eq!(one.post("/v1/tasks", body).await.status, 403);
    }
}

#[tokio::test]
async fn task_of_a_revoked_token_is_not_started() {
    let home =
        MultiTokenDaemon::with(|settings| settings.jobs.as_mut().unwrap().tasks.workers = 1).await;
    let (token_id, secret) = home.token("client");
    let (client, admin) = (home.client(&secret), &home.daemon.client);
    let running = queue(admin, json!({"prompt": "SLOW"})).await;
    until(admin, &running, "running").await;
    let waiting = queue(&client, json!({"prompt": "hi"})).await;
    assert!(home.tokens.revoke(&token_id).unwrap());
    home.daemon.model.open();
    let task = until(admin, &waiting, "failed").await;
    assert!(
        text(&task["error"]).contains("is no longer valid"),
        "{task}"
    );
    assert_eq!(home.daemon.model.requests().len(), 1);
}

#[tokio::test]
async fn task_waits_for_a_turn_of_another_client_on_its_thread() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let body = json!({"prompt": "ERR500", "max_attempts": 2});
    let id = queue(client, body).await;
    // The second attempt waits a second; meanwhile a client starts a turn on the thread.
    let is_between = |task: &Value| task["attempt_count"] == 1 && task["status"] == "queued";
    let task = until_task(client, &id, is_between).await;
    let thread = format!("/v1/threads/{}", text(&task["thread_id"]));
    daemon.turn(&thread, json!({"prompt": "SLOW"})).await;
    let task = until(client, &id, "running").await;
    assert_eq!(task["attempt_count"], 2);
    assert_eq!(
        daemon.detail(&thread).await["turns"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    daemon.model.open();
    until(client, &id, "failed").await;
    assert_eq!(
        daemon.detail(&thread).await["turns"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test]
async fn tasks_resume_after_a_restart_with_the_same_thread_and_turn() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let setup = |workers: usize| {
        let workspace = workspace.clone();
        Setup {
            data: Some(directory.path().join("store")),
            ..Setup::settings(move |settings| {
                settings.workspace = workspace;
                settings.jobs.as_mut().unwrap().tasks.workers = workers;
            })
        }
    };
    let daemon = setup(1).start().await;
    let client = &daemon.client;
    let running = queue(client, json!({"prompt": "SLOW"})).await;
    let before = begun(client, &running).await;
    let mut events = daemon
        .events(&format!("/v1/threads/{}", text(&before["thread_id"])), 0)
        .await;
    events.until("item.delta").await;
    let waiting = queue(client, json!({"prompt": "hi"})).await;
    daemon.stop.cancel();
    daemon.running.await.unwrap();
    daemon.runtime.shutdown(std::time::Duration::ZERO).await;
    daemon.opened.unwrap().close().await;
    let daemon = setup(2).start().await;
    daemon.model.open();
    let after = until(&daemon.client, &running, "completed").await;
    assert_eq!(after["turn_id"], before["turn_id"]);
    assert_eq!(after["attempt_count"], 1);
    let thread = thread_of(&daemon, &after).await;
    assert_eq!(thread["turns"].as_array().unwrap().len(), 1);
    until(&daemon.client, &waiting, "completed").await;
}

#[tokio::test]
async fn task_settings_are_fixed_when_it_is_queued() {
    let daemon = Setup::settings(|settings| {
        settings.jobs.as_mut().unwrap().tasks.workers = 1;
    });
    let daemon = daemon.start().await;
    let client = &daemon.client;
    let set = async |key: &str, value: &str| {
        let body = json!({"key": key, "value": value, "persist": true});
        client.post("/v1/config", body).await.expect(200);
    };
    let with = |task: &Value| (task["mode"].clone(), task["allow_shell"].clone());
    let slow = queue(client, json!({"prompt": "SLOW"})).await;
    begun(client, &slow).await;
    let before = queue(client, json!({"prompt": "before"})).await;
    set("allow_shell", "false").await;
    set("default_mode", "plan").await;
    let after = queue(client, json!({"prompt": "after"})).await;
    for (id, expected) in [
        (&before, (json!("agent"), json!(true))),
        (&after, (json!("plan"), json!(false))),
    ] {
        let shown = client.get(&format!("/v1/tasks/{id}")).await.expect(200);
        assert_eq!(with(&shown), expected, "while it is queued");
    }
    daemon.model.open();
    for (id, expected) in [
        (&before, (json!("agent"), json!(true))),
        (&after, (json!("plan"), json!(false))),
    ] {
        let task = until(client, id, "completed").await;
        assert_eq!(with(&task), expected);
        let thread = thread_of(&daemon, &task).await;
        assert_eq!(with(&thread["thread"]), expected);
    }
    let listed = client.get("/v1/tasks").await.expect(200);
    let modes = listed["tasks"].as_array().unwrap().iter();
    let modes: Vec<_> = modes.map(|task| text(&task["mode"])).collect();
    assert_eq!(modes, ["plan", "agent", "agent"]);
}

#[tokio::test]
async fn task_of_an_automation_shows_the_settings_of_its_thread() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let plan = json!({"name": "n", "prompt": "hi", "rrule": "FREQ=HOURLY;INTERVAL=744"});
    let made = client.post("/v1/automations", plan).await.expect(201);
    let set = async |value: &str| {
        let body = json!({"key": "default_mode", "value": value, "persist": true});
        client.post("/v1/config", body).await.expect(200);
    };
    set("plan").await;
    let run = format!("/v1/automations/{}/run", text(&made["id"]));
    client.post(&run, json!({})).await;
    let ended = |list: &Value| list["tasks"][0]["status"] == "completed";
    support::until(client, "/v1/tasks", ended).await;
    set("agent").await;
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"][0]["mode"], "plan");
    let path = format!("/v1/tasks/{}", text(&list["tasks"][0]["id"]));
    let task = client.get(&path).await.expect(200);
    assert_eq!(task["mode"], "plan");
    assert_eq!(thread_of(&daemon, &task).await["thread"]["mode"], "plan");
}

#[tokio::test]
async fn task_reports_its_wait_reason() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let id = queue(client, json!({"prompt": "SHELL"})).await;
    let task = until_task(client, &id, |task| task["waiting_for"].is_array()).await;
    assert_eq!(task["waiting_for"], json!(["approval"]));
    assert_eq!(task["status"], "running");
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"][0]["waiting_for"], json!(["approval"]));
    let inbox = client.get("/v1/threads?state=waiting").await.expect(200);
    assert_eq!(inbox[0]["id"], task["thread_id"]);
    let thread = thread_of(&daemon, &task).await;
    let approval = text(&thread["pending_approvals"][0]["id"]);
    let answer = client.post(
        &format!("/v1/approvals/{approval}"),
        json!({"decision": "deny"}),
    );
    answer.await.expect(200);
    let task = until(client, &id, "completed").await;
    assert_eq!(task.get("waiting_for"), Some(&Value::Null));
}

#[tokio::test]
async fn unsupported_task_fields_are_refused() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    for name in [
        "budget",
        "timeout_seconds",
        "deadline",
        "tools",
        "allowed_tools",
    ] {
        let mut task = json!({"prompt": "hi"});
        task[name] = json!(1);
        let mut plan = json!({"name": "n", "prompt": "hi", "rrule": "FREQ=HOURLY;INTERVAL=1"});
        plan[name] = json!(1);
        for (path, body) in [("/v1/tasks", task), ("/v1/automations", plan)] {
            let answer = client.post(path, body).await;
            assert_eq!(answer.status, 422, "{path}: {name}");
            let field = text(&answer.json()["error"]["details"]["field"]);
            assert_eq!(field, format!("/{name}"));
        }
    }
    // Unsupported limits are named in the header as before.
    let body = json!({"prompt": "hi", "colour": "red"});
    let answer = client.post("/v1/tasks", body).await;
    assert_eq!(answer.header("x-windlass-ignored"), Some("colour"));
    assert_eq!(answer.status, 201);
}
