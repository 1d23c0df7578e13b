//! Fleet runs over HTTP: many tasks, each a turn of a thread, over workers.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Client, MultiTokenDaemon, Reply, Setup, TestDaemon, soon, text, until};

async fn until_ended(client: &Client, run: &str) -> Value {
    until(client, run, |run| !run["completed_at"].is_null()).await
}

/// The body of a run with tasks for these prompts that starts at once.
fn run_body(prompts: &[&str], workers: usize) -> Value {
    let tasks = prompts.iter().enumerate();
    let tasks: Vec<_> = tasks
        .map(|(n, prompt)| json!({"id": format!("t{n}"), "instructions": prompt}))
        .collect();
    json!({"name": "port", "tasks": tasks, "max_workers": workers, "start": true})
}

/// Creates a run and returns its path.
async fn make(client: &Client, body: Value) -> String {
    let made = client.post("/v1/fleet/runs", body).await.expect(201);
    format!("/v1/fleet/runs/{}", text(&made["run"]["id"]))
}

fn statuses(run: &Value) -> Vec<String> {
    let tasks = run["tasks"].as_array().unwrap().iter();
    tasks.map(|task| text(&task["status"])).collect()
}

/// Waits until a worker's task has a running turn, and returns the path of the worker.
async fn busy(client: &Client, run: &str, task: &str) -> String {
    let path = format!("{run}/workers");
    let at_work = |worker: &&Value| {
        worker["task_id"] == task && worker["runtime_state"]["agent_status"] == "running"
    };
    let has = |workers: &Value| {
        workers["workers"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| at_work(&it))
    };
    let workers = until(client, &path, has).await;
    let workers = workers["workers"].as_array().unwrap();
    let worker = workers.iter().find(at_work).unwrap();
    format!("/v1/fleet/workers/{}", text(&worker["worker_id"]))
}

/// The calls of the fleet client library, in the order of its documentation.
#[tokio::test]
async fn fleet_run_waits_for_its_start_and_completes_its_tasks() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let info = client.get("/v1/runtime/info").await.expect(200);
    assert_eq!(info["capabilities"]["worker_runtime"], true);
    let body = json!({
        "target": "this_computer",
        "roles": [{"name": "reviewer"}, {"name": "verifier"}],
        "workflow": {"id": "release-check", "kind": "parallel", "tasks": [
            {"id": "review", "name": "Review", "instructions": "Review.", "worker": {"role": "reviewer"}},
            {"id": "verify", "name": "Verify", "objective": "be sure", "instructions": "Verify.",
             "worker": {"role": "verifier"}, "context": ["It is late."], "input_files": ["a.txt"]},
        ]},
        "labels": {"team": "red"},
    });
    let made = client.post("/v1/fleet/runs", body).await.expect(201);
    assert_eq!(made["execution"], "awaiting_start");
    assert_eq!(made["warnings"], json!([]));
    let id = text(&made["run"]["id"]);
    let run = format!("/v1/fleet/runs/{id}");
    assert_eq!(made["run"]["name"], "release-check");
    assert_eq!(made["run"]["lifecycle_status"], "pending");
    assert_eq!(made["run"]["roles"], json!(["reviewer", "verifier"]));
    let specs = &made["run"]["task_specs"];
    assert_eq!(
        specs[1]["instructions"],
        "Verify.\n\nIt is late.\n\nRead these files first:\n- a.txt"
    );
    assert_eq!(specs[1]["worker"]["role"], "verifier");
    assert_eq!(made["run"]["worker_specs"][0]["host"]["kind"], "local");
    assert_eq!(statuses(&made["run"]), ["enqueued", "enqueued"]);

    let started = client
        .post(&format!("{run}/start"), json!({}))
        .await
        .expect(202);
    assert_eq!(started["action"], "start");
    assert_eq!(started["worker_ids"].as_array().unwrap().len(), 2);
    let ended = until_ended(client, &run).await;
    assert_eq!(ended["lifecycle_status"], "completed");
    assert_eq!(statuses(&ended), ["completed", "completed"]);
    assert_eq!(ended["status"]["completed"], 2);
    assert_eq!(ended["status"]["runs"], 1);
    assert_eq!(ended["labels"]["team"], "red");
    assert_eq!(ended["tasks"][0]["attempts"], 1);
    assert_eq!(ended["tasks"][0]["leased_to"], Value::Null);
    let thread = format!("/v1/threads/{}", text(&ended["tasks"][0]["thread_id"]));
    let thread = daemon.detail(&thread).await;
    assert_eq!(thread["turns"].as_array().unwrap().len(), 1);
    assert_eq!(thread["turns"][0]["status"], "completed");

    let listed = client.get("/v1/fleet/runs").await.expect(200);
    assert_eq!(listed["status"]["completed"], 2);
    assert_eq!(listed["runs"][0]["id"], id);
    assert_eq!(listed["runs"][0]["task_specs"], Value::Null, "only of one");
    let workers = client.get(&format!("{run}/workers")).await.expect(200);
    assert_eq!(workers["run_id"], id);
    let worker = &workers["workers"][1];
    assert_eq!(worker["status"], "retired");
    assert_eq!(
        listed["status"]["workers"][text(&worker["worker_id"])],
        "retired"
    );
    let again = client
        .get(&format!("/v1/fleet/workers/{}", text(&worker["worker_id"])))
        .await;
    assert_eq!(again.expect(200), *worker);

    let page = client
        .get(&format!("{run}/events/replay?limit=3"))
        .await
        .expect(200);
    assert_eq!(page["has_more"], true);
    assert_eq!(page["events"][0]["event"], "fleet.run.created");
    let path = format!("{run}/events?after={}", text(&page["next_cursor"]));
    let mut rest = client.stream(&path).await;
    let frames = rest.rest().await;
    let names: Vec<_> = frames.iter().map(|frame| frame.event.clone()).collect();
    assert_eq!(
        names
            .iter()
            .filter(|name| *name == "fleet.task.terminal")
            .count(),
        2,
        "{names:?}"
    );
    assert_eq!(names.last().unwrap(), "fleet.run.status_changed");
    let last = &frames.last().unwrap().data["payload"];
    assert_eq!(last["status"], "completed");
    let late = client.post(&format!("{run}/start"), json!({})).await;
    assert_eq!(
        (late.status, late.code().as_str()),
        (409, "fleet_run_ended")
    );
    // The stream ends after the last event.
    let last = frames.last().unwrap().data["cursor"].clone();
    let mut none = client
        .stream(&format!("{run}/events?after={}", text(&last)))
        .await;
    assert!(none.rest().await.is_empty());
}

