//! Input for a busy thread: the policies, and the editable queue.

use serde_json::{Value, json};

use crate::support::{Frame, MultiTokenDaemon, Setup, TestDaemon, text};

/// Starts a turn that does not end and queues inputs; returns the thread and the queued turns.
async fn busy(daemon: &TestDaemon, prompts: &[&str]) -> (String, Vec<String>) {
    let thread = daemon.thread(json!({})).await;
    daemon
        .turn(&thread, json!({"prompt": "SILENT please"}))
        .await;
    let mut turns = Vec::new();
    for prompt in prompts {
        let body = json!({"prompt": prompt, "on_busy": "queue"});
        let answer = daemon.client.post(&format!("{thread}/turns"), body).await;
        let turn = answer.expect(201)["turn"].clone();
        assert_eq!(turn["status"], "queued");
        assert_eq!(turn["input_summary"], *prompt);
        assert!(turn.get("started_at").is_none());
        turns.push(text(&turn["id"]));
    }
    (thread, turns)
}

async fn prompts(daemon: &TestDaemon, thread: &str) -> Vec<String> {
    let queue = daemon.client.get(&format!("{thread}/queue")).await;
    let queue = queue.expect(200)["queue"].clone();
    let inputs = queue.as_array().unwrap();
    let positions: Vec<_> = inputs.iter().map(|it| it["position"].as_u64()).collect();
    assert_eq!(
        positions,
        (0..inputs.len() as u64).map(Some).collect::<Vec<_>>()
    );
    inputs.iter().map(|it| text(&it["prompt"])).collect()
}

/// Interrupts the open turn and returns the messages of the turns after it.
async fn messages_after(daemon: &TestDaemon, thread: &str, turns: usize) -> Vec<String> {
    let mut events = daemon.events(thread, 0).await;
    daemon.model.open();
    let mut frames = Vec::new();
    for _ in 0..=turns {
        frames.extend(events.until("turn.completed").await);
    }
    user_messages(&frames).split_off(1)
}

fn user_messages(frames: &[Frame]) -> Vec<String> {
    let items = frames
        .iter()
        .filter(|frame| frame.event == "item.completed")
        .map(|frame| &frame.data["payload"]["item"]);
    let messages = items.filter(|item| item["kind"] == "user_message");
    messages.map(|item| text(&item["detail"])).collect()
}

#[tokio::test]
async fn queued_inputs_start_in_order_after_the_open_turn() {
    let daemon = TestDaemon::start().await;
    let (thread, turns) = busy(&daemon, &["one", "two"]).await;
    assert_eq!(prompts(&daemon, &thread).await, ["one", "two"]);
    let read = daemon.client.get(&format!("{thread}/turns/{}", turns[0]));
    let read = read.await.expect(200);
    assert_eq!(
        (&read["turn"]["status"], &read["items"]),
        (&json!("queued"), &json!([]))
    );
    assert_eq!(messages_after(&daemon, &thread, 2).await, ["one", "two"]);
    assert_eq!(prompts(&daemon, &thread).await, [""; 0]);
    let read = daemon.client.get(&format!("{thread}/turns/{}", turns[0]));
    assert_eq!(read.await.expect(200)["turn"]["status"], "completed");
}

#[tokio::test]
async fn queued_input_can_be_changed_moved_and_removed() {
    let daemon = TestDaemon::start().await;
    let (thread, turns) = busy(&daemon, &["one", "two", "three"]).await;
    let at = |n: usize| format!("{thread}/queue/{}", turns[n]);
    let client = &daemon.client;
    let edited = client.patch(&at(0), json!({"prompt": "first"})).await;
    let edited = edited.expect(200);
    assert_eq!(
        (
            &edited["prompt"],
            &edited["input_summary"],
            &edited["position"]
        ),
        (&json!("first"), &json!("first"), &json!(0))
    );
    let moved = client.patch(&at(0), json!({"position": 9})).await;
    assert_eq!(moved.expect(200)["position"], 2);
    let both = json!({"prompt": "third", "position": 0});
    assert_eq!(client.patch(&at(2), both).await.expect(200)["position"], 0);
    assert_eq!(prompts(&daemon, &thread).await, ["third", "two", "first"]);
    assert_eq!(client.raw("DELETE", &at(1), None).await.status, 204);
    let gone = client.raw("DELETE", &at(1), None).await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "turn_not_found"));
    assert_eq!(
        messages_after(&daemon, &thread, 2).await,
        ["third", "first"]
    );
    for answer in [
        client.patch(&at(0), json!({"prompt": "late"})).await,
        client.raw("DELETE", &at(0), None).await,
    ] {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "turn_not_queued")
        );
    }
    let replayed = client.post(&format!("{thread}/replay"), json!({})).await;
    assert_eq!(replayed.expect(200).get("divergence"), None);
}

#[tokio::test]
async fn removing_an_input_never_stops_a_running_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let turn = daemon.turn(&thread, json!({"prompt": "SILENT"})).await;
    let queued = turn.replace("/turns/", "/queue/");
    let answer = daemon.client.raw("DELETE", &queued, None).await;
    assert_eq!(answer.code(), "turn_not_queued");
    let read = daemon.client.get(&turn).await.expect(200);
    assert_eq!(read["turn"]["status"], "in_progress");
}

