//! Compaction on request.

use serde_json::json;

use windlass_runtime::CompactionSettings;

use crate::support::{Setup, TestDaemon, assert_sound, text};

#[tokio::test]
async fn compaction_is_a_turn_with_one_item_and_replaces_the_history() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    daemon.say(&thread, "answer briefly").await;
    let since = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let mut events = daemon.events(&thread, since).await;
    let path = format!("{thread}/compact");
    let answer = daemon.client.post(&path, json!({"reason": "test"})).await;
    let answer = answer.expect(202);
    assert_eq!(answer["turn"]["input_summary"], "test");
    assert_eq!(answer["turn"]["status"], "in_progress");
    assert_eq!(answer["turn"]["item_ids"], json!([]));
    assert_eq!(answer["thread"]["latest_turn_id"], answer["turn"]["id"]);
    let frames = events.until("turn.completed").await;
    assert_sound(&frames, since);
    let names: Vec<_> = frames.iter().map(|frame| frame.event.as_str()).collect();
    let expected = [
        "turn.started",
        "item.started",
        "item.completed",
        "turn.completed",
    ];
    assert_eq!(names, expected);
    assert_eq!(frames[0].data["payload"]["manual_compaction"], true);
    assert_eq!(frames[1].data["payload"]["auto"], false);
    let item = &frames[1].data["payload"]["item"];
    assert_eq!(item["kind"], "context_compaction");
    assert_eq!(item["summary"], "Manual context compaction started");
    let done = &frames[2].data["payload"];
    assert_eq!(
        (
            &done["auto"],
            &done["messages_before"],
            &done["messages_after"]
        ),
        (&json!(false), &json!(4), &json!(1))
    );
    let summary = text(&done["item"]["summary"]);
    assert!(summary.starts_with("Compaction complete: 4"), "{summary}");
    let turn = &frames[3].data["payload"]["turn"];
    assert_eq!(turn["status"], "completed");
    assert_eq!(
        turn["usage"]["input_tokens"], 100,
        "what it cost is counted"
    );
    let summary_request = daemon.model.requests().pop().unwrap();
    assert!(
        summary_request.config.tools.is_empty(),
        "a summary needs no tools"
    );
    let messages = daemon.model.messages();
    assert!(
        messages.iter().any(|line| line == "user: hello"),
        "{messages:?}"
    );

    daemon.say(&thread, "continue").await;
    let messages = daemon.model.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("They talked."), "{messages:?}");
    assert_eq!(messages[1], "user: continue");
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["turns"].as_array().unwrap().len(), 4);
    let first = &detail["items"][0]["detail"];
    assert_eq!(first, "hello", "people still have everything");
    let usage = daemon.client.get("/v1/usage").await.expect(200);
    assert_eq!(usage["totals"]["turns"], 4);
    assert_eq!(usage["totals"]["input_tokens"], 400);
}

#[tokio::test]
async fn compaction_is_refused_during_a_turn_and_a_failed_one_changes_nothing() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let path = format!("{thread}/compact");
    daemon.say(&thread, "hello").await;
    let turn = daemon
        .turn(&thread, json!({"prompt": "SILENT please"}))
        .await;
    let busy = daemon.client.raw("POST", &path, None).await;
    assert_eq!((busy.status, busy.code().as_str()), (409, "turn_active"));
    let stop = format!("{turn}/interrupt");
    daemon.client.raw("POST", &stop, None).await.expect(200);

    daemon.model.break_summaries(true);
    let since = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let mut events = daemon.events(&thread, since).await;
    let answer = daemon.client.raw("POST", &path, None).await.expect(202);
    assert_eq!(answer["turn"]["input_summary"], "Manual context compaction");
    let frames = events.until("turn.completed").await;
    let names: Vec<_> = frames.iter().map(|frame| frame.event.as_str()).collect();
    let expected = [
        "turn.started",
        "item.started",
        "item.failed",
        "turn.completed",
    ];
    assert_eq!(names, expected);
    let end = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(end["status"], "failed");
    assert!(text(&end["error"]).contains("boom"), "{end}");
    daemon.model.break_summaries(false);
    daemon.say(&thread, "continue").await;
    let messages = daemon.model.messages();
    assert_eq!(messages[0], "user: hello", "nothing was lost: {messages:?}");
}

