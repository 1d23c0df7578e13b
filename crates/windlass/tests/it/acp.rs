//! `windlass acp`, driven as an editor would.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, Sandbox, ScriptedModel};

/// An editor with a running agent process.
struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// The option that it selects for every permission request.
    option: &'static str,
}

impl Editor {
    fn start(home: &Home) -> Self {
        let mut command = home.command(&["acp"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut editor = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next: 0,
            option: "allow",
        };
        let (_, agent) = editor.call("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(agent["result"]["protocolVersion"], 1);
        editor
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Returns the response and the notifications before it. Permission requests get the editor's option.
    fn call(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.ask(method, params);
        self.answer_to(id)
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn answer_to(&mut self, id: u64) -> (Vec<Value>, Value) {
        let mut notifications = Vec::new();
        loop {
            let message = self.read();
            if message.get("method").is_none() && message["id"] == id {
                return (notifications, message);
            }
            if message["method"] == "session/request_permission" {
                let outcome = json!({ "outcome": "selected", "optionId": self.option });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } });
                self.send(&answer);
            }
            notifications.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    fn session(&mut self, home: &Home) -> String {
        let params = json!({ "cwd": home.workspace, "mcpServers": [] });
        let (_, made) = self.call("session/new", params);
        made["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        self.call("session/prompt", prompt(session, text))
    }

    /// Closes standard input and returns the agent's exit code.
    fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

fn updates(notifications: &[Value], kind: &str) -> Vec<Value> {
    let updates = notifications
        .iter()
        .map(|message| &message["params"]["update"]);
    let meant = updates.filter(|update| update["sessionUpdate"] == kind);
    meant.cloned().collect()
}

/// A model that writes a file or hangs, depending on the prompt, and greets otherwise.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        if last.contains("write it") {
            let arguments = json!({ "path": "made", "content": "by the agent" });
            return Answer::default().with_call("toolu_1", "write", &[&arguments.to_string()]);
        }
        if last.contains("wait for ever") {
            let arguments = json!({ "command": "sleep 600" });
            return Answer::default().with_call("toolu_2", "shell", &[&arguments.to_string()]);
        }
        Answer::text(&["Hello ", "from the model."])
    })
}

#[test]
fn editor_prompts_allows_rejects_and_loads_a_session() {
    let model = model();
    let home = Home::with_model(&model.url());
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    let (notifications, ended) = editor.prompt(&session, "hello");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let text: String = updates(&notifications, "agent_message_chunk")
        .iter()
        .map(|update| update["content"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Hello from the model.");

    editor.option = "reject";
    let (notifications, ended) = editor.prompt(&session, "write it");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    assert_eq!(
        updates(&notifications, "tool_call_update")[0]["status"],
        "failed"
    );
    assert!(!home.workspace.join("made").exists());

    editor.option = "allow";
    let (notifications, _) = editor.prompt(&session, "write it");
    let begun = &updates(&notifications, "tool_call")[0];
    assert_eq!(
        (&begun["kind"], &begun["rawInput"]["path"]),
        (&json!("edit"), &json!("made"))
    );
    assert_eq!(
        updates(&notifications, "tool_call_update")[0]["status"],
        "completed"
    );
    let made = std::fs::read_to_string(home.workspace.join("made"));
    assert_eq!(made.unwrap(), "by the agent");
    assert_eq!(editor.leave(), Some(0));

    let mut editor = Editor::start(&home);
    let params = json!({ "sessionId": session, "cwd": home.workspace, "mcpServers": [] });
    let (notifications, loaded) = editor.call("session/load", params);
    assert!(loaded.get("error").is_none(), "{loaded}");
    assert_eq!(updates(&notifications, "user_message_chunk").len(), 3);
    assert_eq!(updates(&notifications, "tool_call_update").len(), 2);
    let (_, ended) = editor.prompt(&session, "hello again");
    assert_eq!(ended["result"]["stopReason"], "end_turn");
}

#[test]
fn cancel_ends_the_turn_and_the_session_continues() {
    if Sandbox::all("cancel_ends_the_turn_and_the_session_continues").is_empty() {
        return;
    }
    let model = model();
    let home = Home::with_model(&model.url());
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    let id = editor.ask("session/prompt", prompt(&session, "wait for ever"));
    loop {
        let message = editor.read();
        if message["method"] == "session/request_permission" {
            let outcome = json!({ "outcome": "selected", "optionId": "allow" });
            let answer =
                json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } });
            editor.send(&answer);
            break;
        }
    }
    editor.send(&cancel(&session));
    let (_, ended) = editor.answer_to(id);
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    let (_, ended) = editor.prompt(&session, "hello");
    assert_eq!(ended["result"]["stopReason"], "end_turn");
}

