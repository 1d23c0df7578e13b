//! How much work may use, by the configuration.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, Model};

/// Says something in a new thread, and returns how its turn ended.
fn say(daemon: &Daemon) -> Value {
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    let end = events.until("turn.completed").pop().unwrap();
    end.data["payload"]["turn"].clone()
}

#[test]
fn the_allowance_of_a_day_holds_for_all_threads_and_after_a_kill() {
    let model = Model::answering(|_| Answer::text(&["hello"]));
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

#[test]
fn a_turn_obeys_the_configuration() {
    let calls = (0..9).map(|_| ("read", json!({"path": "none"}))).collect();
    let (model, told) = Model::calling(calls);
    let home = Home::with_model(&model.url());
    home.configure("[budget]\nturn_model_calls = 3\n");
    let daemon = home.start();
    let end = say(&daemon);
    assert_eq!(end["error_code"], "budget_exceeded");
    assert_eq!(told.results().len(), 2, "the third call reads two results");
}

#[test]
fn an_amount_that_is_none_keeps_the_daemon_from_starting() {
    let home = Home::new();
    let file = home.path().join("given.toml");
    std::fs::write(&file, "budget.day_usd = -1.0").unwrap();
    let mut command = home.command(&["serve", "--port", "0", "--config"]);
    let refused = command.arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && told.contains("day_usd"),
        "{told}"
    );
}