#[tokio::test]
async fn worker_shows_its_thread_and_can_be_interrupted_and_restarted() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let run = make(client, run_body(&["SLOW", "SLOW", "hi"], 2)).await;
    let first = busy(client, &run, "t0").await;
    let second = busy(client, &run, "t1").await;
    let worker = client.get(&first).await.expect(200);
    assert_eq!(worker["status"], "busy");
    assert_eq!(worker["objective"], "t0");
    assert!(worker["latest_heartbeat_at"].is_string(), "{worker}");
    let thread = daemon
        .detail(&format!("/v1/threads/{}", text(&worker["thread_id"])))
        .await;
    // Further events may have been recorded between the two requests.
    let seen_seq = worker["latest_event"]["seq"].as_u64().unwrap();
    assert!((1..=thread["latest_seq"].as_u64().unwrap()).contains(&seen_seq));
    assert_eq!(worker["runtime_state"]["has_session"], true);

    let response = client
        .post(&format!("{second}/restart"), json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&response["action"], &response["execution"]),
        (&json!("restart"), &json!("scheduled"))
    );
    let again = until(client, &run, |run| run["tasks"][1]["attempts"] == 2).await;
    assert_eq!(
        again["tasks"][1]["error"],
        json!(null),
        "of the first attempt"
    );
    let response = client
        .post(&format!("{first}/interrupt"), json!({}))
        .await
        .expect(200);
    assert_eq!(response["action"], "interrupt");
    assert_eq!(response["worker"]["host"], "local");
    assert_eq!(response["worker"]["last_error"], "cancelled by operator");
    let cancelled = |run: &Value| run["tasks"][0]["status"] == "cancelled";
    until(client, &run, cancelled).await;
    daemon.model.open();
    let ended = until_ended(client, &run).await;
    assert_eq!(statuses(&ended), ["cancelled", "completed", "completed"]);
    assert_eq!(ended["tasks"][1]["restarts"], 1);
    assert_eq!(ended["status"]["restarted"], 1);
    let turns = daemon
        .detail(&format!(
            "/v1/threads/{}",
            text(&ended["tasks"][1]["thread_id"])
        ))
        .await;
    assert_eq!(turns["turns"].as_array().unwrap().len(), 2);
    let late = client.post(&format!("{first}/stop"), json!({})).await;
    assert_eq!(
        (late.status, late.code().as_str()),
        (409, "fleet_run_ended")
    );
}

