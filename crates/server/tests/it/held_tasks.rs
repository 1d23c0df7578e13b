//! Jobs that cannot run now are held: shown with the reason, and resumed once it is gone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::TokenFile;

use crate::support::{self, Client, MultiTokenDaemon, Setup, TestDaemon, soon, text};
use crate::tasks::until;

const OTHER: &str = "other-model";

/// Start options of a daemon.
#[derive(Clone, Copy)]
struct RestartOptions {
    has_other_model: bool,
    runs_jobs: bool,
}

const COMPLETE: RestartOptions = RestartOptions {
    has_other_model: true,
    runs_jobs: true,
};
const WITHOUT_MODEL: RestartOptions = RestartOptions {
    has_other_model: false,
    ..COMPLETE
};
/// Accepts requests; starts and resumes nothing.
const ACCEPTS_ONLY: RestartOptions = RestartOptions {
    runs_jobs: false,
    ..COMPLETE
};

async fn start(data: &Path, with: RestartOptions) -> TestDaemon {
    let root = data.join("workspace");
    std::fs::create_dir_all(&root).unwrap();
    let setup = Setup {
        data: Some(data.join("store")),
        has_other_model: with.has_other_model,
        ..Setup::settings(move |settings| {
            settings.workspace = root;
            settings.models.known = BTreeMap::from([(OTHER.to_owned(), support::other_model())]);
            settings.resumes_open_turns = with.runs_jobs;
            settings.jobs.as_mut().unwrap().runs_jobs = with.runs_jobs;
        })
    };
    setup.start().await
}

async fn stop(daemon: TestDaemon) {
    daemon.stop.cancel();
    soon(daemon.running).await.unwrap();
    soon(daemon.runtime.shutdown(Duration::ZERO)).await;
    soon(daemon.opened.unwrap().close()).await;
}

