//! How Claude Code speaks: one object a line, in both directions.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendNotice,
    BackendUsage, ObservedCall, PermissionDecision, SessionChoice, SessionTotals,
};

use super::permission::{self, Permissions};
use super::result::{self, Seen};
use crate::calls::Calls;
use crate::ended::Known;
use crate::json::{id, notice, object, raw, raw_unless_blank, status, text, warning};
use crate::limits::{Limit, Limits};
use crate::protocol::{Protocol, Readiness, SteerId, Step};
use crate::usage::Meter;

/// How many messages are remembered as told in pieces.
const MAX_STREAMED: usize = 16_384;
/// The model of answers that the program wrote by itself.
const SYNTHETIC: &str = "<synthetic>";

/// How Claude Code speaks.
pub struct Claude {
    choice: SessionChoice,
    /// Set by the line that starts a session, and by no other.
    session: Option<String>,
    is_in_turn: bool,
    /// The message whose pieces come.
    streaming: Option<String>,
    /// Messages and kinds of blocks that were told in pieces, and are not told whole again.
    streamed: HashSet<(String, BlockKind)>,
    seen: Seen,
    calls: Calls,
    permissions: Permissions,
    limits: Limits,
    meter: Meter,
    next_request: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BlockKind {
    Text,
    Thinking,
}

impl Claude {
    /// A process that begins or takes up a session, of which so much was counted.
    #[must_use]
    pub fn new(choice: SessionChoice, totals: SessionTotals) -> Self {
        Self {
            choice,
            session: None,
            is_in_turn: false,
            streaming: None,
            streamed: HashSet::new(),
            seen: Seen::default(),
            calls: Calls::default(),
            permissions: Permissions::default(),
            limits: Limits::default(),
            meter: Meter::new(totals),
            next_request: 0,
        }
    }

    fn system(&mut self, message: &Value, line: &[u8]) -> Vec<Step> {
        match text(message, "subtype") {
            Some("init") => self.init(message),
            Some("api_retry") => self.retry(message),
            Some("permission_denied") => {
                let tool = text(message, "tool_name").unwrap_or("a tool");
                vec![warning(format!(
                    "the agent was not permitted to call {tool}"
                ))]
            }
            Some("status" | "thinking_tokens") => Vec::new(),
            other => vec![raw(other, line)],
        }
    }

    fn init(&mut self, message: &Value) -> Vec<Step> {
        let Some(session_id) = id(message, "session_id") else {
            return vec![warning("the agent started a session without an id")];
        };
        let mut steps = Vec::new();
        // It comes again before every turn.
        if self.session.is_none() {
            steps.push(Step::Event(BackendEvent::Started {
                session_id: session_id.to_owned(),
                model: text(message, "model").map(str::to_owned),
            }));
            let servers = message.get("mcp_servers").and_then(Value::as_array);
            let failed = servers
                .into_iter()
                .flatten()
                .filter(|server| text(server, "status") == Some("failed"));
            steps.extend(failed.map(|server| {
                let name = text(server, "name").unwrap_or("without a name");
                warning(format!("the agent's MCP server {name} failed to start"))
            }));
        }
        self.session = Some(session_id.to_owned());
        steps
    }

    fn retry(&mut self, message: &Value) -> Vec<Step> {
        let delay_ms = message.get("retry_delay_ms").and_then(Value::as_f64);
        let delay_ms = delay_ms.filter(|delay| (0.0..=1e12).contains(delay));
        let delay_ms = delay_ms.map(|delay| delay as u64);
        let retry = BackendNotice::Retry {
            attempt: message.get("attempt").and_then(Value::as_u64),
            delay_ms,
            status: status(message, "error_status"),
            message: text(message, "error").unwrap_or("unknown").to_owned(),
        };
        let mut steps = vec![notice(retry)];
        steps.extend(delay_ms.map(|delay| Step::Silent(Duration::from_millis(delay))));
        steps
    }

