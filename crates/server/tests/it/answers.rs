//! Approvals and questions.

use serde_json::{Value, json};

use crate::support::{TestDaemon, assert_sound, text};

#[tokio::test]
async fn r30_two_waiting_threads_are_answered_separately() {
    let daemon = TestDaemon::start().await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let thread = daemon.thread(json!({})).await;
        let mut events = daemon.events(&thread, 0).await;
        daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
        let approval = events.until("approval.required").await.pop().unwrap();
        waiting.push((
            thread,
            events,
            text(&approval.data["payload"]["approval_id"]),
        ));
    }
    assert_ne!(
        waiting[0].2, waiting[1].2,
        "both calls have the provider's id toolu_1"
    );
    for ((_, events, id), decision) in waiting.iter_mut().zip(["allow", "deny"]) {
        let answer = daemon
            .client
            .post(
                &format!("/v1/approvals/{id}"),
                json!({"decision": decision}),
            )
            .await
            .expect(200);
        assert_eq!(
            answer,
            json!({"ok": true, "approval_id": id, "decision": decision, "delivered": true})
        );
        let frames = events.until("turn.completed").await;
        let decided = frames
            .iter()
            .find(|frame| frame.event == "approval.decided")
            .unwrap();
        assert_eq!(decided.data["payload"]["decision"], decision);
        let end = if decision == "allow" {
            "item.completed"
        } else {
            "item.failed"
        };
        assert!(frames.iter().any(|frame| frame.event == end));
        let ended = &frames.last().unwrap().data["payload"]["turn"];
        let unapproved = match decision {
            "allow" => Value::Null,
            _ => json!({"refused": 1, "timed_out": 0}),
        };
        assert_eq!(ended["unapproved_calls"], unapproved);
    }
}

#[tokio::test]
async fn r35_output_of_an_approved_call_is_unchanged() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let mut frames = events.until("approval.required").await;
    let approval = frames.last().unwrap().clone();
    let payload = &approval.data["payload"];
    let item = frames
        .iter()
        .rev()
        .find(|frame| frame.event == "item.started")
        .unwrap();
    assert_eq!(payload["call_id"], item.data["payload"]["tool"]["id"]);
    assert_eq!(approval.data["item_id"], item.data["item_id"]);
    assert_eq!(
        (&payload["tool_name"], &payload["id"]),
        (&json!("shell"), &payload["approval_id"])
    );
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["pending_approvals"][0]["id"], payload["id"]);
    assert_eq!(detail["turns"][0]["waiting_for"], json!(["approval"]));
    let path = format!("/v1/approvals/{}", text(&payload["id"]));
    let bad = daemon
        .client
        .post(&path, json!({"decision": "maybe"}))
        .await;
    assert_eq!((bad.status, bad.code().as_str()), (400, "invalid_decision"));
    daemon
        .client
        .post(&path, json!({"decision": "allow"}))
        .await
        .expect(200);
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    let done = frames
        .iter()
        .find(|frame| {
            frame.data["item_id"] == approval.data["item_id"] && frame.event == "item.completed"
        })
        .unwrap();
    assert_eq!(done.data["payload"]["item"]["detail"], "hi\n");
    assert_eq!(
        done.data["payload"]["item"]["metadata"]["approval"]["decision"],
        "allow"
    );
}

#[tokio::test]
async fn r36_waiting_call_does_not_block_others() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "BOTH please"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    loop {
        let frame = events.next().await.unwrap();
        if frame.event == "item.completed" {
            assert_ne!(frame.data["item_id"], approval.data["item_id"]);
            assert_eq!(
                frame.data["payload"]["item"]["metadata"]["tool"]["name"],
                "clock"
            );
            break;
        }
    }
    let id = text(&approval.data["payload"]["approval_id"]);
    daemon
        .client
        .post(&format!("/v1/approvals/{id}"), json!({"decision": "deny"}))
        .await
        .expect(200);
    events.until("turn.completed").await;
}

