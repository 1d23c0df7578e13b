//! The other direction: a third-party client uses `windlass acp`.

use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel, Signal};

/// The environment variable with the path of the client.
const VARIABLE: &str = "WINDLASS_ACPX";

/// A model that runs a command or waits, depending on the prompt, and greets otherwise.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        let command = match () {
            () if last.contains("make it") => "echo made by the agent > made",
            () if last.contains("take long") => "echo > begun; sleep 600",
            () => return Answer::text(&["Hello from the model."]),
        };
        let arguments = json!({ "command": command }).to_string();
        Answer::default().with_call("toolu_1", "shell", &[&arguments])
    })
}

/// Returns a command that runs the client in a workspace, with `windlass acp` as its agent.
fn client(home: &Home, permission: &str, words: &[&str]) -> Command {
    let Some(program) = std::env::var_os(VARIABLE) else {
        panic!(
            "{VARIABLE} is not set: `cargo xtask backends` installs the client and says where it is"
        )
    };
    let mut command = Command::new(program);
    command
        .args(["--format", "json", permission, "--ttl", "1", "--cwd"])
        .arg(&home.workspace)
        .arg("--agent")
        .arg(format!("{} acp", env!("CARGO_BIN_EXE_windlass")))
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("WINDLASS_DATA", home.data())
        .envs(home.variables.iter().cloned())
        .stdin(Stdio::null());
    command
}

fn messages(out: &Output) -> Vec<Value> {
    let stdout = String::from_utf8_lossy(&out.stdout);
    stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Returns the stop reason of the prompt.
#[track_caller]
fn ended(out: &Output) -> String {
    let messages = messages(out);
    let ended = messages
        .iter()
        .find_map(|message| message["result"]["stopReason"].as_str());
    ended.unwrap_or_else(|| panic!("{out:?}")).to_owned()
}

fn has(out: &Output, method: &str) -> bool {
    messages(out)
        .iter()
        .any(|message| message["method"] == method)
}

#[test]
#[ignore = "needs acpx; `cargo xtask backends` runs it"]
fn acp_client_prompts_permits_refuses_cancels_and_loads() {
    let model = model();
    let home = Home::with_model(&model.url());
    let run = |permission: &str, words: &[&str]| client(&home, permission, words).output().unwrap();

    let refused = run("--deny-all", &["exec", "make it"]);
    assert_eq!(ended(&refused), "end_turn");
    assert!(!home.workspace.join("made").exists());
    let allowed = run("--approve-all", &["exec", "make it"]);
    assert_eq!(ended(&allowed), "end_turn");
    assert!(has(&allowed, "session/request_permission"));
    let made = std::fs::read_to_string(home.workspace.join("made"));
    assert_eq!(made.unwrap(), "made by the agent\n");

    let new = run("--approve-all", &["sessions", "new"]);
    assert!(new.status.success(), "{new:?}");
    let begun = Signal::new(&home.workspace, "begun");
    let long: Child = client(&home, "--approve-all", &["prompt", "take long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    begun.wait();
    let cancelled = run("--approve-all", &["cancel"]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    assert_eq!(ended(&long.wait_with_output().unwrap()), "cancelled");
    let after = run("--approve-all", &["prompt", "hello"]);
    assert_eq!(ended(&after), "end_turn");
    assert!(has(&after, "session/load"), "{after:?}");
}