#[tokio::test]
async fn undo_restores_the_conversation_before_a_compaction() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let mut events = daemon.events(&thread, 0).await;
    events.until("turn.completed").await;
    let path = format!("{thread}/compact");
    daemon.client.raw("POST", &path, None).await.expect(202);
    events.until("turn.completed").await;
    let undo = |depth: u32| {
        let path = format!("{thread}/undo");
        daemon.client.post(&path, json!({ "depth": depth }))
    };
    let undone = undo(0).await.expect(201);
    assert_eq!(undone["original_user_text"], "hello");
    let fork = format!("/v1/threads/{}", text(&undone["thread"]["id"]));
    assert_eq!(daemon.detail(&fork).await["turns"], json!([]));
    let further = undo(1).await;
    assert_eq!(
        (further.status, further.code().as_str()),
        (400, "depth_out_of_range")
    );
}

#[tokio::test]
async fn fork_continues_from_the_summary_of_its_parent() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let mut events = daemon.events(&thread, 0).await;
    events.until("turn.completed").await;
    let path = format!("{thread}/compact");
    daemon.client.raw("POST", &path, None).await.expect(202);
    events.until("turn.completed").await;
    daemon.say(&thread, "after it").await;
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = format!("/v1/threads/{}", text(&fork.await.expect(201)["id"]));
    let turns = daemon.detail(&fork).await["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 3, "people see everything");
    daemon.say(&fork, "continue").await;
    let messages = daemon.model.messages();
    assert!(messages[0].contains("They talked."), "{messages:?}");
    assert!(
        messages.iter().all(|line| line != "user: hello"),
        "{messages:?}"
    );
    assert!(
        messages.contains(&"user: after it".to_owned()),
        "{messages:?}"
    );

    // The fork continues from the summary even if its last turn is undone.
    let path = format!("{thread}/undo");
    let undone = daemon.client.post(&path, json!({"depth": 0})).await;
    let undone = undone.expect(201);
    assert_eq!(undone["original_user_text"], "after it");
    let fork = format!("/v1/threads/{}", text(&undone["thread"]["id"]));
    daemon.say(&fork, "continue").await;
    assert!(daemon.model.messages()[0].contains("They talked."));
}

#[tokio::test]
async fn oversized_turn_compacts_the_history_and_continues() {
    let setup = Setup {
        runtime: Box::new(|settings| {
            settings.compaction = Some(CompactionSettings {
                window_tokens: Some(50_000),
                reserve_tokens: Some(1_000),
                keep_recent_tokens: Some(0),
            });
        }),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.model.count(49_900);
    daemon.say(&thread, "hello").await;
    daemon.model.count(100);
    let since = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let mut events = daemon.events(&thread, since).await;
    daemon.say(&thread, "continue").await;
    let frames = events.until("turn.completed").await;
    assert_sound(&frames, since);
    let compaction: Vec<_> = frames
        .iter()
        .filter(|frame| frame.data["payload"]["item"]["kind"] == "context_compaction")
        .collect();
    let names: Vec<_> = compaction.iter().map(|it| it.event.as_str()).collect();
    assert_eq!(names, ["item.started", "item.completed"]);
    assert_eq!(compaction[0].data["payload"]["auto"], true);
    let done = &compaction[1].data["payload"];
    let messages = (&done["messages_before"], &done["messages_after"]);
    assert_eq!(messages, (&json!(3), &json!(2)));
    let turn = &frames.last().unwrap().data["payload"]["turn"];
    assert_eq!(turn["status"], "completed");
    assert_eq!(turn["usage"]["input_tokens"], 200, "both calls count");
    let messages = daemon.model.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("They talked."), "{messages:?}");
    assert_eq!(messages[1], "user: continue");
    let detail = daemon.detail(&thread).await;
    assert_eq!(detail["items"][0]["detail"], "hello");
}
