//! `windlass mcp serve`, as another agent uses it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, Sandbox, ScriptedModel, TOKEN, text};

/// A command that no other test uses.
const SLEEP: &str = "sleep 86399.5";

/// An agent with a running server process.
struct McpCaller {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl McpCaller {
    fn start(home: &Home, flags: &[&str]) -> Self {
        let mut command = home.command(&["mcp", "serve"]);
        command.arg("--workspace").arg(&home.workspace).args(flags);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            next: 0,
        }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message.to_string());
        id
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(&message.to_string());
    }

    #[track_caller]
    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Returns the response and the notifications before it.
    #[track_caller]
    fn call(&mut self, method: &str, params: &Value) -> (Vec<Value>, Value) {
        let id = self.ask(method, params);
        let mut notifications = Vec::new();
        loop {
            let message = self.read();
            if message["id"] == id {
                return (notifications, message);
            }
            assert_eq!(message["method"], "notifications/progress", "{message}");
            notifications.push(message["params"].clone());
        }
    }

    #[track_caller]
    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments });
        let (notifications, answer) = self.call("tools/call", &params);
        assert!(notifications.is_empty(), "unexpected {notifications:?}");
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// Returns the error code of a failed tool call.
    #[track_caller]
    fn refused(&mut self, name: &str, arguments: &Value) -> String {
        let result = self.tool(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        let code = text(&result["structuredContent"]["error"]["code"]);
        let message = text(&result["content"][0]["text"]);
        assert!(
            message.starts_with(&format!("error ({code}): ")),
            "{message}"
        );
        code
    }

    /// Closes standard input; returns the server's exit code and remaining output.
    fn leave(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

/// Writes a file or runs forever, depending on the prompt, and greets otherwise.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        if last.contains("write it") {
            let arguments = json!({ "path": "made", "content": "by the agent" });
            return Answer::default().with_call("toolu_1", "write", &[&arguments.to_string()]);
        }
        if last.contains("wait for ever") {
            let arguments = json!({ "command": format!("touch begun; {SLEEP}") });
            return Answer::default().with_call("toolu_2", "shell", &[&arguments.to_string()]);
        }
        let count = messages.len().to_string();
        Answer::text(&["Hello\u{1b}[2J after ", &count])
    })
}

