//! The fake model of the agents: one server for all their wire protocols, controlled by the test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_testkit::{After, Answer, FakeServer, Reply, Request, Wire};

/// The default answer of the model.
pub(super) const SAID: &str = "Said by a fake model.";
/// The command that the model runs: it creates a file, and prints a text that occurs in no argument.
pub(super) const COMMAND: &str = "printf by-command-%s 42 > made; cat made";
/// The output of that command.
pub(super) const PRINTED: &str = "by-command-42";

/// A command that runs until a file `go` exists.
const LONG_COMMAND: &str = "until [ -e go ]; do sleep 0.05; done";

/// The model's reaction to a request.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Answers with text.
    Say,
    /// Calls a command that creates a file and prints a text.
    Call,
    /// Calls a command that ends when a file `go` is created.
    CallLong,
    /// Starts an answer and never continues it.
    Hold,
    /// Fails with this HTTP status.
    Fail(u16),
    /// Fails with a rate limit that ends at this time, in seconds since 1970.
    LimitUntil(i64),
}

#[derive(Default)]
struct State {
    /// Reactions that are used once each, before `always`.
    next: VecDeque<Act>,
    always: Option<Act>,
    /// The bodies of all requests that an agent made for a turn.
    requests: Vec<Value>,
}

/// The model, with its own runtime, so that tests can block.
pub(super) struct AgentModel {
    state: Arc<Mutex<State>>,
    server: FakeServer,
    _runtime: Runtime,
}

impl AgentModel {
    pub(super) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let answering = FakeServer::answering(move |request| answer(request, &shared));
        let server = runtime.block_on(answering).unwrap();
        Self {
            state,
            server,
            _runtime: runtime,
        }
    }

    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Sets the reaction to the next request.
    pub(super) fn next(&self, act: Act) {
        self.state.lock().unwrap().next.push_back(act);
    }

    /// Sets the reaction to every request.
    pub(super) fn always(&self, act: Act) {
        self.state.lock().unwrap().always = Some(act);
    }

    /// Returns the maximum number of times that one request contains a text.
    pub(super) fn max_repetitions(&self, words: &str) -> usize {
        let state = self.state.lock().unwrap();
        let counts = state.requests.iter().map(|body| count_in(body, words));
        counts.max().unwrap_or(0)
    }

    /// Returns the number of requests.
    pub(super) fn request_count(&self) -> usize {
        self.state.lock().unwrap().requests.len()
    }

    /// Returns the newest request as text.
    pub(super) fn last_request(&self) -> String {
        let state = self.state.lock().unwrap();
        state
            .requests
            .last()
            .map(Value::to_string)
            .unwrap_or_default()
    }
}

/// Counts the strings of a request that contain a text.
fn count_in(value: &Value, words: &str) -> usize {
    match value {
        Value::String(text) => usize::from(text.contains(words)),
        Value::Array(all) => all.iter().map(|one| count_in(one, words)).sum(),
        Value::Object(fields) => fields.values().map(|one| count_in(one, words)).sum(),
        _ => 0,
    }
}

fn answer(request: &Request, state: &Mutex<State>) -> Reply {
    let path = request.path.split('?').next().unwrap_or_default();
    let wire = match path {
        path if path.ends_with("/messages") => Wire::Anthropic,
        path if path.ends_with("/responses") => Wire::OpenAi,
        path if path.ends_with(":streamGenerateContent") => Wire::Gemini,
        path => return beside(path),
    };
    let body = request.json();
    let Some(tool) = shell_of(&body) else {
        // An internal request of the agent, such as for a title: it offers no tools.
        return stream(wire, &Answer::text(&["ok"]));
    };
    let mut state = state.lock().unwrap();
    state.requests.push(body);
    let act = state.next.pop_front().or_else(|| state.always.clone());
    match act.unwrap_or(Act::Say) {
        Act::Say => {
            let (first, rest) = SAID.split_at(8);
            stream(wire, &Answer::text(&[first, rest]))
        }
        Act::Call => stream(wire, &tool.call(COMMAND, state.requests.len())),
        Act::CallLong => stream(wire, &tool.call(LONG_COMMAND, state.requests.len())),
        Act::Hold => {
            let mut reply = stream(wire, &Answer::text(&["The beginning", " of it."]));
            let end = reply
                .chunks
                .iter()
                .position(|it| it.contains("The beginning"));
            reply.chunks.truncate(end.map_or(0, |at| at + 1));
            reply.after = After::Silence;
            reply
        }
        Act::Fail(status) => failure(wire, status, Vec::new()),
        Act::LimitUntil(reset_at) => limit(wire, reset_at),
    }
}