#[tokio::test]
async fn stopped_run_interrupts_running_tasks_and_cancels_the_rest() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let run = make(client, run_body(&["SLOW", "SLOW", "hi"], 1)).await;
    let worker = busy(client, &run, "t0").await;
    let stopped = client
        .post(&format!("{run}/stop"), json!({}))
        .await
        .expect(200);
    assert_eq!(stopped["stopped"], 3);
    let ended = until_ended(client, &run).await;
    assert_eq!(ended["lifecycle_status"], "cancelled");
    assert_eq!(statuses(&ended), ["cancelled"; 3]);
    let again = client
        .post(&format!("{run}/stop"), json!({}))
        .await
        .expect(200);
    assert_eq!(again["stopped"], 0);
    assert_eq!(client.get(&worker).await.expect(200)["status"], "retired");
}

#[tokio::test]
async fn failed_fleet_task_is_retried_according_to_its_rule() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let mut body = run_body(&["ERR500", "hi"], 2);
    body["tasks"][0]["retry_policy"] = json!({"max_attempts": 3, "initial_backoff_seconds": 5});
    let run = make(client, body).await;
    let ended = until_ended(client, &run).await;
    assert_eq!(statuses(&ended), ["failed", "completed"]);
    assert_eq!(ended["lifecycle_status"], "failed");
    assert_eq!(ended["tasks"][0]["attempts"], 3);
    assert!(
        text(&ended["tasks"][0]["error"]).contains("boom"),
        "{ended:#}"
    );
    let idle = client.get(&format!("{run}/workers")).await.expect(200);
    let errors = idle["workers"].as_array().unwrap().iter();
    assert!(errors.map(|it| &it["last_error"]).any(Value::is_string));
}

#[tokio::test]
async fn agent_cannot_see_runs_of_other_owners() {
    let home = MultiTokenDaemon::start().await;
    let (one, other) = (home.client(&home.agent("a")), home.client(&home.agent("b")));
    let own = make(&one, run_body(&["SLOW"], 1)).await;
    let worker = busy(&one, &own, "t0").await;
    for path in [
        own.clone(),
        format!("{own}/workers"),
        format!("{own}/events"),
        format!("{own}/events/replay"),
    ] {
        let answer = other.get(&path).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (404, "fleet_run_not_found"),
            "{path}"
        );
    }
    for path in [format!("{own}/start"), format!("{own}/stop")] {
        assert_eq!(
            other.post(&path, json!({})).await.code(),
            "fleet_run_not_found"
        );
    }
    assert_eq!(other.get(&worker).await.code(), "worker_not_found");
    for word in ["interrupt", "stop", "restart"] {
        let response = other.post(&format!("{worker}/{word}"), json!({})).await;
        assert_eq!(response.code(), "worker_not_found", "{word}");
    }
    let seen = async |client: &Client| {
        let listed = client.get("/v1/fleet/runs").await.expect(200);
        listed["runs"].as_array().unwrap().len()
    };
    assert_eq!((seen(&one).await, seen(&other).await), (1, 0));
    assert_eq!(seen(&home.daemon.client).await, 1);
    // The threads belong to the agent and have at most the agent's rights.
    let thread = one.get(&own).await.expect(200)["tasks"][0]["thread_id"].clone();
    let thread = format!("/v1/threads/{}", text(&thread));
    assert_eq!(one.get(&thread).await.expect(200)["thread"]["agent"], "a");
    assert_eq!(other.get(&thread).await.status, 404);
    let mut free = run_body(&["hi"], 1);
    free["tasks"][0]["auto_approve"] = json!(true);
    assert_eq!(one.post("/v1/fleet/runs", free).await.code(), "forbidden");
    home.daemon.model.open();
    until_ended(&one, &own).await;
}