#[test]
fn agent_runs_continues_and_is_shown() {
    let model = model();
    let home = Home::with_model(&model.url());
    let mut caller = McpCaller::start(&home, &[]);
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let (_, server) = caller.call("initialize", &params);
    assert_eq!(server["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(server["result"]["serverInfo"]["name"], "windlass");
    caller.notify("notifications/initialized", &json!({}));
    let (_, newer) = caller.call("initialize", &json!({ "protocolVersion": "2099-01-01" }));
    assert_eq!(newer["result"]["protocolVersion"], "2025-11-25");
    let (_, pong) = caller.call("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
    let (_, listed) = caller.call("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| text(&tool["name"])).collect();
    let expected = [
        "run_agent",
        "list_threads",
        "show_thread",
        "thread_events",
        "list_runs",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
    }

    let params = json!({
        "name": "run_agent",
        "arguments": { "prompt": "greet" },
        "_meta": { "progressToken": "p" },
    });
    let (notifications, ended) = caller.call("tools/call", &params);
    let first = &ended["result"];
    assert_eq!(first["isError"], false, "{first}");
    assert_eq!(first["content"][0]["text"], "Hello\\u{1b}[2J after 1");
    let data = &first["structuredContent"];
    assert_eq!(data["answer"], first["content"][0]["text"]);
    assert!(data["usage"]["input_tokens"].is_u64(), "{data}");
    let thread = text(&data["thread_id"]);
    assert!(text(&first["content"][1]["text"]).contains(&thread));
    let steps: Vec<_> = notifications
        .iter()
        .map(|notifications| notifications["progress"].clone())
        .collect();
    assert_eq!(json!(steps), json!([1, 2]), "{notifications:?}");
    assert_eq!(notifications[0]["message"], format!("thread {thread}"));
    assert!(text(&notifications[1]["message"]).starts_with("says Hello"));

    let again = json!({ "prompt": "again", "thread_id": thread });
    let second = caller.tool("run_agent", &again);
    assert_eq!(second["content"][0]["text"], "Hello\\u{1b}[2J after 3");
    assert_eq!(second["structuredContent"]["thread_id"], thread);

    let listed = caller.tool("list_threads", &json!({}));
    let threads = listed["structuredContent"]["threads"].as_array().unwrap();
    assert_eq!(
        (threads.len(), &threads[0]["thread_id"]),
        (1, &json!(thread))
    );
    let same: Value = serde_json::from_str(&text(&listed["content"][0]["text"])).unwrap();
    assert_eq!(same, listed["structuredContent"]);
    let shown = caller.tool("show_thread", &json!({ "thread_id": thread }));
    let shown = text(&shown["content"][0]["text"]);
    assert!(
        shown.contains("> greet") && shown.contains("> again"),
        "{shown}"
    );
    assert!(
        shown.contains("after 3") && !shown.contains('\u{1b}'),
        "{shown}"
    );

    let of = |since: u64| json!({ "thread_id": thread, "since": since });
    let events = caller.tool("thread_events", &of(0))["structuredContent"].clone();
    let all = events["events"].as_array().unwrap();
    assert!(all.iter().any(|event| event["event"] == "turn.completed"));
    let middle = all[3]["seq"].as_u64().unwrap();
    let rest = caller.tool("thread_events", &of(middle))["structuredContent"].clone();
    assert_eq!(rest["events"].as_array().unwrap()[..], all[4..]);
    let end = events["next_since"].as_u64().unwrap();
    let none = caller.tool("thread_events", &of(end));
    assert_eq!(none["structuredContent"]["events"], json!([]));

    let runs = caller.tool("list_runs", &json!({ "limit": 1 }));
    let runs = &runs["structuredContent"];
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(
        (&runs["runs"][0]["thread_id"], &runs["more"]),
        (&json!(thread), &json!(true))
    );
    assert_eq!(caller.leave(), (Some(0), String::new()));
}

#[test]
fn changing_calls_are_refused_unless_the_operator_allows_them() {
    let model = model();
    let home = Home::with_model(&model.url());
    let made = home.workspace.join("made");
    let prompt = json!({ "prompt": "write it" });
    let mut caller = McpCaller::start(&home, &[]);
    let result = caller.tool("run_agent", &prompt);
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(
        result["structuredContent"]["refused"],
        json!(["write made"])
    );
    let about = text(&result["content"][1]["text"]);
    assert!(
        about.contains("refused: write made (no user can be asked"),
        "{about}"
    );
    assert!(!made.exists());
    caller.leave();

    let mut caller = McpCaller::start(&home, &["--yes"]);
    let result = caller.tool("run_agent", &prompt);
    assert_eq!(
        result["structuredContent"]["refused"],
        json!([]),
        "{result}"
    );
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "by the agent");
    caller.leave();

    std::fs::remove_file(&made).unwrap();
    home.configure("approvals.rules = [{ tool = 'write', action = 'allow' }]");
    let mut caller = McpCaller::start(&home, &[]);
    let result = caller.tool("run_agent", &prompt);
    assert_eq!(
        result["structuredContent"]["refused"],
        json!([]),
        "{result}"
    );
    assert!(made.exists());
}

#[test]
fn thread_approvals_do_not_apply_to_the_next_caller() {
    let model = model();
    let mut home = Home::with_model(&model.url());
    let token = ("WINDLASS_RUNTIME_TOKEN".to_owned(), TOKEN.to_owned());
    home.variables.push(token);
    let daemon = home.start();
    let mut caller = McpCaller::start(&home, &[]);
    for allowed in [json!({ "auto_approve": true }), json!({ "mode": "yolo" })] {
        let path = daemon.thread(&allowed);
        let arguments =
            json!({ "prompt": "write it", "thread_id": path.replace("/v1/threads/", "") });
        let result = caller.tool("run_agent", &arguments);
        let data = &result["structuredContent"];
        assert_eq!(
            data["refused"],
            json!(["write made"]),
            "{allowed}: {result}"
        );
    }
    assert!(!home.workspace.join("made").exists());

    // The daemon is killed, and the server continues in-process.
    let path = daemon.thread(&json!({}));
    daemon.kill();
    let arguments = json!({ "prompt": "greet", "thread_id": path.replace("/v1/threads/", "") });
    let result = caller.tool("run_agent", &arguments);
    assert_eq!(
        result["structuredContent"]["status"], "completed",
        "{result}"
    );
}

/// Polls the events of a thread until its turn ends, and returns its final status.
fn end_of_turn(caller: &mut McpCaller, thread: &str) -> Value {
    loop {
        let params = json!({ "name": "thread_events", "arguments": { "thread_id": thread } });
        let (_, answer) = caller.call("tools/call", &params);
        let events = &answer["result"]["structuredContent"]["events"];
        let mut events = events.as_array().unwrap().iter();
        if let Some(end) = events.find(|event| event["event"] == "turn.completed") {
            return end["payload"]["turn"]["status"].clone();
        }
    }
}

#[test]
fn cancelled_call_stops_the_turn_and_the_thread_continues() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut caller = McpCaller::start(&home, &[]);
    let params = json!({
        "name": "run_agent",
        "arguments": { "prompt": "hello" },
        "_meta": { "progressToken": 7 },
    });
    let id = caller.ask("tools/call", &params);
    let progress = caller.read();
    assert_eq!(progress["params"]["progressToken"], 7, "{progress}");
    let thread = text(&progress["params"]["message"]).replace("thread ", "");
    // The model does not respond, so only the cancel can end the turn.
    let unanswered = model.next_request();
    let busy = json!({ "prompt": "me too", "thread_id": thread });
    let refused = caller.tool("run_agent", &busy)["structuredContent"].clone();
    assert_eq!(
        (&refused["error"]["code"], &refused["thread_id"]),
        (&json!("turn_active"), &json!(thread))
    );
    caller.notify("notifications/cancelled", &json!({ "requestId": 999 }));
    caller.notify("notifications/cancelled", &json!({ "requestId": id }));
    assert_eq!(end_of_turn(&mut caller, &thread), "interrupted");
    drop(unanswered);

    let next =
        json!({ "name": "run_agent", "arguments": { "prompt": "again", "thread_id": thread } });
    let next = caller.ask("tools/call", &next);
    model.answer(&Answer::text(&["here"]));
    let answer = caller.read();
    assert_eq!(
        answer["id"], next,
        "a canceled call has no answer: {answer}"
    );
    assert_eq!(answer["result"]["content"][0]["text"], "here", "{answer}");
    assert_eq!(caller.leave(), (Some(0), String::new()));
}

#[test]
fn turn_of_a_killed_server_resumes_with_the_next_call() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut caller = McpCaller::start(&home, &[]);
    let params = json!({
        "name": "run_agent",
        "arguments": { "prompt": "hello" },
        "_meta": { "progressToken": 7 },
    });
    caller.ask("tools/call", &params);
    let thread = text(&caller.read()["params"]["message"]).replace("thread ", "");
    let unanswered = model.next_request();
    caller.child.kill().unwrap();
    caller.child.wait().unwrap();
    drop(unanswered);

    let mut caller = McpCaller::start(&home, &[]);
    let arguments = json!({ "prompt": "again", "thread_id": thread });
    assert_eq!(caller.refused("run_agent", &arguments), "turn_active");
    model.answer(&Answer::text(&["here"]));
    assert_eq!(end_of_turn(&mut caller, &thread), "completed");
}

#[test]
fn failed_turn_reports_its_reason_and_thread() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut caller = McpCaller::start(&home, &[]);
    let params = json!({ "name": "run_agent", "arguments": { "prompt": "hello" } });
    let id = caller.ask("tools/call", &params);
    model.refuse(401, "the key is wrong");
    let answer = caller.read();
    assert_eq!(answer["id"], id);
    let (result, data) = (&answer["result"], &answer["result"]["structuredContent"]);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(
        (&data["error"]["code"], &data["status"]),
        (&json!("auth"), &json!("failed"))
    );
    let message = text(&result["content"][0]["text"]);
    assert!(message.contains(&text(&data["thread_id"])), "{message}");
}