/// A tool that runs commands, as an agent offers it.
struct ShellTool {
    name: &'static str,
    arguments: fn(&str) -> Value,
}

impl ShellTool {
    fn call(&self, command: &str, number: usize) -> Answer {
        let arguments = (self.arguments)(command).to_string();
        let id = format!("call_{number}");
        Answer::default().with_call(&id, self.name, &[&arguments])
    }
}

const SHELLS: [ShellTool; 5] = [
    ShellTool {
        name: "Bash",
        arguments: |command| json!({"command": command, "description": "makes a file"}),
    },
    ShellTool {
        name: "exec_command",
        arguments: |command| json!({"cmd": command}),
    },
    ShellTool {
        name: "shell_command",
        arguments: |command| json!({"command": command}),
    },
    // The daemon's own tool.
    ShellTool {
        name: "shell",
        arguments: |command| json!({"command": command}),
    },
    ShellTool {
        name: "run_shell_command",
        arguments: |command| json!({"command": command}),
    },
];

/// Finds the shell tool by its name among all offered tools.
fn shell_of(body: &Value) -> Option<&'static ShellTool> {
    let offered = body["tools"].to_string();
    let is_offered = |shell: &&ShellTool| offered.contains(&format!("\"name\":\"{}\"", shell.name));
    SHELLS.iter().find(is_offered)
}

fn stream(wire: Wire, answer: &Answer) -> Reply {
    Reply {
        status: 200,
        headers: vec![header("content-type", "text/event-stream")],
        chunks: wire.events(answer),
        after: After::End,
    }
}

fn failure(wire: Wire, status: u16, mut headers: Vec<(String, String)>) -> Reply {
    headers.push(header("content-type", "application/json"));
    Reply {
        status,
        headers,
        chunks: vec![wire.error(status, "said by a fake model").to_string()],
        after: After::End,
    }
}

/// Returns a rate limit response with its end, in the format of each provider.
fn limit(wire: Wire, reset_at: i64) -> Reply {
    let at = reset_at.to_string();
    let of_subscription = [
        ("anthropic-ratelimit-unified-status", "rejected"),
        ("anthropic-ratelimit-unified-reset", &at),
        (
            "anthropic-ratelimit-unified-representative-claim",
            "five_hour",
        ),
        ("anthropic-ratelimit-unified-5h-status", "rejected"),
        ("anthropic-ratelimit-unified-5h-reset", &at),
        ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
    ];
    let of_codex = [
        ("x-codex-primary-used-percent", "100"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-primary-reset-at", &at),
    ];
    let headers = of_subscription.iter().chain(&of_codex);
    let headers = headers.map(|(name, value)| header(name, value)).collect();
    let mut reply = failure(wire, 429, headers);
    if wire == Wire::OpenAi {
        let error = json!({"type": "usage_limit_reached", "message": "limit", "plan_type": "plus", "resets_at": reset_at});
        reply.chunks = vec![json!({ "error": error }).to_string()];
    }
    reply
}

/// Answers requests of agents that are not model calls.
fn beside(path: &str) -> Reply {
    let body = match path {
        path if path.ends_with("count_tokens") => json!({"input_tokens": 9}),
        path if path.ends_with(":countTokens") => json!({"totalTokens": 9}),
        path if path.ends_with("/models") => json!({"object": "list", "data": [], "models": []}),
        path if path.ends_with(":generateContent") => {
            let content = json!({"role": "model", "parts": [{"text": "{}"}]});
            json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]})
        }
        _ => json!({}),
    };
    Reply {
        status: 200,
        headers: vec![header("content-type", "application/json")],
        chunks: vec![body.to_string()],
        after: After::End,
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
