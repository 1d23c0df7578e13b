//! A daemon that is killed with SIGKILL while an idempotent tool runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Client, Frame, Setup, TOKEN, assert_sound, text};

const DATA: &str = "WINDLASS_TEST_DATA";

/// The process to kill: this test binary, running only `daemon`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "it is the daemon of the tests beside it"]
#[expect(
    clippy::print_stdout,
    reason = "the test that started it reads the address"
)]
async fn daemon() {
    let Ok(data) = std::env::var(DATA) else {
        return;
    };
    let setup = Setup {
        data: Some(Path::new(&data).join("store")),
        ..Setup::default()
    };
    let daemon = setup.start().await;
    println!("listening on {}", daemon.client.address);
    std::future::pending::<()>().await;
}

struct ServerProcess {
    client: Client,
    child: Child,
}

impl ServerProcess {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "crash_recovery::daemon",
                "--ignored",
                "--nocapture",
            ])
            .env(DATA, data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()));
        Self {
            client: Client {
                address: address.unwrap().parse().unwrap(),
                token: Some(TOKEN.to_owned()),
                headers: Vec::new(),
            },
            child,
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says something, kills the daemon at the first event of a name, starts it again, and returns the events of the turn as
/// one client saw them.
async fn killed_at(prompt: &str, event: &str) -> Vec<Frame> {
    let data = tempfile::tempdir().unwrap();
    let mut first = ServerProcess::start(data.path());
    let thread = first
        .client
        .post("/v1/threads", json!({}))
        .await
        .expect(201);
    let thread = format!("/v1/threads/{}", text(&thread["id"]));
    let events = format!("{thread}/events?since_seq=0");
    let mut live = first.client.stream(&events).await;
    let body = json!({ "prompt": prompt });
    let turn = first.client.post(&format!("{thread}/turns"), body).await;
    turn.expect(201);
    live.until("turn.lifecycle").await;
    let mut seen = live.until(event).await;
    let cursor = seen.last().unwrap().id.unwrap();
    // The intent is recorded before the tool starts; the test needs a started tool.
    while !data.path().join("began").exists() {
        tokio::task::yield_now().await;
    }
    first.kill();

    let second = ServerProcess::start(data.path());
    let back = second.client.with("last-event-id", &cursor.to_string());
    seen = back.stream(&events).await.until("turn.completed").await;
    let whole = second
        .client
        .stream(&events)
        .await
        .until("turn.completed")
        .await;
    assert_sound(&whole, 0);
    let missed: Vec<&Frame> = whole
        .iter()
        .filter(|frame| frame.id > Some(cursor))
        .collect();
    assert_eq!(
        seen.iter().collect::<Vec<_>>(),
        missed,
        "no gap and no duplicate"
    );
    let end = &whole.last().unwrap().data["payload"]["turn"];
    assert_eq!(end["status"], "completed", "{end}");
    whole
}

fn tool_item(frames: &[Frame]) -> Value {
    let ends = ["item.completed", "item.failed"];
    let end = frames.iter().find(|frame| {
        let item = &frame.data["payload"]["item"];
        ends.contains(&frame.event.as_str()) && item["metadata"]["tool"].is_object()
    });
    end.unwrap().data["payload"]["item"].clone()
}

#[tokio::test]
async fn r50_killed_idempotent_tool_is_repeated() {
    let frames = killed_at("AGAIN please", "item.started").await;
    let item = tool_item(&frames);
    assert_eq!(
        (&item["status"], &item["detail"]),
        (&json!("completed"), &json!("ran again"))
    );
    let started = frames
        .iter()
        .filter(|frame| frame.data["item_id"] == item["id"]);
    assert_eq!(started.count(), 2, "one item with one end");
}

#[tokio::test]
async fn edited_queue_survives_a_kill_and_each_input_starts_once() {
    let data = tempfile::tempdir().unwrap();
    let mut first = ServerProcess::start(data.path());
    let thread = first.client.post("/v1/threads", json!({})).await;
    let thread = format!("/v1/threads/{}", text(&thread.expect(201)["id"]));
    let turns = format!("{thread}/turns");
    let mut queued = Vec::new();
    for prompt in ["SILENT please", "one", "two", "three"] {
        let body = json!({"prompt": prompt, "on_busy": "queue"});
        let turn = first.client.post(&turns, body).await.expect(201)["turn"].clone();
        queued.push(format!("{thread}/queue/{}", text(&turn["id"])));
    }
    let edit = json!({"prompt": "changed", "position": 0});
    first.client.patch(&queued[2], edit).await.expect(200);
    let removed = first.client.raw("DELETE", &queued[1], None).await;
    assert_eq!(removed.status, 204);
    first.kill();

    let second = ServerProcess::start(data.path());
    let queue = second.client.get(&format!("{thread}/queue")).await;
    let queue = queue.expect(200)["queue"].clone();
    let prompts: Vec<_> = queue.as_array().unwrap().iter().collect();
    let prompts: Vec<_> = prompts.iter().map(|it| text(&it["prompt"])).collect();
    assert_eq!(prompts, ["changed", "three"]);
    let open = queued[0].replace("/queue/", "/turns/");
    let stop = second
        .client
        .post(&format!("{open}/interrupt"), json!({}))
        .await;
    stop.expect(200);
    let events = format!("{thread}/events?since_seq=0");
    let mut live = second.client.stream(&events).await;
    let mut frames = Vec::new();
    for _ in 0..3 {
        frames.extend(live.until("turn.completed").await);
    }
    assert_sound(&frames, 0);
    let ends = frames
        .iter()
        .filter(|frame| frame.event == "turn.completed")
        .map(|frame| text(&frame.data["payload"]["turn"]["input_summary"]));
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["SILENT please", "changed", "three"]
    );
}
