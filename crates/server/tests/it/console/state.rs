//! The state of a thread after each of its records, compared with a fold of those records.

use serde_json::{Value, json};
use windlass_core::items::{TurnLog, TurnStatus};
use windlass_core::typed_id::SessionId;

use crate::support::{Setup, TestDaemon, text, until};

fn session(path: &str) -> SessionId {
    let id = path.trim_start_matches("/v1/threads/thr_");
    format!("session_{id}").parse().unwrap()
}

async fn state_at(daemon: &TestDaemon, thread: &str, seq: u64) -> Value {
    let path = format!("{thread}/state?at={seq}&turns=200");
    daemon.client.get(&path).await.expect(200)
}

#[tokio::test]
async fn state_after_each_record_equals_the_fold_of_the_records() {
    let data = tempfile::tempdir().unwrap();
    let on_disk = Setup {
        data: Some(data.path().join("store")),
        ..Setup::default()
    };
    for daemon in [TestDaemon::start().await, on_disk.start().await] {
        let thread = daemon.thread(json!({})).await;
        daemon.say(&thread, "hello").await;
        daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
        let waiting = until(&daemon.client, &thread, |detail| {
            detail["pending_approvals"][0].is_object()
        });
        let approval = text(&waiting.await["pending_approvals"][0]["id"]);
        let decision = json!({"decision": "deny"});
        let decided = daemon
            .client
            .post(&format!("/v1/approvals/{approval}"), decision);
        decided.await.expect(200);
        until(&daemon.client, &thread, |detail| {
            detail["turns"][1]["status"] == "completed"
        })
        .await;
        daemon.say(&thread, "ERR500 now").await;
        let events = daemon.runtime.events_since(session(&thread), 0, 10_000);
        let events = events.await.unwrap();
        let mut log = TurnLog::default();
        let mut waits = 0;
        for event in &events {
            log.apply(event);
            let state = state_at(&daemon, &thread, event.seq()).await;
            assert_eq!(state["at"], event.seq());
            let turns = state["turns"].as_array().unwrap();
            assert_eq!(turns.len(), log.turns().len(), "at {}", event.seq());
            assert_eq!(state["turn_count"], turns.len());
            for (shown, folded) in turns.iter().zip(log.turns()) {
                assert_eq!(text(&shown["id"]), folded.id.to_string());
                let status = match folded.status {
                    TurnStatus::InProgress => "in_progress",
                    TurnStatus::Completed => "completed",
                    TurnStatus::Failed => "failed",
                    TurnStatus::Interrupted => "interrupted",
                };
                assert_eq!(shown["status"], status, "at {}", event.seq());
                let ids: Vec<_> = folded
                    .outline
                    .item_ids
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                assert_eq!(shown["item_ids"], json!(ids), "at {}", event.seq());
            }
            let items = log.turns().iter().flat_map(|turn| log.items_of(turn.id));
            let folded: Vec<_> = items
                .map(|item| {
                    (
                        item.id.to_string(),
                        item.is_ended(),
                        item.detail().into_owned(),
                    )
                })
                .collect();
            let items = state["items"].as_array().unwrap().iter();
            let shown: Vec<_> = items
                .map(|item| {
                    let is_ended = item["status"] != "in_progress";
                    (text(&item["id"]), is_ended, text(&item["detail"]))
                })
                .collect();
            let inputs = |list: &[(String, bool, String)]| list.len();
            assert_eq!(inputs(&shown), inputs(&folded), "at {}", event.seq());
            for (shown, folded) in shown.iter().zip(&folded) {
                assert_eq!(
                    (&shown.0, &shown.2),
                    (&folded.0, &folded.2),
                    "at {}",
                    event.seq()
                );
            }
            let pending = state["pending_approvals"].as_array().unwrap().len();
            assert_eq!(pending, log.open_waits().count(), "at {}", event.seq());
            waits += pending;
        }
        assert!(waits > 0);
        let detail = daemon.detail(&thread).await;
        let newest = daemon
            .client
            .get(&format!("{thread}/state"))
            .await
            .expect(200);
        for field in ["turns", "items", "latest_seq", "pending_approvals"] {
            assert_eq!(newest[field], detail[field], "{field}");
        }
        assert!(newest["usage"]["input_tokens"].is_u64());
    }
}

#[tokio::test]
async fn number_of_turns_is_limited_and_the_sums_are_not() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    for prompt in ["one", "two", "three"] {
        daemon.say(&thread, prompt).await;
    }
    let all = state_at(&daemon, &thread, u64::MAX).await;
    let one = daemon
        .client
        .get(&format!("{thread}/state?turns=1"))
        .await
        .expect(200);
    assert_eq!(one["turns"].as_array().unwrap().len(), 1);
    assert_eq!(one["turns"][0], all["turns"][2]);
    assert_eq!(
        (&one["turn_count"], &one["usage"]),
        (&json!(3), &all["usage"])
    );
    let none = daemon
        .client
        .get(&format!("{thread}/state?turns=0&items=false"));
    let none = none.await.expect(200);
    assert_eq!((&none["turns"], &none["items"]), (&json!([]), &json!([])));
    let empty = state_at(&daemon, &thread, 0).await;
    assert_eq!(
        (&empty["turn_count"], empty.get("usage")),
        (&json!(0), None)
    );
}

#[tokio::test]
async fn fork_has_the_states_of_its_shared_records() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let shared = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = format!("/v1/threads/{}", text(&fork.await.expect(201)["id"]));
    daemon.say(&fork, "and more").await;
    for seq in [shared / 2, shared, shared + 5] {
        let of_fork = state_at(&daemon, &fork, seq).await;
        let of_parent = state_at(&daemon, &thread, seq.min(shared)).await;
        let statuses = |state: &Value| {
            let turns = state["turns"].as_array().unwrap().iter();
            turns
                .take(1)
                .map(|turn| text(&turn["status"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(statuses(&of_fork), statuses(&of_parent), "at {seq}");
        let details = |state: &Value| {
            let items = state["items"].as_array().unwrap().iter();
            items
                .take(2)
                .map(|item| item["detail"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(details(&of_fork), details(&of_parent), "at {seq}");
    }
    let newest = daemon
        .client
        .get(&format!("{fork}/state"))
        .await
        .expect(200);
    let detail = daemon.detail(&fork).await;
    assert_eq!(
        (&newest["turns"], &newest["items"]),
        (&detail["turns"], &detail["items"])
    );
}
