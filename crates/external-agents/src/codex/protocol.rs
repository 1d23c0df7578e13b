//! The Codex app-server protocol: JSON-RPC without the `jsonrpc` field.

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendExit, BackendNotice, BackendSpec,
    ObservedCall, PermissionDecision, SessionChoice, Steered,
};
use windlass_core::json_rpc::{ErrorObject, METHOD_NOT_FOUND, MessageWriter};

use super::CodexSettings;
use super::approval::CodexApprovals;
use super::failure;
use crate::json::{answer_text, broken, fields, id, notice, raw, text, thinking, warning};
use crate::limits::{RateLimit, codex_status};
use crate::protocol::{Protocol, Readiness, SteerId, Step};
use crate::rpc::{JsonRpcClient, Received};
use crate::state::{SessionState, Streamed};

/// Fields of a call item that contain its arguments.
const ARGUMENTS: &[&str] = &[
    "command",
    "cwd",
    "changes",
    "server",
    "tool",
    "arguments",
    "query",
    "path",
];
/// Fields of a call item that contain its result.
const OUTPUT: &[&str] = &["aggregatedOutput", "exitCode", "result", "error", "status"];

/// The purpose of a request that Windlass sent.
enum RequestPurpose {
    Initialize,
    Thread,
    Turn,
    Steer(SteerId),
    Interrupt,
}

/// The app-server state machine of one process.
pub struct Codex {
    state: SessionState,
    /// The parameters for starting or resuming a thread.
    thread: Value,
    rpc: JsonRpcClient<RequestPurpose>,
    turn_id: Option<String>,
    /// Whether an interrupt arrived before the turn had an ID.
    wants_interrupt: bool,
    streamed: Streamed<String>,
    approvals: CodexApprovals,
}

impl Codex {
    /// Creates the protocol for a new process and its session.
    #[must_use]
    pub fn new(spec: &BackendSpec, settings: CodexSettings) -> Self {
        let mut thread = json!({
            "cwd": spec.cwd,
            "approvalPolicy": settings.approval_policy,
            "sandbox": settings.sandbox,
        });
        if let Some(model) = &spec.model {
            thread["model"] = json!(model);
        }
        Self {
            state: SessionState::new(spec.session.clone(), spec.totals),
            thread,
            rpc: JsonRpcClient::new(MessageWriter::BARE),
            turn_id: None,
            wants_interrupt: false,
            streamed: Streamed::default(),
            approvals: CodexApprovals::default(),
        }
    }

    fn reply(&mut self, purpose: &RequestPurpose, result: Result<Value, ErrorObject>) -> Vec<Step> {
        match (purpose, result) {
            (RequestPurpose::Initialize, Ok(_)) => self.open_thread(),
            (RequestPurpose::Initialize, Err(error)) => {
                broken(BackendErrorKind::Protocol, error.message)
            }
            (RequestPurpose::Thread, Ok(result)) => self.thread_opened(&result),
            (RequestPurpose::Thread, Err(error)) => vec![Step::Broken(self.thread_refused(&error))],
            (RequestPurpose::Turn, Ok(result)) => self.turn_started(id(&result["turn"], "id")),
            (RequestPurpose::Turn, Err(error)) if self.state.is_in_turn => {
                let kind = failure::by_text(&error.message);
                self.end_turn(Err(BackendError::new(kind, error.message)))
            }
            (RequestPurpose::Steer(id), Ok(_)) => vec![Step::Steered(*id, Steered::Accepted)],
            (RequestPurpose::Steer(id), Err(_)) => vec![Step::Steered(*id, Steered::Rejected)],
            (RequestPurpose::Turn, Err(_)) | (RequestPurpose::Interrupt, _) => Vec::new(),
        }
    }

    fn open_thread(&mut self) -> Vec<Step> {
        let initialized = self.rpc.notification("initialized", None);
        let mut params = self.thread.clone();
        let method = match &self.state.choice {
            SessionChoice::New { .. } => "thread/start",
            SessionChoice::Resume { id } => {
                params["threadId"] = json!(id);
                "thread/resume"
            }
        };
        let open = self.rpc.request(method, &params, RequestPurpose::Thread);
        vec![initialized, open]
    }

    fn thread_opened(&mut self, result: &Value) -> Vec<Step> {
        let Some(thread_id) = id(&result["thread"], "id") else {
            return broken(BackendErrorKind::Protocol, "the thread has no id");
        };
        if let SessionChoice::Resume { id } = &self.state.choice
            && id != thread_id
        {
            let message = format!("the agent opened thread {thread_id} instead of {id}");
            return broken(BackendErrorKind::ResumeRefused, message);
        }
        vec![self.state.establish(thread_id, text(result, "model"))]
    }

    fn thread_refused(&self, error: &ErrorObject) -> BackendError {
        let kind = match (
            self.state.choice.is_resume(),
            failure::by_text(&error.message),
        ) {
            (true, BackendErrorKind::Failed) => BackendErrorKind::ResumeRefused,
            (false, BackendErrorKind::Failed) => BackendErrorKind::BadInvocation,
            (_, kind) => kind,
        };
        BackendError::new(kind, error.message.clone())
    }

