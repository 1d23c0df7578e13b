//! The two protocols of the stub.

use std::io::{self, Write};

use serde_json::{Value, json};

/// How a turn ends.
pub(crate) enum StubOutcome {
    Good,
    Failed(u16),
    /// Rate limited until this Unix time, if known.
    Limited(Option<i64>),
    Interrupted,
    None,
}

pub(crate) struct StubWire {
    is_acp: bool,
    session: String,
    resumes: bool,
    /// Cost of the session so far.
    pub(crate) cost: f64,
    messages: u32,
    /// The request that the turn answers.
    prompt: Value,
}

impl StubWire {
    pub(crate) fn new(arguments: &[String]) -> Self {
        let after = |option: &str| {
            let at = arguments.iter().position(|argument| argument == option);
            at.and_then(|at| arguments.get(at + 1)).cloned()
        };
        let resumed = after("--resume");
        let session = resumed.clone().or(after("--session-id"));
        Self {
            is_acp: arguments.iter().any(|argument| argument == "--acp"),
            session: session.unwrap_or_else(|| "stub-session".to_owned()),
            resumes: resumed.is_some(),
            cost: 0.0,
            messages: 0,
            prompt: Value::Null,
        }
    }

    fn write(&self, mut message: Value) -> io::Result<()> {
        if self.is_acp {
            message["jsonrpc"] = json!("2.0")
        } else {
            message["session_id"] = json!(self.session)
        }
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{message}")?;
        stdout.flush()
    }

    fn update(&self, update: Value) -> io::Result<()> {
        let params = json!({"sessionId": self.session, "update": update});
        self.write(json!({"method": "session/update", "params": params}))
    }

    /// Treats every session ID with the prefix `1111` as unknown.
    fn is_unknown(session: &str) -> bool {
        session.starts_with("1111")
    }