#[tokio::test]
async fn r37_equal_repeat_gets_the_first_answer_and_a_different_one_is_refused() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&approval.data["payload"]["approval_id"])
    );
    let first = daemon
        .client
        .post(&path, json!({"decision": "allow"}))
        .await
        .expect(200);
    events.until("turn.completed").await;
    assert_eq!(
        daemon
            .client
            .post(&path, json!({"decision": "allow"}))
            .await
            .expect(200),
        first
    );
    let other = daemon.client.post(&path, json!({"decision": "deny"})).await;
    assert_eq!(
        (other.status, other.code().as_str()),
        (404, "approval_not_pending")
    );
    let unknown = daemon
        .client
        .post("/v1/approvals/toolu_2_3", json!({"decision": "deny"}))
        .await;
    assert_eq!(
        unknown.json()["error"]["message"],
        "no pending approval with id 'toolu_2_3'"
    );
}

#[tokio::test]
async fn denial_reason_reaches_the_model() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&approval.data["payload"]["approval_id"])
    );
    for wrong in [
        json!({"decision": "allow", "reason": "I like it"}),
        json!({"decision": "deny", "reason": "x".repeat(2_001)}),
    ] {
        let refused = daemon.client.post(&path, wrong).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "invalid_field")
        );
        assert_eq!(
            refused.json()["error"]["details"]["field"],
            json!("/reason")
        );
    }
    let reason = "Use make instead.";
    daemon
        .client
        .post(&path, json!({"decision": "deny", "reason": reason}))
        .await
        .expect(200);
    let frames = events.until("turn.completed").await;
    let decided = frames
        .iter()
        .find(|frame| frame.event == "approval.decided")
        .unwrap();
    assert_eq!(decided.data["payload"]["reason"], reason);
    let messages = daemon.model.messages();
    assert!(
        messages.iter().any(|message| message.contains(reason)),
        "{messages:?}"
    );
}

#[tokio::test]
async fn remembered_approval_is_not_requested_again() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&approval.data["payload"]["approval_id"])
    );
    daemon
        .client
        .post(&path, json!({"decision": "allow", "remember": true}))
        .await
        .expect(200);
    events.until("turn.completed").await;
    assert_eq!(daemon.detail(&thread).await["thread"]["auto_approve"], true);
    let frames = daemon.say(&thread, "SHELL now").await;
    assert!(
        frames
            .iter()
            .all(|frame| frame.event != "approval.required")
    );
}

#[tokio::test]
async fn question_answer_reaches_only_the_model() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "ASK me"})).await;
    let mut frames = events.until("user_input.required").await;
    let question = frames.last().unwrap().data["payload"].clone();
    assert_eq!(
        question["request"]["questions"][0]["options"][1]["label"],
        "Blue"
    );
    assert_eq!(question["request"]["questions"][0]["multi_select"], false);
    let detail = daemon.detail(&thread).await;
    assert_eq!(
        detail["pending_user_inputs"][0]["request"],
        question["request"]
    );
    let thread_id = thread.trim_start_matches("/v1/threads/");
    let unknown = daemon
        .client
        .post(
            &format!("/v1/user-input/{thread_id}/bogus"),
            json!({"answers": []}),
        )
        .await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "user_input_not_pending")
    );
    let id = text(&question["id"]);
    let path = format!("/v1/user-input/{thread_id}/{id}");
    for wrong in [
        json!([]),
        json!([{"id": "size", "label": "Red", "value": "Red"}]),
        json!([{"id": "colour", "label": "Other", "value": "Green"}]),
    ] {
        let refused = daemon.client.post(&path, json!({"answers": wrong})).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, "invalid_field")
        );
        if wrong[0]["id"] == "colour" {
            let error = &refused.json()["error"];
            let details = json!({"field": "/answers/0/label", "options": ["Red", "Blue"]});
            assert_eq!(error["details"], details);
            assert!(text(&error["message"]).contains("`colour`"), "{error}");
        }
    }
    let answers = json!({"answers": [{"id": "colour", "label": "Red", "value": "crimson"}]});
    for _ in 0..2 {
        let reply = daemon.client.post(&path, answers.clone()).await.expect(200);
        assert_eq!(
            reply,
            json!({"ok": true, "input_id": id, "delivered": true})
        );
    }
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    assert!(
        daemon
            .model
            .messages()
            .iter()
            .any(|line| line.contains("crimson"))
    );
    let item = daemon.detail(&thread).await["items"][1].clone();
    assert_eq!(item["detail"], "User input submitted");
    assert_eq!(item["metadata"]["response_redacted"], true);
}