    fn turn_started(&mut self, turn_id: Option<&str>) -> Vec<Step> {
        if !self.state.is_in_turn {
            return Vec::new();
        }
        if self.turn_id.is_none() {
            self.turn_id = turn_id.map(str::to_owned);
        }
        if std::mem::take(&mut self.wants_interrupt) {
            self.interrupt()
        } else {
            Vec::new()
        }
    }

    fn end_turn(&mut self, result: Result<BackendEnd, BackendError>) -> Vec<Step> {
        self.state.is_in_turn = false;
        let withdrawn = self.approvals.withdraw_all().map(|(_, step)| step);
        withdrawn.chain([Step::Ended(result)]).collect()
    }

    fn notification(&mut self, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        let thread = id(params, "threadId");
        if thread.is_some() && thread != self.state.session.as_deref() {
            return vec![raw(Some(method), line)];
        }
        match method {
            "account/rateLimits/updated" => {
                self.state.limits.windows(&params["rateLimits"]);
                Vec::new()
            }
            "thread/tokenUsage/updated" => self.token_usage(params),
            "warning" | "configWarning" | "deprecationNotice" => {
                let message = text(params, "message").or(text(params, "summary"));
                message.map(warning).into_iter().collect()
            }
            "thread/started"
            | "thread/status/changed"
            | "turn/started"
            | "remoteControl/status/changed"
            | "item/reasoning/summaryPartAdded" => Vec::new(),
            method if self.state.is_in_turn => self.turn_notification(method, params, line),
            method => vec![raw(Some(method), line)],
        }
    }

    fn turn_notification(&mut self, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        match method {
            "item/agentMessage/delta" => {
                let message = id(params, "itemId").map(str::to_owned);
                self.streamed.insert(message.clone());
                let piece = answer_text(text(params, "delta"), message, None);
                piece.into_iter().collect()
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.streamed
                    .insert(id(params, "itemId").map(str::to_owned));
                let piece = thinking(text(params, "delta"), None);
                piece.into_iter().collect()
            }
            "item/commandExecution/outputDelta" => match id(params, "itemId") {
                Some(call) => self
                    .state
                    .calls
                    .output(call, text(params, "delta").unwrap_or_default()),
                None => Vec::new(),
            },
            "item/started" => self.item_started(&params["item"]).into_iter().collect(),
            "item/completed" => self.item_completed(&params["item"], line),
            "error" => self.error(params),
            "turn/completed" => self.turn_completed(&params["turn"]),
            other => vec![raw(Some(other), line)],
        }
    }

    /// After a resume, Codex reports the counts of the previous turn, even while the next one starts.
    fn token_usage(&mut self, params: &Value) -> Vec<Step> {
        let usage = &params["tokenUsage"];
        let Some(total) = usage.get("total").filter(|total| total.is_object()) else {
            return Vec::new();
        };
        let total = failure::tokens(total);
        let is_of_turn = self.turn_id.is_some() && id(params, "turnId") == self.turn_id.as_deref();
        if !self.state.is_in_turn || !is_of_turn {
            self.state.meter.tokens_before(total);
            return Vec::new();
        }
        self.state.meter.session_tokens(total);
        self.state.usage_event().into_iter().collect()
    }

    fn item_started(&mut self, item: &Value) -> Option<Step> {
        let call_id = id(item, "id")?;
        let kind = tool_kind(item)?;
        self.state.calls.start(ObservedCall {
            id: call_id.to_owned(),
            name: kind.to_owned(),
            arguments: fields(item, ARGUMENTS),
            parent: None,
        })
    }

    fn item_completed(&mut self, item: &Value, line: &[u8]) -> Vec<Step> {
        let Some(item_id) = id(item, "id") else {
            return Vec::new();
        };
        let is_reported = self.streamed.contains(&item_id.to_owned());
        match text(item, "type") {
            Some("userMessage") => Vec::new(),
            Some("agentMessage" | "reasoning") if is_reported => Vec::new(),
            Some("agentMessage") => {
                let message = Some(item_id.to_owned());
                let whole = answer_text(text(item, "text"), message, None);
                whole.into_iter().collect()
            }
            Some("reasoning") => {
                let parts = item["summary"].as_array();
                let parts = parts.into_iter().flatten().filter_map(Value::as_str);
                parts
                    .filter_map(|part| thinking(Some(part), None))
                    .collect()
            }
            _ if tool_kind(item).is_some() => {
                let mut steps: Vec<_> = self.item_started(item).into_iter().collect();
                let is_error = matches!(text(item, "status"), Some("failed" | "declined"));
                steps.extend(
                    self.state
                        .calls
                        .end(item_id, fields(item, OUTPUT), is_error),
                );
                steps
            }
            other => vec![raw(other, line)],
        }
    }

