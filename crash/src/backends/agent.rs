//! A fake agent to be killed: it speaks Claude Code's protocol, stores its sessions on disk, and responds slowly.
//!
//! A session is a file below its home with one line per prompt, written before any output. Like Claude Code, the agent refuses to resume a session
//! without a file, and to create one that has a file.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::random::Random;

/// The argument that makes the program act as the agent; it follows those of Claude Code.
pub const ARGUMENT: &str = "be-an-agent";
/// Directory of the sessions below the agent's home.
const SESSIONS: &str = "sessions";
/// Chunks per answer.
const PIECES: u64 = 6;
/// Maximum pause between two chunks.
const PAUSE_MS: u64 = 80;

/// Returns all prompts that an agent with this home ever received, session by session.
pub fn received(home: &Path) -> Result<Vec<String>, String> {
    let Ok(sessions) = fs::read_dir(home.join(SESSIONS)) else {
        return Ok(Vec::new());
    };
    let mut received = Vec::new();
    for session in sessions.flatten() {
        let lines = fs::read_to_string(session.path()).map_err(|error| error.to_string())?;
        for line in lines.lines() {
            let prompt: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            received.extend(prompt.as_str().map(str::to_owned));
        }
    }
    Ok(received)
}

/// Runs until its input ends.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument == "--version") {
        return print(&json!("1.0.0"));
    }
    let after = |option: &str| {
        let at = arguments.iter().position(|argument| argument == option)?;
        arguments.get(at + 1).cloned()
    };
    let home = std::env::var("HOME").map_err(|error| error.to_string())?;
    let sessions = PathBuf::from(home).join(SESSIONS);
    fs::create_dir_all(&sessions).map_err(|error| error.to_string())?;
    let (resumed, begun) = (after("--resume"), after("--session-id"));
    let id = resumed.clone().or(begun).ok_or("there is no session")?;
    let session = FakeSession {
        file: sessions.join(&id),
        id,
    };
    match (resumed.is_some(), session.file.exists()) {
        (true, false) => {
            let why = format!("No conversation found with session ID: {}", session.id);
            session.print(json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "errors": [why]}))?;
            return Err(why);
        }
        (false, true) => return Err(format!("Session ID {} is already in use.", session.id)),
        (true, true) | (false, false) => {}
    }
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(prompt) = message["message"]["content"].as_str() {
            session.turn(prompt)?;
        }
    }
    Ok(())
}

struct FakeSession {
    id: String,
    file: PathBuf,
}

impl FakeSession {
    /// Runs a turn: text, a call with a process that outlives it, and text again.
    fn turn(&self, prompt: &str) -> Result<(), String> {
        let number = self.store_prompt(prompt)?;
        // The seed is derived from the session, so that each turn has its own pace.
        let seed = self.id.bytes().fold(number, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        let mut random = Random::new(seed);
        let mut pause = || std::thread::sleep(Duration::from_millis(random.below(PAUSE_MS)));
        pause();
        self.print(json!({"type": "system", "subtype": "init", "model": "crash"}))?;
        for piece in 0..PIECES {
            pause();
            if piece == PIECES / 2 {
                self.call(number, &mut pause)?;
            }
            let delta = json!({"type": "text_delta", "text": format!("piece {piece} ")});
            let event = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            let message = format!("msg-{number}-{}", piece * 2 / PIECES);
            self.print(json!({"type": "stream_event", "event": event, "api_message_id": message}))?;
        }
        let usage = json!({"input_tokens": 3, "output_tokens": 2});
        self.print(json!({
            "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed", "result": "",
            "usage": usage, "total_cost_usd": 0.0,
        }))
    }

    /// Stores a prompt, and returns its number.
    fn store_prompt(&self, prompt: &str) -> Result<u64, String> {
        let received = fs::read_to_string(&self.file).unwrap_or_default();
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&self.file);
        let mut file = file.map_err(|error| error.to_string())?;
        let line = format!("{}\n", json!(prompt));
        let result = file.write_all(line.as_bytes());
        result.map_err(|error| error.to_string())?;
        Ok(received.lines().count() as u64)
    }

    /// Calls a tool, whose process runs in its own session until it is killed.
    fn call(&self, number: u64, pause: &mut impl FnMut()) -> Result<(), String> {
        let block = |kind: &str, block: Value| {
            let message = json!({"id": format!("call-{number}"), "role": kind, "model": "crash", "content": [block]});
            json!({"type": kind, "message": message})
        };
        let id = format!("toolu-{number}");
        let used =
            json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "sleep"}});
        self.print(block("assistant", used))?;
        let mut left = Command::new("setsid");
        left.args(["sleep", "3600"]);
        let left = left.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        left.map_err(|error| error.to_string())?;
        pause();
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "done"});
        self.print(block("user", result))
    }

    fn print(&self, mut message: Value) -> Result<(), String> {
        message["session_id"] = json!(self.id);
        print(&message)
    }
}

fn print(message: &Value) -> Result<(), String> {
    let mut out = io::stdout().lock();
    let printed = writeln!(out, "{message}").and_then(|()| out.flush());
    printed.map_err(|error| error.to_string())
}
