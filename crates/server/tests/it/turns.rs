//! Starting, steering, stopping.

use serde_json::json;

use crate::support::{Daemon, assert_sound, text};

#[tokio::test]
async fn a_thread_has_one_turn_at_a_time() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let second = daemon
        .client
        .post(&format!("{thread}/turns"), json!({"prompt": "x"}))
        .await;
    assert_eq!(
        (second.status, second.code().as_str()),
        (409, "turn_active")
    );
    let error = second.json()["error"].clone();
    assert_eq!(error["message"], "Thread already has an active turn");
    assert!(turn.ends_with(error["details"]["turn_id"].as_str().unwrap()));
    let compact = daemon
        .client
        .post(&format!("{thread}/compact"), json!({}))
        .await;
    assert_eq!(compact.code(), "turn_active");
    let moved = daemon
        .client
        .patch(&thread, json!({"workspace": "."}))
        .await;
    assert_eq!(moved.code(), "turn_active");
    daemon.model.open();
    daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    daemon.say(&thread, "next").await;
}

#[tokio::test]
async fn a_turn_can_be_read_by_its_id() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon
        .turn(
            &thread,
            json!({"prompt": "hello", "input_summary": "greeting"}),
        )
        .await;
    daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    let read = daemon.client.get(&turn).await.expect(200);
    assert_eq!(read["turn"]["status"], "completed");
    assert_eq!(read["turn"]["input_summary"], "greeting");
    assert_eq!(read["items"].as_array().unwrap().len(), 2);
    let unknown = daemon.client.get(&format!("{thread}/turns/turn_x")).await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "turn_not_found")
    );
    let newest = daemon
        .client
        .get(&format!("{thread}?turns=0"))
        .await
        .expect(200);
    assert_eq!(newest["turns"], json!([]));
}

#[tokio::test]
async fn r22_an_interrupted_turn_reports_what_was_spent() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    events.until("approval.required").await;
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    let end = events.until("turn.completed").await.pop().unwrap();
    let turn = &end.data["payload"]["turn"];
    assert_eq!(turn["status"], "interrupted");
    assert_eq!(turn["usage"]["input_tokens"], 100);
}

#[tokio::test]
async fn r32_an_interrupt_takes_effect_while_an_approval_is_pending() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SHELL now"})).await;
    let mut frames = events.until("approval.required").await;
    daemon
        .client
        .post(&format!("{turn}/interrupt"), json!({}))
        .await
        .expect(200);
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    let names: Vec<_> = frames
        .iter()
        .rev()
        .take(4)
        .map(|frame| frame.event.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "turn.completed",
            "item.interrupted",
            "approval.decided",
            "turn.interrupt_requested"
        ]
    );
    let decided = frames
        .iter()
        .find(|frame| frame.event == "approval.decided")
        .unwrap();
    assert_eq!(decided.data["payload"]["decision"], "deny");
    assert_eq!(decided.data["payload"]["reason"], "turn_terminal");
    assert_eq!(daemon.detail(&thread).await["pending_approvals"], json!([]));
    let again = daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await;
    assert_eq!(
        (again.status, again.code().as_str()),
        (409, "no_active_turn")
    );
}

#[tokio::test]
async fn r33_a_turn_that_was_told_to_stop_cannot_be_steered() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "SILENT please"}))
        .await;
    let wrong = daemon
        .client
        .post(
            &format!("{thread}/turns/turn_bogus/steer"),
            json!({"prompt": "x"}),
        )
        .await;
    assert_eq!(
        (wrong.status, wrong.code().as_str()),
        (409, "turn_not_active")
    );
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    let late = daemon
        .client
        .post(&format!("{turn}/steer"), json!({"prompt": "x"}))
        .await;
    assert_eq!((late.status, late.code().as_str()), (409, "turn_stopping"));
}

#[tokio::test]
async fn r34_the_next_turn_knows_the_partial_answer_and_what_was_steered() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let mut frames = events.until("item.delta").await;
    let steered = daemon
        .client
        .post(&format!("{turn}/steer"), json!({"prompt": "also whales"}))
        .await
        .expect(200);
    assert_eq!(steered["steer_count"], 1);
    assert_eq!(steered["item_ids"].as_array().unwrap().len(), 3);
    frames.extend(events.until("turn.steered").await);
    assert_eq!(
        events.next().await.unwrap().data["payload"]["item"]["detail"],
        "also whales"
    );
    daemon
        .client
        .raw("POST", &format!("{turn}/interrupt"), None)
        .await
        .expect(200);
    let ended = events.until("turn.completed").await;
    let cut = ended
        .iter()
        .find(|frame| frame.event == "item.interrupted")
        .unwrap();
    assert_eq!(cut.data["payload"]["item"]["detail"], "word0 ");
    daemon.say(&thread, "go on").await;
    let told = daemon.model.told();
    for line in [
        "user: SLOW please",
        "agent: word0 ",
        "user: also whales",
        "user: go on",
    ] {
        assert!(told.iter().any(|said| said == line), "{line} in {told:?}");
    }
}

#[tokio::test]
async fn a_failed_turn_has_an_error_item_and_stays_failed() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let frames = daemon.say(&thread, "ERR500 now").await;
    let names: Vec<_> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(
        names,
        [
            "turn.started",
            "item.started",
            "item.completed",
            "turn.lifecycle",
            "item.failed",
            "turn.completed"
        ]
    );
    assert_eq!(frames[4].data["payload"]["item"]["kind"], "error");
    let turn = &frames[5].data["payload"]["turn"];
    assert_eq!(turn["status"], "failed");
    assert!(text(&turn["error"]).contains("boom"), "{turn}");
    assert_eq!(daemon.detail(&thread).await["turns"][0]["status"], "failed");
}

#[tokio::test]
async fn a_turns_own_flags_are_for_that_turn_only() {
    let daemon = Daemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon
        .turn(
            &thread,
            json!({"prompt": "SHELL now", "auto_approve": true}),
        )
        .await;
    let mut events = daemon.events(&thread, 0).await;
    let frames = events.until("turn.completed").await;
    assert!(
        frames
            .iter()
            .all(|frame| frame.event != "approval.required")
    );
    daemon
        .turn(&thread, json!({"prompt": "SHELL now", "mode": "agent"}))
        .await;
    events.until("approval.required").await;
}