    fn stream_event(&mut self, message: &Value) -> Vec<Step> {
        let event = message.get("event").unwrap_or(&Value::Null);
        match text(event, "type") {
            Some("message_start") => {
                let started = event.get("message").unwrap_or(&Value::Null);
                self.streaming = id(started, "id").map(str::to_owned);
                Vec::new()
            }
            Some("content_block_delta") => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let (kind, piece) = match text(delta, "type") {
                    Some("text_delta") => (BlockKind::Text, text(delta, "text")),
                    Some("thinking_delta") => (BlockKind::Thinking, text(delta, "thinking")),
                    _ => return Vec::new(),
                };
                let message_id = id(message, "api_message_id").map(str::to_owned);
                let message_id = message_id.or_else(|| self.streaming.clone());
                if let Some(message_id) = &message_id
                    && self.streamed.len() < MAX_STREAMED
                {
                    self.streamed.insert((message_id.clone(), kind));
                }
                let piece = piece.filter(|piece| !piece.is_empty());
                // A window may be used up and the provider let it go on, for more money.
                self.limits.go_on();
                let step = piece.map(|piece| told(kind, piece, message_id, parent(message)));
                step.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, line: &Value) -> Vec<Step> {
        let message = line.get("message").unwrap_or(&Value::Null);
        if is_of_program(line, message) {
            self.seen.error = text(line, "error").map(str::to_owned);
            self.limits.status(status(line, "api_error_status"));
            // The event itself comes only when something changes, so the second turn of a process has but this.
            let info = line.pointer("/api_error_params/rate_limit_info");
            info.and_then(|info| self.limits.window_event(info));
            return Vec::new();
        }
        self.limits.go_on();
        let message_id = id(message, "id").map(str::to_owned);
        let mut steps = Vec::new();
        for block in blocks(message) {
            let (kind, whole) = match text(block, "type") {
                Some("text") => (BlockKind::Text, text(block, "text")),
                Some("thinking") => (BlockKind::Thinking, text(block, "thinking")),
                Some("tool_use") => {
                    steps.extend(self.tool_use(block, parent(line)));
                    continue;
                }
                _ => continue,
            };
            let is_told = message_id
                .clone()
                .is_some_and(|id| self.streamed.contains(&(id, kind)));
            let whole = whole.filter(|whole| !is_told && !whole.is_empty());
            steps.extend(whole.map(|whole| told(kind, whole, message_id.clone(), parent(line))));
        }
        steps
    }

    fn tool_use(&mut self, block: &Value, parent: Option<String>) -> Option<Step> {
        let call_id = id(block, "id")?;
        self.calls.start(ObservedCall {
            id: call_id.to_owned(),
            name: text(block, "name").unwrap_or("unknown").to_owned(),
            arguments: block.get("input").cloned().unwrap_or(Value::Null),
            parent,
        })
    }

    fn user(&mut self, line: &Value) -> Vec<Step> {
        let message = line.get("message").unwrap_or(&Value::Null);
        let mut steps = Vec::new();
        for block in blocks(message) {
            if text(block, "type") != Some("tool_result") {
                continue;
            }
            let Some(call_id) = id(block, "tool_use_id") else {
                continue;
            };
            let output = block.get("content").cloned().unwrap_or(Value::Null);
            let is_error = block.get("is_error").and_then(Value::as_bool);
            steps.extend(self.calls.end(call_id, output, is_error.unwrap_or(false)));
        }
        steps
    }

    fn rate_limit(&mut self, message: &Value) -> Vec<Step> {
        let info = message.get("rate_limit_info").unwrap_or(&Value::Null);
        let told = self.limits.window_event(info);
        let met = self
            .limits
            .met()
            .filter(|_| matches!(told, Some(BackendNotice::Limit { .. })));
        let until = met.and_then(|limit| limit.reset_at).map(Step::SilentUntil);
        told.map(notice).into_iter().chain(until).collect()
    }

    fn result(&mut self, message: &Value, line: &[u8]) -> Vec<Step> {
        if self.session.is_none() {
            // It repeats the id that was asked for, which proves nothing.
            let kind = match self.choice.is_resume() {
                true => BackendErrorKind::ResumeRefused,
                false => BackendErrorKind::Protocol,
            };
            let error = BackendError::new(kind, result::message(message));
            return vec![Step::Broken(error)];
        }
        if !self.is_in_turn {
            return vec![raw(Some("result"), line)];
        }
        self.limits.status(status(message, "api_error_status"));
        self.seen.is_limited = self.limits.met().is_some();
        let judged = result::judge(message, &self.seen);
        let is_good = judged == Ok(BackendEnd::Completed);
        if let Some(tokens) = result::tokens(message) {
            self.meter.turn_tokens(tokens);
        }
        if let Some(cost) = message.get("total_cost_usd").and_then(Value::as_f64) {
            self.meter.session_cost(cost, is_good);
        }
        self.is_in_turn = false;
        let mut steps = self.permissions.withdraw_all();
        steps.extend(self.meter.turn().map(BackendEvent::Usage).map(Step::Event));
        steps.push(Step::Ended(judged));
        steps
    }
}

/// Tells whether the program itself wrote an answer, to say that there is none.
fn is_of_program(line: &Value, message: &Value) -> bool {
    line.get("is_api_error_message").and_then(Value::as_bool) == Some(true)
        || text(message, "model") == Some(SYNTHETIC)
}

fn told(kind: BlockKind, piece: &str, message: Option<String>, parent: Option<String>) -> Step {
    let text = piece.to_owned();
    Step::Event(match kind {
        BlockKind::Text => BackendEvent::Text {
            text,
            message,
            parent,
        },
        BlockKind::Thinking => BackendEvent::Thinking { text, parent },
    })
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    let content = message.get("content").and_then(Value::as_array);
    content.into_iter().flatten()
}

fn parent(line: &Value) -> Option<String> {
    id(line, "parent_tool_use_id").map(str::to_owned)
}

impl Protocol for Claude {
    fn begin(&mut self) -> Vec<Step> {
        Vec::new()
    }

