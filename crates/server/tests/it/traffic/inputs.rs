//! Input for a busy thread.

use serde_json::json;

use super::{follow, last_seq};
use crate::support::{TestDaemon, text};
use crate::traffic::recorder::Recorder;

const START: &str = "/v1/threads/{id}/turns";
const QUEUED: &str = "/v1/threads/{id}/queue/{turn_id}";

/// Recorded last so that its IDs do not change the numbers of other IDs.
pub(super) async fn queue(record: &mut Recorder, daemon: &TestDaemon) {
    record.heading("a queue");
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/").to_owned();
    let busy = json!({"prompt": "SILENT please", "on_busy": "queue"});
    record.send("POST", START, &[&id], Some(busy)).await;
    let mut turns = Vec::new();
    for prompt in ["one", "two"] {
        let body = json!({"prompt": prompt, "on_busy": "queue"});
        let queued = record.send("POST", START, &[&id], Some(body)).await;
        turns.push(text(&queued.expect(201)["turn"]["id"]));
    }
    record
        .send("GET", "/v1/threads/{id}/queue", &[&id], None)
        .await;
    let read = "/v1/threads/{id}/turns/{turn_id}";
    record.send("GET", read, &[&id, &turns[0]], None).await;
    for body in [json!({"prompt": "changed", "position": 1}), json!({})] {
        record
            .send("PATCH", QUEUED, &[&id, &turns[0]], Some(body))
            .await;
    }
    for _ in 0..2 {
        record.send("DELETE", QUEUED, &[&id, &turns[1]], None).await;
    }
    let steer = json!({"prompt": "and this", "on_busy": "steer"});
    record.send("POST", START, &[&id], Some(steer)).await;
    let stop = json!({"prompt": "instead", "on_busy": "interrupt"});
    record.send("POST", START, &[&id], Some(stop)).await;
    let mut since = 0;
    for _ in 0..3 {
        let end = follow(record, daemon, &id, since, "turn.completed").await;
        since = last_seq(&end);
    }
    record.send("DELETE", QUEUED, &[&id, &turns[0]], None).await;
}

pub(super) async fn attachments(record: &mut Recorder, daemon: &TestDaemon) {
    record.heading("images and files");
    let thread = daemon.thread(json!({})).await;
    let id = thread.trim_start_matches("/v1/threads/").to_owned();
    let input = json!([
        {"type": "image", "data": crate::attachments::PIXEL},
        {"type": "file", "name": "a.md", "text": "# A"},
    ]);
    let body = json!({"prompt": "look", "input": input});
    record.send("POST", START, &[&id], Some(body)).await;
    follow(record, daemon, &id, 0, "turn.completed").await;
    for part in [
        json!({"type": "image", "data": "aGVsbG8="}),
        json!({"type": "sound"}),
    ] {
        let body = json!({"prompt": "look", "input": [part]});
        record.send("POST", START, &[&id], Some(body)).await;
    }
    let image = json!([{"type": "image", "data": crate::attachments::PIXEL}]);
    let body = json!({"prompt": "look", "input": image, "model": "text-only"});
    record.send("POST", START, &[&id], Some(body)).await;
}
