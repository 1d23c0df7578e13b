//! Starting, steering, stopping.

use serde_json::json;

use crate::support::{Setup, TestDaemon, assert_sound, text};

#[tokio::test]
async fn thread_has_one_turn_at_a_time() {
    let daemon = TestDaemon::start().await;
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
async fn turn_can_be_read_by_its_id() {
    let daemon = TestDaemon::start().await;
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
async fn r22_interrupted_turn_reports_its_usage() {
    let daemon = TestDaemon::start().await;
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
async fn r32_interrupt_takes_effect_while_an_approval_is_pending() {
    let daemon = TestDaemon::start().await;
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
async fn steer_and_interrupt_are_refused_while_no_turn_runs() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let check = async |turn: &str| {
        let steer = json!({"prompt": "x"});
        let steered = daemon.client.post(&format!("{turn}/steer"), steer).await;
        let interrupted = format!("{turn}/interrupt");
        let interrupted = daemon.client.raw("POST", &interrupted, None).await;
        for answer in [steered, interrupted] {
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (409, "no_active_turn"),
                "{turn}"
            );
        }
    };
    check(&format!("{thread}/turns/turn_bogus")).await;
    daemon.say(&thread, "hello").await;
    let detail = daemon.detail(&thread).await;
    let ended = detail["thread"]["latest_turn_id"].as_str().unwrap();
    check(&format!("{thread}/turns/{ended}")).await;
    check(&format!("{thread}/turns/turn_bogus")).await;
}

#[tokio::test]
async fn r33_interrupted_turn_cannot_be_steered() {
    let daemon = TestDaemon::start().await;
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
async fn r34_next_turn_contains_the_partial_answer_and_steered_text() {
    let daemon = TestDaemon::start().await;
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
    daemon.say(&thread, "continue").await;
    let messages = daemon.model.messages();
    for line in [
        "user: SLOW please",
        "agent: word0 ",
        "user: also whales",
        "user: continue",
    ] {
        assert!(
            messages.iter().any(|message| message == line),
            "{line} in {messages:?}"
        );
    }
}

#[tokio::test]
async fn failed_turn_has_an_error_item_and_stays_failed() {
    let daemon = TestDaemon::start().await;
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
async fn turn_flags_apply_to_that_turn_only() {
    let daemon = TestDaemon::start().await;
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

#[tokio::test]
async fn steering_beyond_the_input_limit_gets_retry_after() {
    let setup = Setup {
        runtime: Box::new(|settings| settings.max_waiting_inputs = Some(2)),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "SILENT please"}))
        .await;
    let steer = |text: &str| {
        let path = format!("{turn}/steer");
        daemon.client.post(&path, json!({ "prompt": text }))
    };
    for text in ["one", "two"] {
        steer(text).await.expect(200);
    }
    let refused = steer("three").await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["error"]["details"]["limit"], 2);
}

#[tokio::test]
async fn call_beyond_the_limit_fails_the_tool_and_not_the_turn() {
    let setup = Setup {
        runtime: Box::new(|settings| settings.max_pending_calls = Some(1)),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let tool = json!({"namespace": "tau_bench", "name": "get_reservation", "description": "", "defer_loading": false,
        "input_schema": {"type": "object"}});
    let thread = daemon.thread(json!({"dynamic_tools": [tool]})).await;
    let mut events = daemon.events(&thread, 0).await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "TWICE please"}))
        .await;
    let mut frames = events.until("item.failed").await;
    let pending = daemon.detail(&thread).await["pending_dynamic_tool_calls"].clone();
    assert_eq!(pending.as_array().unwrap().len(), 1);
    let path = format!("{turn}/tool-calls/{}/result", text(&pending[0]["call_id"]));
    let result = json!({"success": true, "content": []});
    daemon.client.post(&path, result).await.expect(202);
    frames.extend(events.until("turn.completed").await);
    assert_sound(&frames, 0);
    let end = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(end["status"], "completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interrupt_ends_streaming_stalled_and_unresponsive_turns() {
    for (prompt, until) in [
        ("SLOW please", "item.delta"),
        ("SILENT please", "turn.lifecycle"),
        ("STUBBORN please", "item.started"),
    ] {
        let daemon = TestDaemon::start().await;
        let thread = daemon.thread(json!({})).await;
        let turn = daemon.turn(&thread, json!({ "prompt": prompt })).await;
        let mut events = daemon.events(&thread, 0).await;
        let mut frames = events.until("turn.lifecycle").await;
        if until != "turn.lifecycle" {
            frames.extend(events.until(until).await);
        }
        let interrupted = async {
            let path = format!("{turn}/interrupt");
            daemon.client.raw("POST", &path, None).await.expect(200);
            events.until("turn.completed").await
        };
        let bound = std::time::Duration::from_secs(2);
        let rest = tokio::time::timeout(bound, interrupted).await;
        frames.extend(rest.unwrap_or_else(|_| panic!("{prompt} continues")));
        assert_sound(&frames, 0);
        let end = &frames.last().unwrap().data["payload"]["turn"];
        assert_eq!(end["status"], "interrupted", "{prompt}");
        // A tool that ignores cancellation does not block the thread: the next turn runs.
        let next = daemon.say(&thread, "hello").await;
        let end = &next.last().unwrap().data["payload"]["turn"];
        assert_eq!(end["status"], "completed", "{prompt}");
        daemon.model.open();
    }
}