    fn error(&mut self, params: &Value) -> Vec<Step> {
        let error = &params["error"];
        let info = &error["codexErrorInfo"];
        let message = text(error, "message")
            .unwrap_or("no reason given")
            .to_owned();
        if params["willRetry"].as_bool() == Some(true) {
            return vec![notice(BackendNotice::Retry {
                attempt: attempt(&message),
                delay_ms: None,
                status: codex_status(info),
                message,
            })];
        }
        self.state.limits.codex_error(info);
        match self.state.limits.current() {
            Some(RateLimit { reset_at }) => vec![notice(BackendNotice::Limit { reset_at })],
            None => vec![warning(message)],
        }
    }

    fn turn_completed(&mut self, turn: &Value) -> Vec<Step> {
        let ended = id(turn, "id");
        if self.turn_id.is_some() && ended.is_some() && ended != self.turn_id.as_deref() {
            return Vec::new();
        }
        let error = &turn["error"];
        let result = match text(turn, "status") {
            Some("completed") if error.is_null() => Ok(BackendEnd::Completed),
            Some("interrupted") => Ok(BackendEnd::Interrupted),
            Some("failed" | "completed") => {
                let failed = failure::read(error);
                if failed.kind == BackendErrorKind::RateLimit {
                    let info = &error["codexErrorInfo"];
                    self.state.limits.codex_error(info);
                }
                Err(failed)
            }
            other => {
                let message = format!("a turn ended as {}", other.unwrap_or("nothing"));
                Err(BackendError::new(BackendErrorKind::Protocol, message))
            }
        };
        self.end_turn(result)
    }
}

/// Returns the item's kind if the item is a call.
fn tool_kind(item: &Value) -> Option<&str> {
    let kind = text(item, "type")?;
    let kinds = [
        "commandExecution",
        "fileChange",
        "mcpToolCall",
        "dynamicToolCall",
        "collabAgentToolCall",
        "webSearch",
        "imageView",
    ];
    kinds.contains(&kind).then_some(kind)
}

/// Reads the attempt number from messages such as `Reconnecting... 2/5`.
fn attempt(message: &str) -> Option<u64> {
    let (before, _) = message.rsplit_once('/')?;
    let digits = before
        .rsplit(|character: char| !character.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

impl Protocol for Codex {
    fn begin(&mut self) -> Vec<Step> {
        let client =
            json!({"name": "windlass", "title": null, "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": client});
        vec![
            self.rpc
                .request("initialize", &params, RequestPurpose::Initialize),
        ]
    }

    fn line(&mut self, line: &[u8]) -> Vec<Step> {
        let received = match self.rpc.read(line) {
            Ok(received) => received,
            Err(steps) => return steps,
        };
        match received {
            Received::Request { id, method, params } => {
                // Requests between turns cannot be decided.
                if self.state.is_in_turn
                    && let Some(step) = self.approvals.ask(&id, &method, &params)
                {
                    return vec![step];
                }
                let refusal = self.rpc.refusal(&id, METHOD_NOT_FOUND, "not supported");
                vec![refusal, raw(Some(&method), line)]
            }
            Received::Notification { method, params } => self.notification(&method, &params, line),
            Received::Response { purpose, outcome } => self.reply(&purpose, outcome),
        }
    }

    fn readiness(&self) -> Readiness {
        match self.state.session {
            Some(_) => Readiness::Ready,
            None => Readiness::NotYet,
        }
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.state.begin_turn();
        self.turn_id = None;
        self.wants_interrupt = false;
        self.streamed.clear();
        let input = json!([{"type": "text", "text": prompt}]);
        let params = json!({"threadId": self.state.session, "input": input});
        vec![
            self.rpc
                .request("turn/start", &params, RequestPurpose::Turn),
        ]
    }

    fn steer(&mut self, id: SteerId, text: &str) -> Option<Vec<Step>> {
        let turn = self.turn_id.as_ref().filter(|_| self.state.is_in_turn)?;
        let input = json!([{"type": "text", "text": text}]);
        let params =
            json!({"threadId": self.state.session, "expectedTurnId": turn, "input": input});
        let steer = self
            .rpc
            .request("turn/steer", &params, RequestPurpose::Steer(id));
        Some(vec![steer])
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.state.is_in_turn {
            return Vec::new();
        }
        let Some(turn) = &self.turn_id else {
            self.wants_interrupt = true;
            return Vec::new();
        };
        let params = json!({"threadId": self.state.session, "turnId": turn});
        vec![
            self.rpc
                .request("turn/interrupt", &params, RequestPurpose::Interrupt),
        ]
    }

    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>> {
        let (id, answer) = self.approvals.answer(request, decision)?;
        Some(vec![self.rpc.reply(&id, &answer)])
    }

    fn waits_for_user(&self) -> bool {
        self.approvals.any()
    }

    fn state(&self) -> &SessionState {
        &self.state
    }

    fn explain_exit(&self, exit: &BackendExit, stderr: &str) -> BackendError {
        self.state.explain_exit(exit, stderr, &["no rollout found"])
    }
}
