//! Configured budgets.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, ScriptedModel, text};

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a turn in a new thread and returns it.
fn say(daemon: &Daemon) -> Value {
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    let end = events.until("turn.completed").pop().unwrap();
    end.data["payload"]["turn"].clone()
}

#[test]
fn daily_limit_covers_all_threads_and_survives_a_kill() {
    let model = ScriptedModel::answering(|_| Answer::text(&["hello"]));
    let home = Home::with_model(&model.url());
    // One call fits, and leaves too little for another of its size.
    home.configure("[budget]\nday_tokens = 15\nreserve_tokens = 1\n");
    let daemon = home.start();
    let first = say(&daemon);
    assert_eq!(first["status"], "completed");
    let usage = &first["usage"];
    let used = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    let day = |tokens: u64| format!("[budget]\nday_tokens = {tokens}\nreserve_tokens = {used}\n");
    daemon.kill();

    home.configure(&day(used * 2 - 1));
    let daemon = home.start();
    let refused = say(&daemon);
    assert_eq!(refused["status"], "failed");
    assert_eq!(refused["error_code"], "budget_exceeded");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("day_tokens"), "{error}");
    assert!(daemon.stop().success());

    home.configure(&day(used * 2));
    let daemon = home.start();
    assert_eq!(say(&daemon)["status"], "completed");
    assert_eq!(say(&daemon)["error_code"], "budget_exceeded");
}

/// Waits until a task satisfies `is_wanted`.
fn task(daemon: &Daemon, id: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let task = daemon.client.get(&format!("/v1/tasks/{id}")).expect(200);
        if is_wanted(&task) {
            return task;
        }
        assert!(since.elapsed() < PATIENCE, "{task:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_completed(task: &Value) -> bool {
    task["status"] == "completed"
}

#[test]
fn exhausted_daily_limit_holds_tasks_until_it_is_raised() {
    let model = ScriptedModel::answering(|_| Answer::text(&["hello"]));
    let home = Home::with_model(&model.url());
    home.configure("[budget]\nday_tokens = 15\nreserve_tokens = 15\n");
    let daemon = home.start();
    assert_eq!(say(&daemon)["status"], "completed");
    let queued = daemon.client.post("/v1/tasks", &json!({"prompt": "hi"}));
    let id = text(&queued.expect(201)["id"]);
    let held = task(&daemon, &id, |task| task["held"].is_object());
    assert_eq!(held["status"], "queued", "{held:#}");
    assert_eq!(held["held"]["cause"], "budget");
    let retry_at = text(&held["held"]["retry_at"]);
    assert!(retry_at.contains("T00:00:00"), "{retry_at}");
    daemon.kill();

    home.configure("[budget]\nday_tokens = 1000\nreserve_tokens = 15\n");
    let daemon = home.start();
    let done = task(&daemon, &id, is_completed);
    assert_eq!(done["attempt_count"], 1, "{done:#}");
}

#[test]
fn task_stopped_by_the_daily_limit_resumes_without_using_an_attempt() {
    let model = ScriptedModel::answering(|request| {
        if request.to_string().contains("tool_result") {
            Answer::text(&["done"])
        } else {
            Answer::default().with_call("toolu_1", "read", &[r#"{"path": "none"}"#])
        }
    });
    let home = Home::with_model(&model.url());
    home.configure("[budget]\nday_tokens = 15\nreserve_tokens = 15\n");
    let daemon = home.start();
    let queued = daemon.client.post("/v1/tasks", &json!({"prompt": "hi"}));
    let id = text(&queued.expect(201)["id"]);
    let held = task(&daemon, &id, |task| task["held"].is_object());
    assert_eq!(held["status"], "queued", "{held:#}");
    assert_eq!(held["held"]["cause"], "budget");
    assert_eq!(held["attempt_count"], 1);
    daemon.kill();

    home.configure("[budget]\nday_tokens = 1000\nreserve_tokens = 15\n");
    let daemon = home.start();
    let done = task(&daemon, &id, is_completed);
    assert_eq!(
        (&done["attempt_count"], &done["max_attempts"]),
        (&json!(2), &json!(1))
    );
}

#[test]
fn turn_obeys_configured_budgets() {
    let calls = (0..9).map(|_| ("read", json!({"path": "none"}))).collect();
    let (model, requests) = ScriptedModel::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure("[budget]\nturn_model_calls = 3\n");
    let daemon = home.start();
    let end = say(&daemon);
    assert_eq!(end["error_code"], "budget_exceeded");
    assert_eq!(
        requests.results().len(),
        2,
        "the third call reads two results"
    );
}

#[test]
fn invalid_amount_stops_the_daemon_from_starting() {
    let home = Home::new();
    let file = home.path().join("given.toml");
    std::fs::write(&file, "budget.day_usd = -1.0").unwrap();
    let mut command = home.command(&["serve", "--port", "0", "--config"]);
    let refused = command.arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && stderr.contains("day_usd"),
        "{stderr}"
    );
}