#[tokio::test]
async fn invalid_edits_are_refused_and_change_nothing() {
    let daemon = TestDaemon::start().await;
    let (thread, turns) = busy(&daemon, &["one"]).await;
    let at = format!("{thread}/queue/{}", turns[0]);
    let unknown = format!("{thread}/queue/turn_{}", "0".repeat(32));
    for (path, body, code) in [
        (&at, json!({}), "no_changes"),
        (&at, json!({"prompt": " "}), "prompt_required"),
        (&at, json!({"position": -1}), "invalid_field"),
        (&at, json!({"prompt": 7}), "invalid_field"),
        (&unknown, json!({"prompt": "x"}), "turn_not_found"),
    ] {
        let answer = daemon.client.patch(path, body.clone()).await;
        assert_eq!(answer.code(), code, "{body}");
    }
    let path = format!("{thread}/turns");
    let body = json!({"prompt": "x", "on_busy": "later"});
    assert_eq!(
        daemon.client.post(&path, body).await.code(),
        "invalid_field"
    );
    assert_eq!(prompts(&daemon, &thread).await, ["one"]);
}

#[tokio::test]
async fn steer_joins_the_open_turn() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let path = format!("{thread}/turns");
    let steer = json!({"prompt": "SLOW please", "on_busy": "steer"});
    let started = daemon.client.post(&path, steer).await.expect(201);
    assert_eq!(started["turn"]["status"], "in_progress");
    let keyed = daemon.client.with("idempotency-key", "k");
    let more = json!({"prompt": "and this", "on_busy": "steer"});
    let joined = keyed.post(&path, more.clone()).await.expect(201);
    assert_eq!(joined["turn"]["id"], started["turn"]["id"]);
    assert_eq!(joined["turn"]["steer_count"], 1);
    assert_eq!(
        joined["thread"]["latest_turn_id"],
        started["thread"]["latest_turn_id"]
    );
    assert_eq!(keyed.post(&path, more).await.expect(201), joined);
    let mut events = daemon.events(&thread, 0).await;
    daemon.model.open();
    let frames = events.until("turn.completed").await;
    assert_eq!(user_messages(&frames), ["SLOW please", "and this"]);
}

#[tokio::test]
async fn interrupt_replaces_the_open_turn() {
    let daemon = TestDaemon::start().await;
    let (thread, _) = busy(&daemon, &["later"]).await;
    let body = json!({"prompt": "now", "on_busy": "interrupt"});
    let answer = daemon.client.post(&format!("{thread}/turns"), body).await;
    let turn = answer.expect(201)["turn"].clone();
    assert_eq!(turn["status"], "queued");
    let mut events = daemon.events(&thread, 0).await;
    let first = events.until("turn.completed").await.pop().unwrap();
    assert_eq!(first.data["payload"]["turn"]["status"], "interrupted");
    let second = events.until("turn.completed").await;
    assert_eq!(second.last().unwrap().data["turn_id"], turn["id"]);
    assert_eq!(user_messages(&second), ["now"]);
    assert_eq!(
        user_messages(&events.until("turn.completed").await),
        ["later"]
    );
}

#[tokio::test]
async fn queue_has_a_limit() {
    let setup = Setup {
        runtime: Box::new(|settings| settings.max_waiting_inputs = Some(2)),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let (thread, _) = busy(&daemon, &["one", "two"]).await;
    let body = json!({"prompt": "three", "on_busy": "queue"});
    let refused = daemon.client.post(&format!("{thread}/turns"), body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    assert_eq!(prompts(&daemon, &thread).await, ["one", "two"]);
}

#[tokio::test]
async fn queue_changes_are_events_on_opted_in_streams() {
    let daemon = TestDaemon::start().await;
    let (thread, turns) = busy(&daemon, &["one", "two"]).await;
    let at = |n: usize| format!("{thread}/queue/{}", turns[n]);
    let edit = json!({"prompt": "changed", "position": 1});
    daemon.client.patch(&at(0), edit).await.expect(200);
    daemon.client.raw("DELETE", &at(1), None).await;
    let path = format!("{thread}/events?include=queue");
    let frames = daemon
        .client
        .stream(&path)
        .await
        .until("input.removed")
        .await;
    let shown: Vec<Value> = frames
        .iter()
        .filter(|frame| frame.event.starts_with("input."))
        .map(|frame| {
            let payload = &frame.data["payload"];
            json!([
                frame.event,
                payload["turn_id"],
                payload["prompt"],
                payload["position"]
            ])
        })
        .collect();
    assert_eq!(
        shown,
        [
            json!(["input.queued", turns[0], "one", null]),
            json!(["input.queued", turns[1], "two", null]),
            json!(["input.edited", turns[0], "changed", 1]),
            json!(["input.removed", turns[1], null, null]),
        ]
    );
    daemon.model.open();
    let mut plain = daemon.events(&thread, 0).await;
    let mut names = plain.until("turn.completed").await;
    names.extend(plain.until("turn.completed").await);
    assert!(names.iter().all(|frame| !frame.event.starts_with("input.")));
}

#[tokio::test]
async fn agent_cannot_edit_an_input_queued_without_approvals() {
    let home = MultiTokenDaemon::start().await;
    let agent = home.client(&home.agent("a"));
    let operator = &home.daemon.client;
    let made = agent.post("/v1/threads", json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", text(&made["id"]));
    let turns = format!("{thread}/turns");
    let body = json!({"prompt": "SILENT", "auto_approve": true});
    operator.post(&turns, body).await.expect(201);
    for (is_trusted, expected) in [(true, 403), (false, 200)] {
        let body = json!({"prompt": "next", "on_busy": "queue", "auto_approve": is_trusted});
        let queued = operator.post(&turns, body).await.expect(201);
        let path = format!("{thread}/queue/{}", text(&queued["turn"]["id"]));
        let edited = agent.patch(&path, json!({"prompt": "run it"})).await;
        assert_eq!(edited.status, expected, "{is_trusted}");
    }
    let steer = json!({"prompt": "run it", "on_busy": "steer"});
    assert_eq!(agent.post(&turns, steer).await.status, 403);
}
