//! The same client on a thread of the daemon's own loop and on threads of external agents receives the same kinds of events.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Cli;
use super::claude::CLAUDE;
use super::codex::CODEX;
use super::model::{Act, AgentModel};
use crate::runs::lines;
use crate::support::{Daemon, Home};

/// Sends a message, runs a command, and interrupts the third turn. Returns the kinds of the events.
fn converse(daemon: &Daemon, model: &AgentModel, thread: &Value) -> BTreeSet<String> {
    let thread = daemon.thread(thread);
    let mut events = daemon.client.events(&thread, 0);
    let mut kinds = BTreeSet::new();
    let mut until = |name: &str| {
        let frames = events.until(name);
        kinds.extend(frames.into_iter().map(|frame| frame.event));
    };
    daemon.turn(&thread, "hello");
    until("turn.completed");
    model.next(Act::Call);
    daemon.turn(&thread, "use the tool");
    until("turn.completed");
    model.next(Act::Hold);
    let turn = daemon.turn(&thread, "a long story");
    until("item.delta");
    let stopped = daemon.client.post(&format!("{turn}/interrupt"), &json!({}));
    assert!(stopped.status < 300, "{}", stopped.body);
    until("turn.completed");
    let detail = daemon.detail(&thread);
    let turns = detail["turns"].as_array().unwrap().iter();
    let ends: Vec<_> = turns.map(|turn| turn["status"].clone()).collect();
    assert_eq!(
        ends,
        ["completed", "completed", "interrupted"],
        "{detail:#}"
    );
    kinds
}

#[test]
#[ignore = "needs Claude Code and Codex; `cargo xtask backends` runs it"]
fn every_backend_produces_the_same_kinds_of_events() {
    let model = AgentModel::start();
    let mut home = Home::with_model(&model.url());
    let both = [&CLAUDE, &CODEX];
    both.iter().for_each(|cli| cli.move_into(&mut home, &model));
    home.configure(&both.map(Cli::entry).concat());
    let daemon = home.start();
    let own = converse(&daemon, &model, &json!({"auto_approve": true}));
    assert!(own.contains("item.delta"), "{own:?}");
    for cli in both {
        let on_agent = json!({"auto_approve": true, "backend": cli.backend});
        assert_eq!(converse(&daemon, &model, &on_agent), own, "{}", cli.backend);
    }

    let runs = lines(&home, &["runs", "list", "--json"]);
    let runs: Vec<Value> = runs
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for intent in ["hello", "use the tool", "a long story"] {
        let alike = runs.iter().filter(|run| run["intent"] == intent);
        assert_eq!(alike.count(), 3, "{runs:#?}");
    }
    daemon.stop();
}