#[tokio::test]
async fn invalid_run_is_refused_with_a_code_and_not_stored() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = run_body(&["hi", "ho"], 1);
        change(&mut body);
        body
    };
    let refused: Vec<(&str, Value)> = vec![
        ("invalid_field", json!({})),
        ("invalid_field", with(&|body| body["tasks"] = json!([]))),
        (
            "invalid_field",
            with(&|body| body["tasks"][1]["id"] = json!("t0")),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["instructions"] = json!("  ")),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["instructions"] = json!(7)),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["mode"] = json!("wild")),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["backend"] = json!("unknown")),
        ),
        (
            "cwd_not_found",
            with(&|body| body["tasks"][0]["workspace"] = json!({"root": "nowhere"})),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["retry_policy"] = json!({"max_attempts": 99})),
        ),
        (
            "invalid_field",
            with(&|body| body["max_workers"] = json!(0)),
        ),
        (
            "invalid_field",
            with(&|body| body["max_workers"] = json!(65)),
        ),
        ("invalid_field", with(&|body| body["workers"] = json!([{}]))),
        ("invalid_field", with(&|body| body["name"] = json!("a\nb"))),
        (
            "invalid_field",
            with(&|body| body["roles"] = json!([{"name": "x"}])),
        ),
        (
            "invalid_field",
            with(&|body| body["workflow"] = json!({"id": "w", "tasks": []})),
        ),
        (
            "invalid_field",
            with(&|body| body["target"] = json!("cloud")),
        ),
        (
            "invalid_field",
            with(&|body| body["security_policy"] = json!({})),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["budget"] = json!({"max_tokens": 5})),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["scorer"] = json!({"kind": "manual"})),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["timeout_seconds"] = json!(5)),
        ),
        (
            "invalid_field",
            with(&|body| body["tasks"][0]["worker"] = json!({"tools": ["read"]})),
        ),
        (
            "invalid_field",
            with(&|body| {
                body["tasks"][0]["workspace"] = json!({"writable_paths": ["src"]});
            }),
        ),
    ];
    for (code, mut body) in refused {
        // A role that is missing from `roles`.
        if body["roles"].is_array() {
            body["tasks"][0]["worker"] = json!({"role": "y"});
        }
        let answer = client.post("/v1/fleet/runs", body.clone()).await;
        assert_eq!(answer.code(), code, "{body}: {:?}", answer.body);
    }
    let listed = client.get("/v1/fleet/runs").await.expect(200);
    assert_eq!(listed["runs"], json!([]));
    for path in [
        "/v1/fleet/runs/fleet_0",
        "/v1/fleet/runs/..%2F",
        "/v1/fleet/runs/thr_00000000000000000000000000000000/workers",
    ] {
        assert_eq!(
            client.get(path).await.code(),
            "fleet_run_not_found",
            "{path}"
        );
    }
    for path in [
        "/v1/fleet/workers/w1",
        "/v1/fleet/workers/fleet_00000000000000000000000000000000-w1",
    ] {
        assert_eq!(client.get(path).await.code(), "worker_not_found", "{path}");
    }
    let run = make(client, run_body(&["hi"], 1)).await;
    until_ended(client, &run).await;
    for query in ["after=x", "after=-1", "limit=0", "limit=1001", "limit=x"] {
        let answer = client.get(&format!("{run}/events/replay?{query}")).await;
        assert_eq!(answer.code(), "invalid_query", "{query}");
    }
    assert_eq!(
        client.get("/v1/fleet/runs?before=x").await.code(),
        "invalid_query"
    );
    let upper = run.replace("/fleet_", "/FLEET_");
    assert_eq!(client.get(&upper).await.status, 404);
}

#[tokio::test]
async fn error_points_to_the_field_in_the_body() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let long = "x".repeat(10_000);
    let of_tasks = [
        ("/id", json!({"id": "  "})),
        ("/instructions", json!({"instructions": " "})),
        ("/mode", json!({"mode": "wild"})),
        ("/backend", json!({"backend": "unknown"})),
        ("/budget", json!({"budget": {"max_tokens": 5}})),
        ("/worker/tools", json!({"worker": {"tools": ["read"]}})),
        ("/worker/role", json!({"worker": {"role": long}})),
        (
            "/retry_policy/max_attempts",
            json!({"retry_policy": {"max_attempts": 99}}),
        ),
    ];
    for (field, change) in of_tasks {
        let mut body = run_body(&["hi", "ho"], 1);
        let task = body["tasks"][1].as_object_mut().unwrap();
        task.extend(change.as_object().unwrap().clone());
        let answer = client.post("/v1/fleet/runs", body.clone()).await;
        assert_eq!(pointer(&answer), format!("/tasks/1{field}"));
        let tasks = body["tasks"].take();
        body.as_object_mut().unwrap().remove("tasks");
        body["workflow"] = json!({"id": "w", "tasks": tasks});
        let answer = client.post("/v1/fleet/runs", body).await;
        assert_eq!(pointer(&answer), format!("/workflow/tasks/1{field}"));
    }
    for (field, name, value) in [
        (
            "/workers/1/backend",
            "workers",
            json!([{}, {"backend": "unknown"}]),
        ),
        ("/workers/1/role", "workers", json!([{}, {"role": long}])),
        (
            "/roles/1/agent_profile",
            "roles",
            json!([{"name": "x"}, {"name": "y", "agent_profile": "z"}]),
        ),
        ("/tasks", "tasks", json!([])),
        ("/name", "name", json!(" ")),
    ] {
        let mut body = run_body(&["hi"], 1);
        body.as_object_mut().unwrap().remove("max_workers");
        body[name] = value;
        let answer = client.post("/v1/fleet/runs", body).await;
        assert_eq!(pointer(&answer), field);
    }
}

