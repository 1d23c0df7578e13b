//! The event stream: sequence numbers, cursors, replay.

use serde_json::json;

use crate::support::{TestDaemon, assert_sound, text};

fn names(frames: &[crate::support::Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

#[tokio::test]
async fn r23_reconnecting_reader_gets_each_event_once() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut stream = daemon.events(&thread, 0).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-cache");
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let mut seen = stream.until("item.delta").await;
    drop(stream);
    let cursor = seen.last().unwrap().id.unwrap();
    daemon.model.open();
    // A reconnecting browser repeats its URL and adds the header, which takes precedence.
    let client = daemon.client.with("last-event-id", &cursor.to_string());
    let mut stream = client.stream(&format!("{thread}/events?since_seq=0")).await;
    seen.extend(stream.until("turn.completed").await);
    assert_sound(&seen, 0);
    let mut whole = daemon.events(&thread, 0).await;
    assert_eq!(whole.until("turn.completed").await, seen);
    let reply = daemon
        .client
        .with("last-event-id", "x")
        .get(&format!("{thread}/events"))
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (400, "invalid_query")
    );
}

#[tokio::test]
async fn r24_cursor_past_the_end_follows_from_the_end() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut stream = daemon.events(&thread, 4000).await;
    let comment = stream.until_comment("cursor").await;
    assert_eq!(comment, "cursor 4000 is past the end, following from 1");
    daemon.turn(&thread, json!({"prompt": "hello"})).await;
    let frames = stream.until("turn.completed").await;
    assert_sound(&frames, 1);
}

#[tokio::test]
async fn r26_end_of_the_replay_is_signalled() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let head = daemon.detail(&thread).await["latest_seq"].as_u64().unwrap();
    let mut stream = daemon.events(&thread, 0).await;
    assert_eq!(
        stream.until_comment("caught-up").await,
        format!("caught-up {head}")
    );
    let mut at_end = daemon.events(&thread, head).await;
    assert_eq!(
        at_end.until_comment("caught-up").await,
        format!("caught-up {head}")
    );
}

#[tokio::test]
async fn replay_can_be_limited_to_the_newest_events() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    daemon.say(&thread, "hello").await;
    let all = daemon
        .events(&thread, 0)
        .await
        .until("turn.completed")
        .await;
    let left_out = all[all.len() - 3].id.unwrap();
    let mut stream = daemon
        .client
        .stream(&format!("{thread}/events?replay_limit=2"))
        .await;
    let frames = stream.until("turn.completed").await;
    assert_eq!(names(&frames), ["item.completed", "turn.completed"]);
    assert_sound_from(&frames, left_out);
    let mut live = daemon
        .client
        .stream(&format!("{thread}/events?replay_limit=0"))
        .await;
    daemon.turn(&thread, json!({"prompt": "again"})).await;
    let frames = live.until("turn.completed").await;
    assert_eq!(frames[0].event, "turn.started");
    assert_eq!(
        frames[0].data["previous_seq"].as_u64(),
        all.last().unwrap().id
    );
}

#[tokio::test]
async fn r25_newest_events_are_read_from_the_end() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    for n in 0..600 {
        let change = json!({ "title": n.to_string() });
        daemon.client.patch(&thread, change).await.expect(200);
    }
    for (since, newest, first) in [
        (0, 2, 599),
        (0, 400, 201),
        (300, 4096, 300),
        (598, 2, 599),
        (599, 2, 599),
    ] {
        let path = format!("{thread}/events?since_seq={since}&replay_limit={newest}");
        let mut stream = daemon.client.stream(&path).await;
        let frame = stream.next().await.unwrap();
        // Record 1 starts the thread, and change n is record n + 2.
        assert_eq!(frame.id, Some(first + 1), "{since} {newest}");
        assert_eq!(frame.data["previous_seq"].as_u64(), Some(first));
    }
}

/// Like [`assert_sound`], for events that start in the middle of a turn.
fn assert_sound_from(frames: &[crate::support::Frame], previous: u64) {
    let mut previous = previous;
    for frame in frames {
        assert_eq!(frame.data["previous_seq"].as_u64(), Some(previous));
        previous = frame.id.unwrap();
    }
}

#[tokio::test]
async fn detail_and_following_events_are_gapless() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut live = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    live.until("item.delta").await;
    let detail = daemon.detail(&thread).await;
    let items = detail["items"].as_array().unwrap();
    let answer = items.last().unwrap();
    assert_eq!(
        (
            text(&answer["detail"]).as_str(),
            text(&answer["status"]).as_str()
        ),
        ("word0 ", "in_progress")
    );
    daemon.model.open();
    let cursor = detail["latest_seq"].as_u64().unwrap();
    let mut stream = daemon.events(&thread, cursor).await;
    let frames = stream.until("turn.completed").await;
    let deltas: String = frames
        .iter()
        .filter(|frame| frame.event == "item.delta")
        .map(|frame| text(&frame.data["payload"]["delta"]))
        .collect();
    assert_eq!(deltas, "word1 ");
    let completed = frames
        .iter()
        .find(|frame| frame.event == "item.completed")
        .unwrap();
    assert_eq!(completed.data["payload"]["item"]["detail"], "word0 word1 ");
    assert_eq!(completed.data["payload"]["item"]["id"], answer["id"]);
}

#[tokio::test]
async fn one_shot_stream_reports_a_submitted_answer() {
    let daemon = TestDaemon::start().await;
    let body = json!({"prompt": "ASK me"});
    let mut stream = daemon.client.post_stream("/v1/stream", body).await;
    let question = stream.until("user_input.required").await.pop().unwrap();
    let (thread, id) = (
        text(&question.data["thread_id"]),
        text(&question.data["id"]),
    );
    let answers = json!({"answers": [{"id": "colour", "label": "Red", "value": "Red"}]});
    let path = format!("/v1/user-input/{thread}/{id}");
    daemon.client.post(&path, answers).await.expect(200);
    let answered = stream.until("user_input.answered").await.pop().unwrap();
    assert_eq!(answered.data["status"], "submitted");
    stream.rest().await;
}

#[tokio::test]
async fn r29_one_shot_stream_names_its_calls_and_its_end() {
    let daemon = TestDaemon::start().await;
    let body = json!({"prompt": "SHELL now", "auto_approve": true});
    let frames = daemon
        .client
        .post_stream("/v1/stream", body)
        .await
        .rest()
        .await;
    assert_eq!(
        names(&frames),
        [
            "turn.started",
            "tool.started",
            "tool.completed",
            "message.delta",
            "turn.completed",
            "done"
        ]
    );
    assert_eq!(frames[1].data["id"], frames[2].data["id"]);
    assert_eq!(
        (&frames[2].data["success"], &frames[2].data["output"]),
        (&json!(true), &json!("hi\n"))
    );
    assert_eq!(frames[4].data["status"], "completed");
    assert_eq!(frames[4].data["usage"]["input_tokens"], 200);
    let frames = daemon
        .client
        .post_stream("/v1/stream", json!({"prompt": "ERR500 now"}))
        .await
        .rest()
        .await;
    assert_eq!(
        names(&frames),
        ["turn.started", "error", "turn.completed", "done"]
    );
    assert_eq!(frames[2].data["status"], "failed");
    assert!(
        frames[2].data["error"].as_str().unwrap().contains("boom"),
        "{:?}",
        frames[2]
    );
    let listed = daemon.client.get("/v1/threads").await.expect(200);
    assert_eq!(listed, json!([]), "its threads are archived");
}
