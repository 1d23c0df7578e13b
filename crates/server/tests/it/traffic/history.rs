//! Recorded threads, saved sessions and environments.

use serde_json::json;

use super::recorder::Recorder;
use crate::support::{TestDaemon, text, until};

pub(super) async fn history(record: &mut Recorder, daemon: &TestDaemon, id: &str) {
    record.heading("reading and changing threads");
    record.send("GET", "/v1/threads", &[], None).await;
    record.send("GET", "/v1/threads?limit=1", &[], None).await;
    record
        .send("GET", "/v1/threads?state=waiting", &[], None)
        .await;
    record.send("GET", "/v1/threads/summary", &[], None).await;
    record.send("GET", "/v1/threads/{id}", &[id], None).await;
    record
        .send("GET", "/v1/threads/{id}/context", &[id], None)
        .await;
    record
        .send("GET", "/v1/threads/{id}/export", &[id], None)
        .await;
    record
        .send(
            "GET",
            "/v1/threads/{id}/records?kinds=turn.*,llm.generation&limit=4",
            &[id],
            None,
        )
        .await;
    record
        .send("GET", "/v1/threads/{id}/state?at=12", &[id], None)
        .await;
    record
        .send("POST", "/v1/threads/{id}/verify", &[id], None)
        .await;
    let patch = json!({"title": "Harbour", "archived": true});
    record
        .send("PATCH", "/v1/threads/{id}", &[id], Some(patch))
        .await;
    record
        .send(
            "PATCH",
            "/v1/threads/{id}",
            &[id],
            Some(json!({"archived": false})),
        )
        .await;
    record
        .send("POST", "/v1/threads/{id}/resume", &[id], Some(json!({})))
        .await;
    record
        .send("POST", "/v1/threads/{id}/fork", &[id], Some(json!({})))
        .await;
    record
        .send(
            "POST",
            "/v1/threads/{id}/patch-undo",
            &[id],
            Some(json!({})),
        )
        .await;
    let undone = record
        .send("POST", "/v1/threads/{id}/undo", &[id], Some(json!({})))
        .await;
    record.line(&format!("undone {}", undone.status));
    let compacted = record
        .send(
            "POST",
            "/v1/threads/{id}/compact",
            &[id],
            Some(json!({"reason": "test"})),
        )
        .await;
    let turn = text(&compacted.json()["turn"]["id"]);
    let path = format!("/v1/threads/{id}/turns/{turn}");
    until(record.client(), &path, |turn| {
        turn["turn"]["status"] == "completed" || turn["status"] == "completed"
    })
    .await;
    let retried = record
        .send("POST", "/v1/threads/{id}/retry", &[id], Some(json!({})))
        .await
        .json();
    if let (Some(thread), Some(turn)) = (
        retried["thread"]["id"].as_str(),
        retried["turn"]["id"].as_str(),
    ) {
        let path = format!("/v1/threads/{thread}/turns/{turn}");
        until(record.client(), &path, |turn| {
            turn["turn"]["status"] != "in_progress" && turn["status"] != "in_progress"
        })
        .await;
    }
    record
        .send("POST", "/v1/threads/{id}/replay", &[id], Some(json!({})))
        .await;
    record
        .send("GET", "/v1/usage?group_by=model", &[], None)
        .await;
    record
        .send("GET", "/v1/runs?status=failure,cancelled", &[], None)
        .await;
    record.send("GET", "/v1/agent-runs", &[], None).await;
    let runs = daemon.client.get("/v1/agent-runs").await.expect(200);
    let run = text(&runs["runs"][0]["spec"]["run_id"]);
    record
        .send("GET", "/v1/agent-runs/{run_id}", &[&run], None)
        .await;
    record.send("GET", "/v1/snapshots", &[], None).await;
    let snapshots = daemon.client.get("/v1/snapshots").await.expect(200);
    let snapshots = snapshots
        .as_array()
        .or_else(|| snapshots["snapshots"].as_array())
        .cloned()
        .unwrap_or_default();
    if let Some(snapshot) = snapshots.first() {
        let snapshot = text(&snapshot["id"]);
        record
            .send(
                "POST",
                "/v1/snapshots/{id}/restore",
                &[&snapshot],
                Some(json!({})),
            )
            .await;
    }

    record.heading("saved sessions");
    let saved = record
        .send(
            "POST",
            "/v1/sessions",
            &[],
            Some(json!({"thread_id": id, "title": "A place"})),
        )
        .await;
    let session = text(&saved.json()["session_id"]);
    record.send("GET", "/v1/sessions", &[], None).await;
    record.send("GET", "/v1/sessions/summary", &[], None).await;
    record
        .send("GET", "/v1/sessions/{id}", &[&session], None)
        .await;
    record
        .send("GET", "/v1/sessions/{id}/context", &[&session], None)
        .await;
    record
        .send(
            "PATCH",
            "/v1/sessions/{id}",
            &[&session],
            Some(json!({"title": "Another"})),
        )
        .await;
    let update = json!({"session_id": session, "thread_id": id});
    record.send("PUT", "/v1/sessions", &[], Some(update)).await;
    record
        .send(
            "POST",
            "/v1/sessions/{id}/resume-thread",
            &[&session],
            Some(json!({})),
        )
        .await;
    record
        .send("DELETE", "/v1/sessions/{id}", &[&session], None)
        .await;
}

pub(super) async fn environments(record: &mut Recorder, data: &std::path::Path) {
    record.heading("environments");
    let root = data.join("staging");
    std::fs::create_dir(&root).unwrap();
    let body = json!({"id": "staging", "root": root.canonicalize().unwrap(), "policy": {"shell": false, "network": "none"}});
    record
        .send("POST", "/v1/environments", &[], Some(body))
        .await;
    record.send("GET", "/v1/environments", &[], None).await;
    record
        .send("GET", "/v1/environments/{id}", &["staging"], None)
        .await;
    record
        .send("DELETE", "/v1/environments/{id}", &["staging"], None)
        .await;
}