/// Changes the body of a run.
type BodyChange<'a> = &'a dyn Fn(&mut Value);

#[tokio::test]
async fn unsupported_field_is_refused() {
    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let changes: [(&str, BodyChange<'_>); 9] = [
        ("/budget", &|body| {
            body["budget"] = json!({"turn": {"max_tokens": 5}})
        }),
        ("/deadline", &|body| {
            body["deadline"] = json!("2030-01-01T00:00:00Z")
        }),
        ("/allowed_tools", &|body| {
            body["allowed_tools"] = json!(["read"])
        }),
        ("/tasks/1/timeout", &|body| {
            body["tasks"][1]["timeout"] = json!(5)
        }),
        ("/tasks/1/tools", &|body| {
            body["tasks"][1]["tools"] = json!(["read"])
        }),
        ("/tasks/0/worker/allowed_tools", &|body| {
            body["tasks"][0]["worker"] = json!({"allowed_tools": ["read"]});
        }),
        ("/tasks/0/workspace/read_only", &|body| {
            body["tasks"][0]["workspace"] = json!({"read_only": true});
        }),
        ("/roles/0/tools", &|body| {
            body["roles"] = json!([{"name": "x", "tools": []}])
        }),
        ("/workflow/tasks/0/writable_paths", &|body| {
            let mut tasks = body["tasks"].take();
            tasks[0]["writable_paths"] = json!(["src"]);
            body.as_object_mut().unwrap().remove("tasks");
            body["workflow"] = json!({"id": "w", "tasks": tasks});
        }),
    ];
    for (field, change) in changes {
        let mut body = run_body(&["hi", "ho"], 1);
        change(&mut body);
        let answer = client.post("/v1/fleet/runs", body).await;
        assert_eq!((answer.status, pointer(&answer).as_str()), (422, field));
    }
    let listed = client.get("/v1/fleet/runs").await.expect(200);
    assert_eq!(listed["runs"], json!([]));
}

/// Returns the JSON pointer of an error response.
fn pointer(answer: &Reply) -> String {
    text(&answer.json()["error"]["details"]["field"])
}

#[tokio::test]
async fn list_counts_all_runs_regardless_of_its_page() {
    let home = MultiTokenDaemon::start().await;
    let (own, other) = (
        home.client(&home.agent("a")),
        home.client(&home.agent("ab")),
    );
    let mut runs = Vec::new();
    for _ in 0..3 {
        let run = make(&own, run_body(&["hi"], 1)).await;
        until_ended(&own, &run).await;
        runs.push(run);
    }
    make(&own, json!({"tasks": [{"id": "t", "instructions": "hi"}]})).await;
    make(
        &other,
        json!({"tasks": [{"id": "t", "instructions": "hi"}]}),
    )
    .await;
    let before = runs[1].rsplit('/').next().unwrap();
    for (query, shown) in [
        (String::new(), 4),
        ("?limit=2".to_owned(), 2),
        (format!("?before={before}"), 1),
    ] {
        let list = own.get(&format!("/v1/fleet/runs{query}")).await.expect(200);
        assert_eq!(list["runs"].as_array().unwrap().len(), shown, "{query}");
        assert_eq!(list["status"]["runs"], 4, "{query}");
    }
    let list = home.daemon.client.get("/v1/fleet/runs?limit=1").await;
    assert_eq!(list.expect(200)["status"]["runs"], 5);
}

#[tokio::test]
async fn repeated_request_creates_one_run() {
    let daemon = TestDaemon::start().await;
    let keyed = daemon.client.with("idempotency-key", "k");
    let first = make(&keyed, run_body(&["hi"], 1)).await;
    assert_eq!(make(&keyed, run_body(&["hi"], 1)).await, first);
    assert_ne!(make(&daemon.client, run_body(&["hi"], 1)).await, first);
}

async fn on(data: &Path) -> TestDaemon {
    let root = data.join("workspace");
    std::fs::create_dir_all(&root).unwrap();
    let setup = Setup {
        data: Some(data.join("store")),
        ..Setup::settings(|settings| settings.workspace = root)
    };
    setup.start().await
}

#[tokio::test]
async fn run_resumes_after_a_restart_and_starts_each_task_once() {
    let data = tempfile::tempdir().unwrap();
    let daemon = on(data.path()).await;
    // The repeated call contains the earlier answer, so the model answers differently.
    let run = make(&daemon.client, run_body(&["SILENT", "SILENT", "hi"], 2)).await;
    let waits = make(&daemon.client, {
        let mut body = run_body(&["hi"], 1);
        body["start"] = json!(false);
        body
    });
    let waits = waits.await;
    let first = busy(&daemon.client, &run, "t0").await;
    busy(&daemon.client, &run, "t1").await;
    let before = daemon.client.get(&run).await.expect(200);
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.opened.unwrap().close()).await;

    let daemon = on(data.path()).await;
    let client = &daemon.client;
    let same = busy(client, &run, "t0").await;
    assert_eq!(same, first);
    let after = client.get(&run).await.expect(200);
    assert_eq!(after["tasks"], before["tasks"]);
    assert_eq!(
        client.get(&waits).await.expect(200)["lifecycle_status"],
        "pending"
    );
    daemon.model.open();
    let ended = until_ended(client, &run).await;
    assert_eq!(statuses(&ended), ["completed"; 3]);
    for task in ended["tasks"].as_array().unwrap() {
        assert_eq!(task["attempts"], 1);
        let thread = daemon
            .detail(&format!("/v1/threads/{}", text(&task["thread_id"])))
            .await;
        assert_eq!(thread["turns"].as_array().unwrap().len(), 1, "{task}");
    }
    client
        .post(&format!("{waits}/start"), json!({}))
        .await
        .expect(202);
    assert_eq!(
        until_ended(client, &waits).await["lifecycle_status"],
        "completed"
    );
}