/// Returns the processes that run the long command.
fn sleeping() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let found = processes.filter_map(|process| {
        let command = std::fs::read(process.ok()?.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.contains(SLEEP).then_some(command)
    });
    found.collect()
}

#[test]
fn end_of_input_stops_running_turns_and_processes() {
    if Sandbox::all("end_of_input_stops_running_turns_and_processes").is_empty() {
        return;
    }
    let model = model();
    let home = Home::with_model(&model.url());
    let mut caller = McpCaller::start(&home, &["--yes"]);
    let params = json!({
        "name": "run_agent",
        "arguments": { "prompt": "wait for ever" },
        "_meta": { "progressToken": 1 },
    });
    caller.ask("tools/call", &params);
    let thread = text(&caller.read()["params"]["message"]).replace("thread ", "");
    while !text(&caller.read()["params"]["message"]).starts_with("calls shell") {}
    let marker = home.workspace.join("begun");
    while !marker.exists() {
        std::thread::yield_now();
    }
    assert!(!sleeping().is_empty());
    // Requests from before the end of input are answered.
    let id = caller.ask("tools/call", &json!({ "name": "list_threads" }));
    let (code, rest) = caller.leave();
    assert_eq!(code, Some(0));
    let answers: Vec<Value> = rest
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|message: &Value| message.get("id").is_some())
        .collect();
    assert_eq!(
        (answers.len(), &answers[0]["id"]),
        (1, &json!(id)),
        "{rest}"
    );
    assert_eq!(sleeping(), Vec::<String>::new());

    let mut caller = McpCaller::start(&home, &[]);
    assert_eq!(end_of_turn(&mut caller, &thread), "interrupted");
}

