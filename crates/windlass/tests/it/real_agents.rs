//! The real Claude Code on a thread of the daemon, against a fake model on loopback. `cargo xtask backends` installs it and says where it
//! is.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Daemon, Home, Model};

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

fn on_claude(daemon: &Daemon) -> String {
    daemon.thread(&json!({"backend": "claude-code"}))
}

fn status(daemon: &Daemon, thread: &str) -> Value {
    let detail = daemon.detail(thread);
    detail["turns"].as_array().unwrap().last().unwrap()["status"].clone()
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_answers_uses_a_tool_that_was_allowed_and_answers_again() {
    let program = claude();
    let model = model();
    let home = home(&model, &program);
    let daemon = home.start();
    let thread = on_claude(&daemon);
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "hello");
    let frames = events.until("turn.completed");
    assert!(frames.iter().any(|frame| frame.event == "item.delta"));
    assert_eq!(
        status(&daemon, &thread),
        "completed",
        "{}",
        daemon.detail(&thread)
    );

    daemon.turn(&thread, "use the tool");
    let asked = events.until("approval.required").pop().unwrap();
    let id = asked.data["payload"]["approval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let allow = json!({"decision": "allow"});
    daemon
        .client
        .post(&format!("/v1/approvals/{id}"), &allow)
        .expect(200);
    events.until("turn.completed");
    let detail = daemon.detail(&thread);
    assert_eq!(status(&daemon, &thread), "completed", "{detail}");
    assert!(
        detail["items"].to_string().contains("from-the-tool"),
        "{detail}"
    );
    daemon.turn(&thread, "and now");
    events.until("turn.completed");
    assert_eq!(status(&daemon, &thread), "completed");
    daemon.stop();
}

#[test]
#[ignore = "needs Claude Code; `cargo xtask backends` runs it"]
fn claude_code_takes_its_session_up_after_a_kill_of_the_daemon() {
    let program = claude();
    let model = model();
    let home = home(&model, &program);
    let daemon = home.start();
    let thread = on_claude(&daemon);
    let mut events = daemon.client.events(&thread, 0);
    daemon.turn(&thread, "use the tool");
    // In the middle of a turn: somebody is asked.
    events.until("approval.required");
    drop(events);
    daemon.kill();
    let daemon = home.start();
    let mut events = daemon.client.events(&thread, 0);
    // The question of the process that is gone goes with it, or is asked again by the new one.
    loop {
        let frame = events.next().unwrap();
        match frame.event.as_str() {
            "turn.completed" => break,
            "approval.required" => {
                let id = frame.data["payload"]["approval_id"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let allow = json!({"decision": "allow"});
                daemon.client.post(&format!("/v1/approvals/{id}"), &allow);
            }
            _ => {}
        }
    }
    assert_eq!(
        status(&daemon, &thread),
        "completed",
        "{}",
        daemon.detail(&thread)
    );
    daemon.turn(&thread, "hello again");
    events.until("turn.completed");
    assert_eq!(status(&daemon, &thread), "completed");
    daemon.stop();
}