    /// Refuses a session before the first prompt; `Some` is the exit code.
    pub(crate) fn refuse(&self) -> io::Result<Option<u8>> {
        if self.is_acp || !self.resumes || !Self::is_unknown(&self.session) {
            return Ok(None);
        }
        self.write(json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true,
            "errors": [format!("No conversation found with session ID: {}", self.session)],
        }))?;
        Ok(Some(1))
    }

    /// Handles a line; `Some` is a prompt.
    pub(crate) fn read(&mut self, line: &str) -> io::Result<Option<String>> {
        let message: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        if !self.is_acp {
            let content = message.pointer("/message/content").and_then(Value::as_str);
            return Ok(content.map(str::to_owned));
        }
        let (id, params) = (&message["id"], &message["params"]);
        let reply = |result: Value| json!({"id": id, "result": result});
        match message["method"].as_str() {
            Some("initialize") => {
                let can = json!({"loadSession": true});
                self.write(reply(
                    json!({"protocolVersion": 1, "agentCapabilities": can}),
                ))?;
            }
            Some("session/new") => self.write(reply(json!({"sessionId": self.session})))?,
            Some("session/load") => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                if Self::is_unknown(session) {
                    let error = json!({"code": -32002, "message": "Resource not found"});
                    self.write(json!({"id": id, "error": error}))?;
                } else {
                    self.session = session.to_owned();
                    self.piece("said before")?;
                    self.write(reply(Value::Null))?;
                    self.piece("said before, replayed late")?;
                    if self.session.starts_with("2222") {
                        self.chatter();
                    }
                }
            }
            Some("session/prompt") => {
                self.prompt = id.clone();
                let text = params.pointer("/prompt/0/text").and_then(Value::as_str);
                return Ok(text.map(str::to_owned));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Writes output forever.
    fn chatter(&self) {
        let content = json!({"type": "text", "text": "and "});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        let params = json!({"sessionId": self.session, "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        std::thread::spawn(move || {
            while writeln!(io::stdout().lock(), "{line}").is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
    }

    pub(crate) fn begin_turn(&mut self) -> io::Result<()> {
        if self.is_acp {
            Ok(())
        } else {
            self.write(json!({"type": "system", "subtype": "init", "model": "stub"}))
        }
    }

    /// Sends a chunk that is not repeated in a complete message.
    pub(crate) fn piece(&self, text: &str) -> io::Result<()> {
        if self.is_acp {
            let content = json!({"type": "text", "text": text});
            return self
                .update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
        }
        let delta = json!({"type": "text_delta", "text": text});
        let event = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        let message = format!("msg-{}", self.messages);
        self.write(json!({"type": "stream_event", "event": event, "api_message_id": message}))
    }

    /// Sends a text in two chunks and, like Claude, once more as a complete message.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.messages += 1;
        let half = text.chars().count() / 2;
        let first: String = text.chars().take(half).collect();
        let second: String = text.chars().skip(half).collect();
        self.piece(&first)?;
        self.piece(&second)?;
        if self.is_acp {
            Ok(())
        } else {
            self.block("assistant", json!({"type": "text", "text": text}))
        }
    }

    pub(crate) fn think(&mut self, text: &str) -> io::Result<()> {
        if self.is_acp {
            let content = json!({"type": "text", "text": text});
            return self
                .update(json!({"sessionUpdate": "agent_thought_chunk", "content": content}));
        }
        self.messages += 1;
        self.block("assistant", json!({"type": "thinking", "thinking": text}))
    }

    fn block(&self, kind: &str, block: Value) -> io::Result<()> {
        let id = format!("msg-{}", self.messages);
        let message = json!({"id": id, "role": kind, "model": "stub", "content": [block]});
        self.write(json!({"type": kind, "message": message}))
    }

    pub(crate) fn tool(&mut self, id: &str) -> io::Result<()> {
        if self.is_acp {
            self.update(json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash"}))?;
            return self.update(json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "rawOutput": "done",
            }));
        }
        self.block(
            "assistant",
            json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}}),
        )?;
        self.block(
            "user",
            json!({"type": "tool_result", "tool_use_id": id, "content": "done"}),
        )
    }

    pub(crate) fn ask(&self) -> io::Result<()> {
        if self.is_acp {
            let option = |id: &str, kind: &str| json!({"optionId": id, "name": id, "kind": kind});
            let options = [option("yes", "allow_once"), option("no", "reject_once")];
            let call = json!({"toolCallId": "asked", "title": "rm x", "kind": "execute"});
            let params = json!({"sessionId": self.session, "options": options, "toolCall": call});
            return self
                .write(json!({"id": 7, "method": "session/request_permission", "params": params}));
        }
        let request = json!({
            "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "rm x"}, "tool_use_id": "asked",
        });
        self.write(json!({"type": "control_request", "request_id": "7", "request": request}))
    }

    /// Returns the answer to a question.
    pub(crate) fn answered(&self, line: &str) -> String {
        let message: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        let answer = if self.is_acp {
            message["result"]["outcome"].clone()
        } else {
            message["response"]["response"].clone()
        };
        answer.to_string()
    }

    pub(crate) fn request_read(&self, id: u32, path: &str) -> io::Result<()> {
        let params = json!({"sessionId": self.session, "path": path});
        self.write(json!({"id": id, "method": "fs/read_text_file", "params": params}))
    }

    pub(crate) fn retry(&self, delay_ms: &str) -> io::Result<()> {
        let delay: u64 = delay_ms.parse().unwrap_or(0);
        if self.is_acp {
            writeln!(
                io::stderr(),
                "Attempt 1 failed with status 500. Retrying with backoff..."
            )
        } else {
            self.write(json!({
                "type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": delay,
                "error_status": 500, "error": "server_error",
            }))
        }
    }

    pub(crate) fn wait_for_interrupt(
        &self,
        lines: &mut impl Iterator<Item = io::Result<String>>,
    ) -> io::Result<()> {
        for line in lines {
            let line = line?;
            if line.contains("\"interrupt\"") || line.contains("session/cancel") {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn end_turn(&self, end: &StubOutcome) -> io::Result<()> {
        if self.is_acp {
            self.end_prompt(end)
        } else {
            self.end_result(end)
        }
    }

    fn end_prompt(&self, end: &StubOutcome) -> io::Result<()> {
        let failed = |code: i64, data: Value| {
            let error = json!({"code": code, "message": "failed", "data": data});
            json!({"id": self.prompt, "error": error})
        };
        let stopped = |reason: &str| {
            let usage = json!({"inputTokens": 3, "outputTokens": 2, "cachedReadTokens": 1});
            json!({"id": self.prompt, "result": {"stopReason": reason, "usage": usage}})
        };
        let reply = match end {
            StubOutcome::Good => stopped("end_turn"),
            StubOutcome::Interrupted => stopped("cancelled"),
            StubOutcome::Failed(status) => failed(i64::from(*status), Value::Null),
            StubOutcome::Limited(_) => failed(-32603, json!({"errorKind": "rate_limit"})),
            StubOutcome::None => return Ok(()),
        };
        self.write(reply)
    }

    fn end_result(&self, end: &StubOutcome) -> io::Result<()> {
        let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 1, "output_tokens": 2});
        let mut result = json!({
            "type": "result", "subtype": "success", "is_error": false, "usage": usage,
            "total_cost_usd": self.cost, "terminal_reason": "completed", "result": "",
        });
        let status = match end {
            StubOutcome::Good => None,
            StubOutcome::None => return Ok(()),
            StubOutcome::Interrupted => {
                result["subtype"] = json!("error_during_execution");
                result["terminal_reason"] = json!("aborted_streaming");
                result["is_error"] = json!(true);
                None
            }
            StubOutcome::Failed(status) => Some(*status),
            StubOutcome::Limited(reset_at) => {
                if let Some(reset_at) = reset_at {
                    let info = json!({"status": "rejected", "resetsAt": reset_at});
                    self.write(json!({"type": "rate_limit_event", "rate_limit_info": info}))?;
                }
                Some(429)
            }
        };
        if let Some(status) = status {
            result["is_error"] = json!(true);
            result["api_error_status"] = json!(status);
            let message =
                json!({"model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]});
            self.write(json!({"type": "assistant", "message": message, "is_api_error_message": true, "api_error_status": status}))?;
        }
        self.write(result)
    }
}
