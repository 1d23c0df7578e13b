//! Unattended work: tasks, automations, fleet runs and subagents.

use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::support::{TestDaemon, text, until};

pub(super) async fn tasks(record: &mut Recorder) {
    record.heading("tasks");
    let made = record
        .send("POST", "/v1/tasks", &[], Some(json!({"prompt": "hi"})))
        .await
        .json();
    let task = text(&made["id"]);
    until(record.client(), &format!("/v1/tasks/{task}"), |task| {
        task["status"] == "completed"
    })
    .await;
    record.send("GET", "/v1/tasks/{id}", &[&task], None).await;
    record.send("GET", "/v1/tasks", &[], None).await;
    record
        .send("POST", "/v1/tasks/{id}/cancel", &[&task], Some(json!({})))
        .await;
}

pub(super) async fn automations(record: &mut Recorder) {
    record.heading("automations");
    let body = json!({"name": "Nightly", "prompt": "hi", "rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=2;BYMINUTE=30"});
    let made = record
        .send("POST", "/v1/automations", &[], Some(body))
        .await
        .json();
    let id = text(&made["id"]);
    record.send("GET", "/v1/automations", &[], None).await;
    record
        .send("GET", "/v1/automations/{id}", &[&id], None)
        .await;
    record
        .send(
            "PATCH",
            "/v1/automations/{id}",
            &[&id],
            Some(json!({"name": "Weekly"})),
        )
        .await;
    record
        .send("POST", "/v1/automations/{id}/run", &[&id], Some(json!({})))
        .await;
    let ended = |runs: &Value| runs[0]["status"] == "completed";
    until(
        record.client(),
        &format!("/v1/automations/{id}/runs"),
        ended,
    )
    .await;
    record
        .send("GET", "/v1/automations/{id}/runs", &[&id], None)
        .await;
    record
        .send(
            "POST",
            "/v1/automations/{id}/pause",
            &[&id],
            Some(json!({})),
        )
        .await;
    record
        .send(
            "POST",
            "/v1/automations/{id}/resume",
            &[&id],
            Some(json!({})),
        )
        .await;
    record
        .send("DELETE", "/v1/automations/{id}", &[&id], None)
        .await;
}

pub(super) async fn fleet(record: &mut Recorder) {
    record.heading("fleet");
    let tasks = json!([{"id": "t0", "instructions": "hi"}]);
    let body = json!({"name": "port", "tasks": tasks, "max_workers": 1});
    let made = record
        .send("POST", "/v1/fleet/runs", &[], Some(body))
        .await
        .json();
    let run = text(&made["run"]["id"]);
    record
        .send(
            "POST",
            "/v1/fleet/runs/{run_id}/start",
            &[&run],
            Some(json!({})),
        )
        .await;
    until(record.client(), &format!("/v1/fleet/runs/{run}"), |run| {
        !run["completed_at"].is_null()
    })
    .await;
    record
        .send("GET", "/v1/fleet/runs/{run_id}", &[&run], None)
        .await;
    record.send("GET", "/v1/fleet/runs", &[], None).await;
    let workers = record
        .send("GET", "/v1/fleet/runs/{run_id}/workers", &[&run], None)
        .await
        .json();
    record
        .send(
            "GET",
            "/v1/fleet/runs/{run_id}/events/replay",
            &[&run],
            None,
        )
        .await;
    let mut stream = record
        .client()
        .stream(&format!("/v1/fleet/runs/{run}/events"))
        .await;
    if let Some(frame) = stream.next().await {
        record.line(&format!("event: {} {}", frame.event, frame.data));
    }
    record.exercised("GET /v1/fleet/runs/{run_id}/events");
    let worker = text(&workers["workers"][0]["worker_id"]);
    record
        .send("GET", "/v1/fleet/workers/{worker_id}", &[&worker], None)
        .await;
    for verb in ["interrupt", "stop", "restart"] {
        let route = format!("/v1/fleet/workers/{{worker_id}}/{verb}");
        record
            .send("POST", &route, &[&worker], Some(json!({})))
            .await;
        // The run has ended, so the recorded answer is a refusal.
        record.exercised(&format!("POST {route}"));
    }
    record
        .send(
            "POST",
            "/v1/fleet/runs/{run_id}/stop",
            &[&run],
            Some(json!({})),
        )
        .await;
}

pub(super) async fn agents(record: &mut Recorder, daemon: &TestDaemon) {
    record.heading("agents at work");
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/");
    daemon.turn(&thread, json!({"prompt": "SPAWN SLOW"})).await;
    let path = format!("/v1/agent-runs?parent={id}");
    let runs = until(record.client(), &path, |runs| {
        runs["runs"][0]["status"] == "running"
    })
    .await;
    let agent = text(&runs["runs"][0]["thread_id"]);
    let nudge = json!({"agent_ids": [agent]});
    let route = "/v1/threads/{id}/agent-runs/nudge";
    record.send("POST", route, &[id], Some(nudge)).await;
    // The agent's progress at this moment varies.
    let cancel = format!("{thread}/agent-runs/{agent}/cancel");
    let canceled = daemon.client.post(&cancel, json!({})).await.expect(200);
    assert_eq!(canceled["thread_id"], agent.as_str());
    record.exercised("POST /v1/threads/{id}/agent-runs/{agent_id}/cancel");
    until(record.client(), &thread, |detail| {
        detail["turns"][0]["status"] == "completed"
    })
    .await;
}
