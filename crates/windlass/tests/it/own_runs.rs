//! Turns of the daemon itself as runs, while it runs and after it was killed with SIGKILL.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::runs::{RunSocket, lines};
use crate::support::{Home, ScriptedModel, TOKEN, text};

fn listed(home: &Home) -> Vec<Value> {
    let listed = lines(home, &["runs", "list", "--json"]);
    let rows = listed
        .iter()
        .map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

fn shown(home: &Home, run_id: &str) -> Vec<Value> {
    let shown = lines(home, &["runs", "show", run_id, "--json"]);
    let records = shown.iter().map(|line| serde_json::from_str(line).unwrap());
    records.collect()
}

fn kinds(records: &[Value]) -> Vec<String> {
    let kind = |record: &Value| match record["tool"].as_str() {
        Some(tool) => tool.to_owned(),
        None => text(&record["record"]),
    };
    records.iter().map(kind).collect()
}

#[test]
fn run_killed_during_an_answer_resumes_under_the_same_id() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    let turn = daemon.turn(&thread, "greet me");
    let run_id = turn.rsplit('/').next().unwrap().to_owned();
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "Hel");
    events.until("item.delta");
    let open = listed(&home);
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(
        (&open[0]["run_id"], &open[0]["status"], &open[0]["intent"]),
        (&json!(run_id), &json!("in_progress"), &json!("greet me"))
    );
    assert_eq!(kinds(&shown(&home, &run_id)), ["started"]);
    daemon.kill();
    drop(exchange);
    let left = listed(&home);
    assert_eq!(left, open, "who is gone cannot have ended it");

    let daemon = home.start();
    let tail = home
        .command(&["runs", "tail", &run_id, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut host = RunSocket::connect(&daemon, json!({"host_token": TOKEN}));
    let seen = host.call("runs.subscribe", json!({"run_id": run_id}));
    assert_eq!(seen["agent_id"], "windlass:main");
    model.answer(&Answer::text(&["Hello", " again"]));
    let tailed = String::from_utf8(tail.wait_with_output().unwrap().stdout).unwrap();
    let tailed: Vec<Value> = tailed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        kinds(&tailed),
        [
            "started",
            "turn.resumed",
            "model_turn",
            "model_turn",
            "ended"
        ]
    );
    assert_eq!(tailed[2]["assistant_text"], "Hel");
    assert_eq!(tailed[3]["assistant_text"], "Hello again");
    assert_eq!(tailed[4]["termination"]["status"], "success");
    let trace = host.call("runs.get_trace", json!({"run_id": run_id}));
    assert_eq!(trace["records"], json!(tailed), "both read the same");
    let row = &host.call("runs.list", json!({}))["runs"][0];
    assert_eq!(
        (&row["run_id"], &row["turn_count"], &row["outcome"]),
        (&json!(run_id), &json!(3), &json!("success"))
    );
    assert_eq!(daemon.stop().code(), Some(0));
    let left = listed(&home);
    assert_eq!((left.len(), &left[0]), (1, row), "also while nothing runs");
}

#[test]
fn run_of_an_ended_process_is_incomplete() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({"on_restart": "interrupt"}));
    let turn = daemon.turn(&thread, "greet me");
    let run_id = turn.rsplit('/').next().unwrap();
    let exchange = model.next_request();
    daemon.kill();
    drop(exchange);
    let daemon = home.start();
    let mut events = daemon.client.events(&thread, 0);
    events.until("turn.completed");
    let shown = shown(&home, run_id);
    let last = shown.last().unwrap();
    assert_eq!(last["termination"], json!({"kind": "incomplete"}));
    let row = &listed(&home)[0];
    assert_eq!(row["status"], "incomplete");
}

#[test]
fn list_line_summarizes_a_turn() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let daemon = home.start();
    let thread = daemon.thread(&json!({}));
    let mut events = daemon.client.events(&thread, 0);
    let turn = daemon.turn(&thread, "greet me");
    let run_id = turn.rsplit('/').next().unwrap();
    model.answer(&Answer::text(&["Hello"]));
    events.until("turn.completed");
    let mut socket = RunSocket::connect(&daemon, json!({"token": TOKEN}));
    let params = json!({"agent_id": "x", "intent": "work of x"});
    let outside = text(&socket.call("runs.start", params)["run_id"]);
    let listed = lines(&home, &["runs", "list"]);
    assert_eq!(listed.len(), 3);
    let short = |id: &str| id[id.len() - 8..].to_owned();
    assert!(listed[1].starts_with(&short(&outside)), "{listed:?}");
    assert!(
        listed[2].starts_with(&short(run_id))
            && listed[2].contains("success")
            && listed[2].ends_with("greet me"),
        "{listed:?}"
    );
    let of_ours = lines(&home, &["runs", "list", "--agent", "windlass:main"]);
    // Columns are as wide as their contents.
    let words = |line: &String| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let found: Vec<_> = of_ours.iter().map(words).collect();
    assert_eq!(found, [words(&listed[0]), words(&listed[2])]);
    let shown = lines(&home, &["runs", "show", run_id]);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[1].ends_with(": Hello"), "{shown:?}");
    assert!(shown[2].ends_with("ended: success"), "{shown:?}");
}
