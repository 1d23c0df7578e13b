//! Replay: recorded turns produce the same decisions.

use serde_json::json;

use crate::support::{TestDaemon, text};

#[tokio::test]
async fn replay_reproduces_recorded_decisions() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let approval = text(&approval.data["payload"]["approval_id"]);
    let path = format!("{thread}/replay");
    let whole = daemon.client.post(&path, json!({})).await.expect(200);
    assert_eq!(whole["turns"], 2, "{whole}");
    assert_eq!(whole.get("divergence"), None, "a turn that waits: {whole}");

    let allowed = daemon.client.post(
        &format!("/v1/approvals/{approval}"),
        json!({"decision": "allow"}),
    );
    allowed.await.expect(200);
    events.until("turn.completed").await;
    let detail = daemon.detail(&thread).await;
    let after = daemon.client.post(&path, json!({})).await.expect(200);
    assert_eq!(after.get("divergence"), None, "{after}");
    assert_eq!(after["reconfigured"], json!([]));
    assert!(after["records"].as_u64() > whole["records"].as_u64());
    let seq = daemon.detail(&thread).await["latest_seq"].clone();
    assert_eq!(seq, detail["latest_seq"], "nothing is recorded by it");

    let first = json!({"turn_id": detail["turns"][0]["id"]});
    let first = daemon.client.post(&path, first).await.expect(200);
    assert_eq!(first["turns"], 1, "{first}");
    let unknown = json!({"turn_id": "turn_0"});
    let unknown = daemon.client.post(&path, unknown).await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "turn_not_found")
    );
    let misspelt = daemon.client.post(&path, json!({"turn": "x"})).await;
    assert_eq!(
        (misspelt.status, misspelt.code().as_str()),
        (422, "invalid_field")
    );
}

#[tokio::test]
async fn replay_reproduces_a_fork_with_its_shared_records() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = format!("/v1/threads/{}", text(&fork.await.expect(201)["id"]));
    daemon.say(&fork, "and on").await;
    let again = daemon.client.post(&format!("{fork}/replay"), json!({}));
    let again = again.await.expect(200);
    assert_eq!(
        (again.get("divergence"), &again["turns"]),
        (None, &json!(2))
    );
}