#[test]
fn invalid_calls_get_an_error_code() {
    let home = Home::new();
    std::fs::create_dir(home.workspace.join("inner")).unwrap();
    std::os::unix::fs::symlink("/", home.workspace.join("way-out")).unwrap();
    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let created = home
        .command(&["run", "--json", "--cwd", "other", "hello"])
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
    let first = String::from_utf8(created.stdout).unwrap();
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    let elsewhere = text(&first["thread_id"]);

    let mut caller = McpCaller::start(&home, &[]);
    let none = format!("thr_{}", "0".repeat(32));
    for (tool, arguments, code) in [
        ("run_agent", json!({}), "invalid_field"),
        ("run_agent", json!([]), "invalid_field"),
        ("run_agent", json!({ "prompt": 7 }), "invalid_field"),
        ("run_agent", json!({ "prompt": " " }), "prompt_required"),
        (
            "run_agent",
            json!({ "prompt": "x", "mode": "yolo" }),
            "invalid_field",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "cwd": "nowhere" }),
            "cwd_not_found",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "cwd": ".." }),
            "cwd_outside_root",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "cwd": "way-out" }),
            "cwd_outside_root",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "cwd": other }),
            "cwd_outside_root",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "thread_id": none }),
            "thread_not_found",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "thread_id": elsewhere }),
            "cwd_outside_root",
        ),
        (
            "run_agent",
            json!({ "prompt": "x", "thread_id": none, "cwd": "inner" }),
            "invalid_field",
        ),
        ("show_thread", json!({}), "invalid_field"),
        (
            "show_thread",
            json!({ "thread_id": "../environments" }),
            "invalid_field",
        ),
        (
            "show_thread",
            json!({ "thread_id": none }),
            "thread_not_found",
        ),
        (
            "show_thread",
            json!({ "thread_id": elsewhere }),
            "cwd_outside_root",
        ),
        (
            "thread_events",
            json!({ "thread_id": elsewhere }),
            "cwd_outside_root",
        ),
        (
            "thread_events",
            json!({ "thread_id": none, "since": -1 }),
            "invalid_field",
        ),
        ("list_threads", json!({ "limit": 0 }), "invalid_field"),
        ("list_runs", json!({ "limit": 101 }), "invalid_field"),
    ] {
        assert_eq!(caller.refused(tool, &arguments), code, "{tool} {arguments}");
    }
    // No thread was started, and work in other directories is not shown.
    let threads = caller.tool("list_threads", &json!({}));
    assert_eq!(threads["structuredContent"]["threads"], json!([]));
    let runs = caller.tool("list_runs", &json!({}));
    assert_eq!(runs["structuredContent"]["runs"], json!([]));
    let within = json!({ "prompt": "hello", "cwd": "inner" });
    assert_eq!(caller.tool("run_agent", &within)["isError"], false);

    for (method, params, code) in [
        ("tools/call", json!({ "name": "no_such_tool" }), -32602),
        ("tools/call", json!({}), -32602),
        ("resources/list", json!({}), -32601),
    ] {
        let (_, answer) = caller.call(method, &params);
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    for (line, code) in [
        ("this is no JSON", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
    ] {
        caller.send(line);
        assert_eq!(caller.read()["error"]["code"], code, "{line}");
    }
    let (_, pong) = caller.call("ping", &json!({}));
    assert_eq!(pong["result"], json!({}));
}
