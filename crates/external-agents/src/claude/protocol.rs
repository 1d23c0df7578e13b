//! The Claude Code protocol: one JSON object per line in both directions.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendExit, BackendNotice, ObservedCall,
    PermissionDecision, SessionChoice, SessionTotals,
};

use super::permission::{self, Permissions};
use super::result::{self, TurnEvidence};
use crate::json::{
    answer_text, broken, id, notice, object, raw, raw_unless_blank, status, text, thinking, warning,
};
use crate::protocol::{Protocol, Readiness, Step};
use crate::state::{SessionState, Streamed};

/// The model name in messages that the program itself generated.
const SYNTHETIC: &str = "<synthetic>";

/// The stream-json state machine of one process. A running turn cannot be steered: Claude Code reads input during a tool call together with the
/// call's result, but later input starts a separate turn, and the two cases cannot be distinguished.
pub struct Claude {
    state: SessionState,
    /// The ID of the message that is being streamed.
    streaming: Option<String>,
    /// Messages and block kinds that were streamed, so that the complete message is not reported again.
    streamed: Streamed<(String, BlockKind)>,
    evidence: TurnEvidence,
    permissions: Permissions,
    next_request: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BlockKind {
    Text,
    Thinking,
}

impl BlockKind {
    fn event(
        self,
        piece: Option<&str>,
        message: Option<String>,
        parent: Option<String>,
    ) -> Option<Step> {
        match self {
            Self::Text => answer_text(piece, message, parent),
            Self::Thinking => thinking(piece, parent),
        }
    }
}

impl Claude {
    /// Creates the protocol for a process that starts or resumes a session, with the session's usage totals so far.
    #[must_use]
    pub fn new(choice: SessionChoice, totals: SessionTotals) -> Self {
        Self {
            state: SessionState::new(choice, totals),
            streaming: None,
            streamed: Streamed::default(),
            evidence: TurnEvidence::default(),
            permissions: Permissions::default(),
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
        // The program repeats this message before every turn.
        if self.state.session.is_none() {
            let model = text(message, "model");
            steps.push(self.state.establish(session_id, model));
            let servers = message["mcp_servers"].as_array();
            let failed = servers
                .into_iter()
                .flatten()
                .filter(|server| text(server, "status") == Some("failed"));
            steps.extend(failed.map(|server| {
                let name = text(server, "name").unwrap_or("without a name");
                warning(format!("the agent's MCP server {name} failed to start"))
            }));
        }
        self.state.session = Some(session_id.to_owned());
        steps
    }

    fn retry(&mut self, message: &Value) -> Vec<Step> {
        let delay_ms = message["retry_delay_ms"].as_f64();
        let delay_ms = delay_ms.filter(|delay| (0.0..=1e12).contains(delay));
        let delay_ms = delay_ms.map(|delay| delay as u64);
        let retry = BackendNotice::Retry {
            attempt: message["attempt"].as_u64(),
            delay_ms,
            status: status(message, "error_status"),
            message: text(message, "error").unwrap_or("unknown").to_owned(),
        };
        let mut steps = vec![notice(retry)];
        steps.extend(delay_ms.map(|delay| Step::Silent(Duration::from_millis(delay))));
        steps
    }

    fn stream_event(&mut self, message: &Value) -> Vec<Step> {
        let event = &message["event"];
        match text(event, "type") {
            Some("message_start") => {
                let started = &event["message"];
                self.streaming = id(started, "id").map(str::to_owned);
                Vec::new()
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let (kind, piece) = match text(delta, "type") {
                    Some("text_delta") => (BlockKind::Text, text(delta, "text")),
                    Some("thinking_delta") => (BlockKind::Thinking, text(delta, "thinking")),
                    _ => return Vec::new(),
                };
                let message_id = id(message, "api_message_id").map(str::to_owned);
                let message_id = message_id.or_else(|| self.streaming.clone());
                self.streamed
                    .insert(message_id.clone().map(|id| (id, kind)));
                // The provider may allow an exhausted window to continue at extra cost.
                self.state.limits.clear();
                let step = kind.event(piece, message_id, parent(message));
                step.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, line: &Value) -> Vec<Step> {
        let message = &line["message"];
        if is_synthetic(line, message) {
            self.evidence.error = text(line, "error").map(str::to_owned);
            self.state.limits.status(status(line, "api_error_status"));
            // The event is sent only when something changes, so the second turn of a process has only this field.
            let info = line.pointer("/api_error_params/rate_limit_info");
            info.and_then(|info| self.state.limits.window_event(info));
            return Vec::new();
        }
        self.state.limits.clear();
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
            let is_reported = message_id
                .clone()
                .is_some_and(|id| self.streamed.contains(&(id, kind)));
            let whole = whole.filter(|_| !is_reported);
            steps.extend(kind.event(whole, message_id.clone(), parent(line)));
        }
        steps
    }

    fn tool_use(&mut self, block: &Value, parent: Option<String>) -> Option<Step> {
        let call_id = id(block, "id")?;
        self.state.calls.start(ObservedCall {
            id: call_id.to_owned(),
            name: text(block, "name").unwrap_or("unknown").to_owned(),
            arguments: block.get("input").cloned().unwrap_or(Value::Null),
            parent,
        })
    }

    fn user(&mut self, line: &Value) -> Vec<Step> {
        let message = &line["message"];
        let mut steps = Vec::new();
        for block in blocks(message) {
            if text(block, "type") != Some("tool_result") {
                continue;
            }
            let Some(call_id) = id(block, "tool_use_id") else {
                continue;
            };
            let output = block.get("content").cloned().unwrap_or(Value::Null);
            let is_error = block["is_error"].as_bool();
            steps.extend(
                self.state
                    .calls
                    .end(call_id, output, is_error.unwrap_or(false)),
            );
        }
        steps
    }

    fn rate_limit(&mut self, message: &Value) -> Vec<Step> {
        let info = &message["rate_limit_info"];
        let notice_event = self.state.limits.window_event(info);
        let current = self
            .state
            .limits
            .current()
            .filter(|_| matches!(notice_event, Some(BackendNotice::Limit { .. })));
        let until = current
            .and_then(|limit| limit.reset_at)
            .map(Step::SilentUntil);
        notice_event.map(notice).into_iter().chain(until).collect()
    }

    fn result(&mut self, message: &Value, line: &[u8]) -> Vec<Step> {
        if self.state.session.is_none() {
            // The program echoes the requested ID, which proves nothing.
            let kind = if self.state.choice.is_resume() {
                BackendErrorKind::ResumeRefused
            } else {
                BackendErrorKind::Protocol
            };
            return broken(kind, result::message(message));
        }
        if !self.state.is_in_turn {
            return vec![raw(Some("result"), line)];
        }
        self.state
            .limits
            .status(status(message, "api_error_status"));
        self.evidence.is_limited = self.state.limits.current().is_some();
        let end = result::evaluate(message, &self.evidence);
        let is_good = end == Ok(BackendEnd::Completed);
        if let Some(tokens) = result::tokens(message) {
            self.state.meter.turn_tokens(tokens);
        }
        if let Some(cost) = message["total_cost_usd"].as_f64() {
            self.state.meter.session_cost(cost, is_good);
        }
        self.state.is_in_turn = false;
        let withdrawn = self.permissions.withdraw_all().map(|(_, step)| step);
        let mut steps: Vec<_> = withdrawn.chain(self.state.usage_event()).collect();
        steps.push(Step::Ended(end));
        steps
    }
}

/// Returns whether the program itself generated this answer to report that there is none.
fn is_synthetic(line: &Value, message: &Value) -> bool {
    line["is_api_error_message"].as_bool() == Some(true)
        || text(message, "model") == Some(SYNTHETIC)
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    let content = message["content"].as_array();
    content.into_iter().flatten()
}

fn parent(line: &Value) -> Option<String> {
    id(line, "parent_tool_use_id").map(str::to_owned)
}

impl Protocol for Claude {
    fn line(&mut self, line: &[u8]) -> Vec<Step> {
        let Some(message) = object(line) else {
            return raw_unless_blank(line);
        };
        match text(&message, "type") {
            Some("system") => self.system(&message, line),
            Some("result") => self.result(&message, line),
            // Between turns there is no reader to decide.
            Some("control_request") if !self.state.is_in_turn => permission::refuse(&message),
            Some("control_request") => self.permissions.ask(&message),
            Some("control_cancel_request") => {
                let request = text(&message, "request_id").unwrap_or_default();
                self.permissions.withdraw(request).into_iter().collect()
            }
            Some("control_response") => Vec::new(),
            Some("rate_limit_event") => self.rate_limit(&message),
            // Messages after the end of a turn belong to no turn.
            Some(kind @ ("stream_event" | "assistant" | "user")) if !self.state.is_in_turn => {
                vec![raw(Some(kind), line)]
            }
            Some("stream_event") => self.stream_event(&message),
            Some("assistant") => self.assistant(&message),
            Some("user") => self.user(&message),
            other => vec![raw(other, line)],
        }
    }

    /// Claude Code starts its session only with the first prompt.
    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.state.begin_turn();
        self.streaming = None;
        self.streamed.clear();
        self.evidence = TurnEvidence::default();
        let message = json!({"role": "user", "content": prompt});
        vec![Step::Send(
            json!({"type": "user", "message": message}).to_string(),
        )]
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.state.is_in_turn {
            return Vec::new();
        }
        self.evidence.is_interrupted = true;
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

    fn waits_for_user(&self) -> bool {
        self.permissions.any()
    }

    fn state(&self) -> &SessionState {
        &self.state
    }

    fn explain_exit(&self, exit: &BackendExit, stderr: &str) -> BackendError {
        self.state
            .explain_exit(exit, stderr, &["No conversation found"])
    }
}
