//! Long threads, and clients that do not read.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    Frame, MultiTokenDaemon, Setup, TOKEN, Tap, TestDaemon, assert_sound, soon, text, until,
};

/// Size of each input in bytes, and number of inputs. Their total exceeds the kernel's buffers of a connection.
const INPUT_BYTES: usize = 2_000_000;
const INPUTS: usize = 8;

async fn say_long(daemon: &TestDaemon, thread: &str, number: usize, bytes: usize) {
    let prompt = format!("{number} {}", "x".repeat(bytes));
    daemon.turn(thread, json!({ "prompt": prompt })).await;
    // The list is small although the thread is large.
    let is_idle = |list: &Value| list[0]["latest_turn_status"] == "completed";
    until(&daemon.client, "/v1/threads/summary?git=false", is_idle).await;
}

#[tokio::test]
async fn long_thread_is_streamed_unchanged() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({"title": "\"items\":[]"})).await;
    let mut turns = Vec::new();
    for number in 0..8 {
        say_long(&daemon, &thread, number, 12_000).await;
        // A single turn is small and built in memory.
        let newest = daemon.client.get(&format!("{thread}?turns=1")).await;
        assert!(newest.header("content-length").is_some());
        turns.push(newest.expect(200));
    }
    let reply = daemon.client.get(&thread).await;
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    let whole = reply.expect(200);
    let all = |name: &str| -> Vec<Value> {
        let parts = turns.iter().flat_map(|turn| turn[name].as_array().unwrap());
        parts.cloned().collect()
    };
    assert_eq!(whole["turns"], Value::from(all("turns")));
    assert_eq!(whole["items"], Value::from(all("items")));
    let last = turns.last().unwrap();
    for name in [
        "thread",
        "latest_seq",
        "pending_approvals",
        "pending_user_inputs",
    ] {
        assert_eq!(whole[name], last[name], "{name}");
    }
}

#[tokio::test]
async fn running_turn_is_shown_with_its_partial_text() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    events.until("item.delta").await;
    let detail = daemon.detail(&thread).await;
    let items = detail["items"].as_array().unwrap();
    let open = items
        .iter()
        .find(|item| item["status"] == "in_progress")
        .unwrap();
    assert_ne!(open["detail"], "", "{open}");
    daemon.model.open();
    events.until("turn.completed").await;
}

/// Opens an event stream and does not read it.
async fn unread(daemon: &TestDaemon, thread: &str) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.client.address).await.unwrap();
    let request = format!(
        "GET {thread}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // The response has started.
    let mut byte = [0];
    soon(stream.read_exact(&mut byte)).await.unwrap();
    stream
}

#[tokio::test]
async fn stalled_reader_pauses_and_the_others_get_everything() {
    let (tap, data) = (Arc::new(Tap::default()), tempfile::tempdir().unwrap());
    let setup = Setup {
        tap: Some(Arc::clone(&tap)),
        data: Some(data.path().join("data")),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    let thread = daemon.thread(json!({})).await;
    for number in 0..INPUTS {
        say_long(&daemon, &thread, number, INPUT_BYTES).await;
    }
    tap.events_read();
    let stalled = unread(&daemon, &thread).await;
    let read = tap.events_read();
    let mut reader = daemon.events(&thread, 0).await;
    let mut frames: Vec<Frame> = Vec::new();
    for _ in 0..INPUTS {
        frames.extend(reader.until("turn.completed").await);
    }
    assert_sound(&frames, 0);
    // The stalled reader has consumed the buffers of its connection and one more page.
    let shown = frames.len();
    assert!(
        read < shown / 2,
        "{read} records were read, {shown} events are shown"
    );
    drop(stalled);
}

#[tokio::test]
async fn large_responses_per_token_are_limited_with_retry_after() {
    let home = MultiTokenDaemon::with(|settings| settings.limits.large_answers_of_token = 1).await;
    let client = home.client(&home.token("client").1);
    let thread = client.post("/v1/threads", json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", text(&thread["id"]));
    for number in 0..INPUTS {
        say_long(&home.daemon, &thread, number, INPUT_BYTES).await;
    }
    let mut stalled = TcpStream::connect(home.daemon.client.address)
        .await
        .unwrap();
    let secret = client.token.as_deref().unwrap();
    let request = format!(
        "GET {thread} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n\r\n"
    );
    stalled.write_all(request.as_bytes()).await.unwrap();
    let mut byte = [0];
    soon(stalled.read_exact(&mut byte)).await.unwrap();
    let refused = client.get(&thread).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit_reached")
    );
    // Another token is not affected, and a short response needs no permit.
    home.daemon.client.get(&thread).await.expect(200);
    client.get("/v1/threads/summary").await.expect(200);
    drop(stalled);
    soon(async {
        while client.get(&thread).await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
