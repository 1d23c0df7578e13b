//! The real Claude Code on a thread of the daemon, against a fake model on loopback. `cargo xtask backends` installs it and says where it
//! is.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, Model, Stream};

/// Names the program of Claude Code.
const VARIABLE: &str = "WINDLASS_CLAUDE";

/// Keep it from the network beyond the model, and from waiting long for it.
const QUIET: [(&str, &str); 5] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("IS_SANDBOX", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
];

fn claude() -> PathBuf {
    match std::env::var_os(VARIABLE) {
        Some(program) => program.into(),
        None => panic!(
            "{VARIABLE} is not set: `cargo xtask backends` installs Claude Code and says where it is"
        ),
    }
}

/// A model that calls the shell when it is asked to, and says something else otherwise. Side requests declare no tools.
fn model() -> Model {
    Model::answering(|request| {
        let has_tools = request["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty());
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        if has_tools && last.contains("use the tool") && !last.contains("tool_result") {
            let command =
                json!({"command": "echo from-the-tool > made; cat made", "description": "x"});
            return Answer::default().with_call("toolu_1", "Bash", &[&command.to_string()]);
        }
        Answer::text(&["Said by ", "a fake model."])
    })
}

fn home(model: &Model, program: &Path) -> Home {
    let mut home = Home::with_model(&model.url());
    let quiet = QUIET.map(|(name, value)| (name.to_owned(), value.to_owned()));
    home.variables.extend(quiet);
    let path = std::env::var("PATH").unwrap_or_default();
    home.variables.push(("PATH".to_owned(), path));
    let mut names: Vec<_> = QUIET.iter().map(|(name, _)| *name).collect();
    names.extend(["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]);
    home.configure(&format!(
        "[backends.claude-code]\ncommand = '{}'\nhome = 'own'\nvariables = {names:?}",
        program.display()
    ));
    home
}

/// A daemon with a thread on Claude Code, and what the thread tells.
fn on_claude(home: &Home) -> (Daemon, String, Stream) {
    let daemon = home.start();
    let thread = daemon.thread(&json!({"backend": "claude-code"}));
    let events = daemon.client.events(&thread, 0);
    (daemon, thread, events)
}

/// Waits until somebody is asked, and returns what to answer to; `None` when the turn ends before.
fn asked(events: &mut Stream) -> Option<String> {
    loop {
        let frame = events.next().unwrap();
        match frame.event.as_str() {
            "approval.required" => {
                let id = frame.data["payload"]["approval_id"].as_str().unwrap();
                return Some(format!("/v1/approvals/{id}"));
            }
            "turn.completed" => return None,
            _ => {}
        }
    }
}

#[track_caller]
fn assert_completed(daemon: &Daemon, thread: &str) {
    let detail = daemon.detail(thread);
    let newest = detail["turns"].as_array().unwrap().last().unwrap();
    assert_eq!(newest["status"], "completed", "{detail}");
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_answers_uses_a_tool_that_was_allowed_and_answers_again() {
    let model = model();
    let home = home(&model, &claude());
    let (daemon, thread, mut events) = on_claude(&home);
    daemon.turn(&thread, "hello");
    let frames = events.until("turn.completed");
    assert!(frames.iter().any(|frame| frame.event == "item.delta"));
    assert_completed(&daemon, &thread);

    daemon.turn(&thread, "use the tool");
    let Some(approval) = asked(&mut events) else {
        panic!("nobody was asked: {}", daemon.detail(&thread))
    };
    let allow = json!({"decision": "allow"});
    daemon.client.post(&approval, &allow).expect(200);
    events.until("turn.completed");
    assert_completed(&daemon, &thread);
    let items = daemon.detail(&thread)["items"].to_string();
    assert!(items.contains("from-the-tool"), "{items}");
    daemon.turn(&thread, "and now");
    events.until("turn.completed");
    assert_completed(&daemon, &thread);
    daemon.stop();
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_takes_its_session_up_after_a_kill_of_the_daemon() {
    let model = model();
    let home = home(&model, &claude());
    let (daemon, thread, mut events) = on_claude(&home);
    daemon.turn(&thread, "use the tool");
    // In the middle of a turn: somebody is asked.
    assert!(asked(&mut events).is_some(), "{}", daemon.detail(&thread));
    drop(events);
    daemon.kill();
    let daemon = home.start();
    let mut events = daemon.client.events(&thread, 0);
    // The question still stands, and may be asked again by the new process.
    let allow = json!({"decision": "allow"});
    while let Some(approval) = asked(&mut events) {
        daemon.client.post(&approval, &allow);
    }
    assert_completed(&daemon, &thread);
    daemon.turn(&thread, "hello again");
    events.until("turn.completed");
    assert_completed(&daemon, &thread);
    daemon.stop();
}