#[tokio::test]
async fn subagents_are_listed_with_their_parents() {
    agents_are_listed(None).await;
}

#[tokio::test]
async fn subagents_are_listed_from_disk() {
    let data = tempfile::tempdir().unwrap();
    agents_are_listed(Some(data.path().join("store"))).await;
}

async fn agents_are_listed(data: Option<PathBuf>) {
    let setup = Setup {
        data,
        starts_agents: true,
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let client = &daemon.client;
    let empty = client.get("/v1/agent-runs").await.expect(200);
    assert_eq!(empty["runs"], json!([]));
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "SPAWN hello").await;
    let other = daemon.thread(json!({})).await;
    daemon.say(&other, "hi").await;
    let listed = client.get("/v1/agent-runs").await.expect(200);
    let [run] = &listed["runs"].as_array().unwrap()[..] else {
        panic!("{listed:#}");
    };
    assert_eq!(run["status"], "completed");
    assert_eq!(run["actor_kind"], "subagent");
    assert_eq!(run["spec"]["objective"], "hello");
    assert_eq!(run["spec"]["spawn_depth"], 1);
    assert_eq!(
        format!("/v1/threads/{}", text(&run["owner_session_id"])),
        thread
    );
    assert_eq!(run["usage"]["status"], "reported");
    assert!(
        text(&run["result_summary"]).contains("You said: hello"),
        "{run:#}"
    );
    let id = text(&run["spec"]["run_id"]);
    assert_eq!(
        client
            .get(&format!("/v1/agent-runs/{id}"))
            .await
            .expect(200),
        *run
    );
    let of = async |thread: &str| {
        let thread = thread.rsplit('/').next().unwrap();
        let path = format!("/v1/agent-runs?parent={thread}");
        let listed = client.get(&path).await.expect(200);
        listed["runs"].as_array().unwrap().len()
    };
    assert_eq!((of(&thread).await, of(&other).await), (1, 0));
    // A thread without a parent is not an agent.
    for id in [other.rsplit('/').next().unwrap(), "thr_none", "x"] {
        let answer = client.get(&format!("/v1/agent-runs/{id}")).await;
        assert_eq!(answer.code(), "agent_run_not_found", "{id}");
    }
    assert_eq!(
        client.get("/v1/agent-runs?parent=x").await.code(),
        "invalid_query"
    );
}