fn cancel(session: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })
}

#[test]
fn cancel_before_the_turn_starts_ends_it() {
    // The model does not respond, so only the cancel can end the turn.
    let model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    for _ in 0..3 {
        let id = editor.ask("session/prompt", prompt(&session, "hello"));
        editor.send(&cancel(&session));
        let (_, ended) = editor.answer_to(id);
        assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    }
}

#[test]
fn prompt_during_a_turn_is_refused_and_cancel_still_works() {
    // The model does not respond, so only the cancel can end the turn.
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    let first = editor.ask("session/prompt", prompt(&session, "hello"));
    let _open = model.next_request();
    let second = editor.ask("session/prompt", prompt(&session, "and another"));
    let (_, refused) = editor.answer_to(second);
    let notifications = refused["error"]["message"].as_str().unwrap();
    assert!(notifications.contains("cancel it"), "{refused}");
    editor.send(&cancel(&session));
    let (_, ended) = editor.answer_to(first);
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
}

#[test]
fn session_loaded_during_a_turn_receives_the_remaining_updates() {
    let model = model();
    let home = Home::with_model(&model.url());
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    editor.ask("session/prompt", prompt(&session, "write it"));
    while editor.read()["method"] != "session/request_permission" {}
    // The editor exits without answering the permission request.
    editor.leave();

    let mut editor = Editor::start(&home);
    let load =
        |cwd: &std::path::Path| json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    let (_, refused) = editor.call("session/load", load(home.path()));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let (_, loaded) = editor.call("session/load", load(&home.workspace));
    assert!(loaded.get("error").is_none(), "{loaded}");
    let mut notifications = Vec::new();
    while updates(&notifications, "agent_message_chunk").is_empty() {
        let message = editor.read();
        if message["method"] == "session/request_permission" {
            let outcome = json!({ "outcome": "selected", "optionId": "allow" });
            let result = json!({ "outcome": outcome });
            editor.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
        }
        notifications.push(message);
    }
    assert_eq!(
        updates(&notifications, "tool_call").len(),
        1,
        "{notifications:?}"
    );
    let made = std::fs::read_to_string(home.workspace.join("made"));
    assert_eq!(made.unwrap(), "by the agent");
}

#[test]
fn editor_uses_a_running_daemon_and_works_without_one() {
    let model = model();
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    editor.prompt(&session, "hello");
    // The daemon is killed, and the editor's agent continues in-process.
    daemon.kill();
    let (_, ended) = editor.prompt(&session, "hello");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
}

#[test]
fn invalid_editor_requests_get_an_error_code() {
    let home = Home::new();
    let mut editor = Editor::start(&home);
    let session = editor.session(&home);
    let image = json!([{ "type": "image", "data": "", "mimeType": "image/png" }]);
    for (method, params, code) in [
        ("session/nothing", json!({}), -32601),
        ("session/new", json!({ "cwd": "relative" }), -32602),
        ("session/new", json!({}), -32602),
        (
            "session/load",
            json!({ "sessionId": "thr_0", "cwd": "/" }),
            -32002,
        ),
        ("session/prompt", prompt("thr_0", "hello"), -32002),
        ("session/prompt", prompt(&session, "  "), -32602),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": image }),
            -32602,
        ),
        (
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "x" }),
            -32602,
        ),
    ] {
        let (_, refused) = editor.call(method, params.clone());
        assert_eq!(
            refused["error"]["code"], code,
            "{method} {params}: {refused}"
        );
    }
    writeln!(editor.stdin.as_mut().unwrap(), "this is no JSON").unwrap();
    assert_eq!(editor.read()["error"]["code"], -32700);
    let (_, planned) = editor.call(
        "session/set_mode",
        json!({ "sessionId": session, "modeId": "plan" }),
    );
    assert!(planned.get("error").is_none(), "{planned}");
}

#[test]
fn pending_requests_are_answered_at_end_of_input() {
    let home = Home::new();
    let mut command = home.command(&["acp"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let params = [
        ("initialize", json!({ "protocolVersion": 1 })),
        (
            "session/new",
            json!({ "cwd": home.path(), "mcpServers": [] }),
        ),
    ];
    for (id, (method, params)) in params.into_iter().enumerate() {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{request}").unwrap();
    }
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    let stdout = String::from_utf8(out.stdout).unwrap();
    let mut ids: Vec<_> = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message.get("result").is_some())
        .map(|message| message["id"].clone())
        .collect();
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [0, 1], "{stdout}");
}