    fn line(&mut self, line: &[u8]) -> Vec<Step> {
        let Some(message) = object(line) else {
            return raw_unless_blank(line);
        };
        match text(&message, "type") {
            Some("system") => self.system(&message, line),
            Some("result") => self.result(&message, line),
            // Nobody is there to decide between turns.
            Some("control_request") if !self.is_in_turn => permission::refuse(&message),
            Some("control_request") => self.permissions.ask(&message),
            Some("control_cancel_request") => {
                let request = text(&message, "request_id").unwrap_or_default();
                self.permissions.withdraw(request)
            }
            Some("control_response") => Vec::new(),
            Some("rate_limit_event") => self.rate_limit(&message),
            // What comes after the end of a turn belongs to none.
            Some(kind @ ("stream_event" | "assistant" | "user")) if !self.is_in_turn => {
                vec![raw(Some(kind), line)]
            }
            Some("stream_event") => self.stream_event(&message),
            Some("assistant") => self.assistant(&message),
            Some("user") => self.user(&message),
            other => vec![raw(other, line)],
        }
    }

    /// It starts its session only when it is asked something.
    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.is_in_turn = true;
        self.streaming = None;
        self.streamed.clear();
        self.seen = Seen::default();
        self.calls.begin_turn();
        self.limits.begin_turn();
        self.meter.begin_turn();
        let message = json!({"role": "user", "content": prompt});
        vec![Step::Send(
            json!({"type": "user", "message": message}).to_string(),
        )]
    }

    /// A line that comes while a tool runs is taken with its result; one that comes later begins a turn of its own. Nothing tells
    /// which, so it is better said after the end.
    fn steer(&mut self, _id: SteerId, _text: &str) -> Option<Vec<Step>> {
        None
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.is_in_turn {
            return Vec::new();
        }
        self.seen.is_interrupted = true;
        self.next_request += 1;
        let request = json!({
            "type": "control_request",
            "request_id": format!("windlass-{}", self.next_request),
            "request": {"subtype": "interrupt"},
        });
        vec![Step::Send(request.to_string())]
    }

    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>> {
        self.permissions.answer(request, decision)
    }

    fn waits_for_person(&self) -> bool {
        self.permissions.any()
    }

    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn why_ended(&self, exit: &BackendExit, stderr: &str) -> BackendError {
        let known = Known {
            exit,
            stderr,
            is_established: self.session.is_some(),
            is_resume: self.choice.is_resume(),
            limit: self.limits.met(),
            refusals: &["No conversation found"],
        };
        known.error()
    }

    fn limit(&self) -> Option<Limit> {
        self.limits.met()
    }

    fn usage(&self) -> Option<BackendUsage> {
        self.meter.turn()
    }

    fn totals(&self) -> SessionTotals {
        self.meter.totals()
    }
}