/// Queues a task whose model answers when the daemon's model is opened, and waits for the call.
async fn begin_silent_task(daemon: &TestDaemon) -> String {
    let body = json!({"prompt": "SILENT", "model": OTHER});
    let task = daemon.client.post("/v1/tasks", body).await.expect(201);
    let requested = async {
        while daemon.model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon(requested).await;
    text(&task["id"])
}

async fn until_held(client: &Client, path: &str) -> Value {
    support::until(client, path, |shown| shown["held"].is_object()).await
}

#[tokio::test]
async fn task_with_a_missing_model_is_held_until_it_returns() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start(data.path(), COMPLETE).await;
    let id = begin_silent_task(&daemon).await;
    stop(daemon).await;

    let daemon = start(data.path(), WITHOUT_MODEL).await;
    let held = until_held(&daemon.client, &format!("/v1/tasks/{id}")).await;
    assert_eq!(held["status"], "running", "{held}");
    assert_eq!(held["held"]["cause"], "configuration", "{held}");
    assert!(held["held"]["retry_at"].is_string(), "{held}");
    let list = daemon.client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"][0]["held"]["cause"], "configuration");
    assert_eq!(list["counts"]["failed"], 0);
    stop(daemon).await;

    let daemon = start(data.path(), COMPLETE).await;
    daemon.model.open();
    let task = until(&daemon.client, &id, "completed").await;
    assert_eq!(task["attempt_count"], 1);
    assert_eq!(task["held"], Value::Null);
    let thread = daemon
        .detail(&format!("/v1/threads/{}", text(&task["thread_id"])))
        .await;
    assert_eq!(thread["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fleet_task_with_a_missing_model_retains_its_lease() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start(data.path(), COMPLETE).await;
    let body = json!({
        "name": "one",
        "tasks": [{"id": "t0", "instructions": "SILENT", "worker": {"model": OTHER}}],
        "workers": [{}],
        "start": true,
    });
    let run = daemon.client.post("/v1/fleet/runs", body).await.expect(201);
    let run = format!("/v1/fleet/runs/{}", text(&run["run"]["id"]));
    let requested = async {
        while daemon.model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon(requested).await;
    stop(daemon).await;

    let daemon = start(data.path(), WITHOUT_MODEL).await;
    let is_held = |run: &Value| run["tasks"][0]["held"].is_object();
    let shown = support::until(&daemon.client, &run, is_held).await;
    assert_eq!(shown["tasks"][0]["status"], "leased", "{shown}");
    assert_eq!(shown["tasks"][0]["held"]["cause"], "configuration");
    stop(daemon).await;

    let daemon = start(data.path(), COMPLETE).await;
    daemon.model.open();
    let is_completed = |run: &Value| run["tasks"][0]["status"] == "completed";
    let shown = support::until(&daemon.client, &run, is_completed).await;
    assert_eq!(shown["tasks"][0]["attempts"], 1);
}

#[tokio::test]
async fn open_turn_of_a_cancelled_task_is_interrupted_at_startup() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start(data.path(), COMPLETE).await;
    let id = begin_silent_task(&daemon).await;
    stop(daemon).await;

    let daemon = start(data.path(), ACCEPTS_ONLY).await;
    let cancel = format!("/v1/tasks/{id}/cancel");
    daemon.client.post(&cancel, json!({})).await.expect(200);
    stop(daemon).await;

    let daemon = start(data.path(), COMPLETE).await;
    let task = until(&daemon.client, &id, "canceled").await;
    assert_eq!(daemon.model.requests().len(), 0, "{task}");
}

#[tokio::test]
async fn held_task_can_be_cancelled_and_its_turn_ends() {
    let data = tempfile::tempdir().unwrap();
    let daemon = start(data.path(), COMPLETE).await;
    let id = begin_silent_task(&daemon).await;
    stop(daemon).await;

    let daemon = start(data.path(), WITHOUT_MODEL).await;
    until_held(&daemon.client, &format!("/v1/tasks/{id}")).await;
    let cancel = format!("/v1/tasks/{id}/cancel");
    daemon.client.post(&cancel, json!({})).await.expect(200);
    let task = until(&daemon.client, &id, "canceled").await;
    let turns = daemon
        .detail(&format!("/v1/threads/{}", text(&task["thread_id"])))
        .await;
    assert_eq!(turns["turns"][0]["status"], "interrupted");
    stop(daemon).await;

    let daemon = start(data.path(), COMPLETE).await;
    let task = until(&daemon.client, &id, "canceled").await;
    assert_eq!(daemon.model.requests().len(), 0, "{task}");
}

#[tokio::test]
async fn unreadable_token_file_admits_no_client_and_holds_its_tasks() {
    let home =
        MultiTokenDaemon::with(|settings| settings.jobs.as_mut().unwrap().tasks.workers = 1).await;
    let (_, secret) = home.token("client");
    let (client, admin) = (home.client(&secret), &home.daemon.client);
    let busy = admin.post("/v1/tasks", json!({"prompt": "SILENT"})).await;
    until(admin, &text(&busy.expect(201)["id"]), "running").await;
    let queued = client.post("/v1/tasks", json!({"prompt": "hi"})).await;
    let queued = text(&queued.expect(201)["id"]);
    let file = home.directory().join("tokens.json");
    let tokens = std::fs::read(&file).unwrap();
    std::fs::write(&file, "{").unwrap();
    home.daemon.model.open();

    let held = until_held(admin, &format!("/v1/tasks/{queued}")).await;
    assert_eq!(held["status"], "queued", "{held}");
    assert_eq!(held["held"]["cause"], "token", "{held}");
    let refused = client.get("/v1/tasks").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.code(), "tokens_unavailable");

    std::fs::write(&file, tokens).unwrap();
    assert!(TokenFile::new(home.directory()).list().is_ok());
    until(&client, &queued, "completed").await;
}

#[tokio::test]
async fn task_reports_a_timed_out_or_denied_approval() {
    let setup = Setup {
        runtime: Box::new(|settings| settings.wait_timeout = Some(Duration::from_millis(1))),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let client = &daemon.client;
    let task = client.post("/v1/tasks", json!({"prompt": "SHELL"})).await;
    let task = until(client, &text(&task.expect(201)["id"]), "completed").await;
    let timed_out = json!({"refused": 0, "timed_out": 1});
    assert_eq!(task["unapproved_calls"], timed_out, "{task}");
    let turn = format!(
        "/v1/threads/{}/turns/{}",
        text(&task["thread_id"]),
        text(&task["turn_id"])
    );
    let turn = client.get(&turn).await.expect(200);
    assert_eq!(turn["turn"]["unapproved_calls"], timed_out);
    let list = client.get("/v1/tasks").await.expect(200);
    assert_eq!(list["tasks"][0]["unapproved_calls"], timed_out);

    let body = json!({
        "name": "one",
        "tasks": [{"id": "t0", "instructions": "SHELL"}],
        "workers": [{}],
        "start": true,
    });
    let run = client.post("/v1/fleet/runs", body).await.expect(201);
    let run = format!("/v1/fleet/runs/{}", text(&run["run"]["id"]));
    let is_completed = |run: &Value| run["tasks"][0]["status"] == "completed";
    let shown = support::until(client, &run, is_completed).await;
    assert_eq!(shown["tasks"][0]["unapproved_calls"], timed_out, "{shown}");

    let daemon = TestDaemon::start().await;
    let client = &daemon.client;
    let task = client.post("/v1/tasks", json!({"prompt": "SHELL"})).await;
    let id = text(&task.expect(201)["id"]);
    let waits = |task: &Value| task["waiting_for"].is_array();
    let task = support::until(client, &format!("/v1/tasks/{id}"), waits).await;
    let thread = format!("/v1/threads/{}", text(&task["thread_id"]));
    let frames = daemon
        .events(&thread, 0)
        .await
        .until("approval.required")
        .await;
    let approval = text(&frames.last().unwrap().data["payload"]["approval_id"]);
    let deny = json!({"decision": "deny"});
    let denied = client.post(&format!("/v1/approvals/{approval}"), deny);
    denied.await.expect(200);
    let task = until(client, &id, "completed").await;
    let refused = json!({"refused": 1, "timed_out": 0});
    assert_eq!(task["unapproved_calls"], refused, "{task}");
}