#[tokio::test]
async fn remembered_approval_disables_approvals_of_the_thread() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let id = text(&approval.data["payload"]["approval_id"]);
    let allow = json!({"decision": "allow", "remember": true});
    let path = format!("/v1/approvals/{id}");
    daemon.client.post(&path, allow.clone()).await.expect(200);
    let frames = events.until("turn.completed").await;
    let decided = frames
        .iter()
        .find(|frame| frame.event == "approval.decided");
    assert_eq!(decided.unwrap().data["payload"]["remember"], true);
    daemon.client.post(&path, allow).await.expect(200);
    assert_eq!(daemon.detail(&thread).await["thread"]["auto_approve"], true);
    let frames = daemon.say(&thread, "SHELL again").await;
    assert!(
        frames
            .iter()
            .all(|frame| !frame.event.starts_with("approval."))
    );

    let other = daemon.thread(json!({})).await;
    let mut events = daemon.events(&other, 0).await;
    daemon.turn(&other, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let path = format!(
        "/v1/approvals/{}",
        text(&approval.data["payload"]["approval_id"])
    );
    let deny = json!({"decision": "deny", "remember": true});
    daemon.client.post(&path, deny).await.expect(200);
    let frames = events.until("turn.completed").await;
    let decided = frames
        .iter()
        .find(|frame| frame.event == "approval.decided");
    assert_eq!(decided.unwrap().data["payload"]["remember"], false);
    assert_eq!(daemon.detail(&other).await["thread"]["auto_approve"], false);
}

/// Approves a call of a turn, and returns when the turn has ended.
async fn allow(daemon: &TestDaemon, thread: &str, answer: Value) {
    let mut events = daemon.events(thread, 0).await;
    daemon.turn(thread, json!({"prompt": "SHELL now"})).await;
    let approval = events.until("approval.required").await.pop().unwrap();
    let id = text(&approval.data["payload"]["approval_id"]);
    let path = format!("/v1/approvals/{id}");
    daemon.client.post(&path, answer).await.expect(200);
    events.until("turn.completed").await;
}

#[tokio::test]
async fn remembered_approval_does_not_apply_to_forks() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    allow(
        &daemon,
        &thread,
        json!({"decision": "allow", "remember": true}),
    )
    .await;
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["thread"]["auto_approve"], true);
    assert_eq!(detail["thread"]["approvals_remembered"], true);
    for way in ["fork", "undo"] {
        let made = daemon.client.post(&format!("{thread}/{way}"), json!({}));
        let made = made.await.json();
        let fork = match way {
            "undo" => made["thread"].clone(),
            _ => made,
        };
        assert_eq!(fork["auto_approve"], false, "{way}: {fork}");
        assert_eq!(fork.get("approvals_remembered"), None, "{way}");
    }
    // Children inherit the operator's settings.
    let set = json!({"auto_approve": true});
    let set = daemon.client.patch(&thread, set).await.expect(200);
    assert_eq!(set.get("approvals_remembered"), None);
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    assert_eq!(fork.await.expect(201)["auto_approve"], true);
}

#[tokio::test]
async fn approval_can_be_remembered_for_one_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let answer = json!({"decision": "allow", "remember": true, "remember_for": "turn"});
    allow(&daemon, &thread, answer.clone()).await;
    assert_eq!(
        daemon.detail(&thread).await["thread"]["auto_approve"],
        false
    );
    // The next turn needs an approval again.
    allow(&daemon, &thread, answer).await;
    let refused = json!({"decision": "allow", "remember_for": "ever"});
    let refused = daemon.client.post("/v1/approvals/appr_1", refused).await;
    assert_eq!(refused.status, 422);
}
