//! How the app-server of Codex speaks: JSON-RPC without its version.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendNotice,
    BackendSpec, BackendUsage, ObservedCall, PermissionDecision, SessionChoice, SessionTotals,
    Steered,
};

use super::CodexSettings;
use super::approval::Approvals;
use super::failure::{self, TokenNames};
use crate::calls::Calls;
use crate::ended::Known;
use crate::json::{id, notice, object, raw, raw_unless_blank, text, warning};
use crate::limits::{Limit, Limits, codex_status};
use crate::protocol::{Protocol, Readiness, SteerId, Step};
use crate::rpc::{Dialect, Message, Requests, RpcError};
use crate::usage::Meter;

const NO_SUCH_METHOD: i64 = -32601;
/// How many messages are remembered as told in pieces.
const MAX_STREAMED: usize = 16_384;
const TOKEN_NAMES: TokenNames = TokenNames {
    input: "inputTokens",
    cached: "cachedInputTokens",
    cache_write: "cacheWriteInputTokens",
    output: "outputTokens",
    reasoning: "reasoningOutputTokens",
};

/// What a request of ours is about.
enum About {
    Initialize,
    Thread,
    Turn,
    Steer(SteerId),
    Interrupt,
}

/// How the app-server of Codex speaks.
pub struct Codex {
    choice: SessionChoice,
    /// What a thread is started or resumed with.
    thread: Value,
    requests: Requests<About>,
    session: Option<String>,
    is_in_turn: bool,
    turn_id: Option<String>,
    /// An interrupt that came before the turn had an id.
    wants_interrupt: bool,
    streamed: HashSet<String>,
    calls: Calls,
    approvals: Approvals,
    limits: Limits,
    meter: Meter,
}

impl Codex {
    /// A process for a session.
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
            choice: spec.session.clone(),
            thread,
            requests: Requests::new(Dialect::Bare),
            session: None,
            is_in_turn: false,
            turn_id: None,
            wants_interrupt: false,
            streamed: HashSet::new(),
            calls: Calls::default(),
            approvals: Approvals::default(),
            limits: Limits::default(),
            meter: Meter::new(spec.totals),
        }
    }

    fn reply(&mut self, about: &About, result: Result<Value, RpcError>) -> Vec<Step> {
        match (about, result) {
            (About::Initialize, Ok(_)) => self.open_thread(),
            (About::Initialize, Err(error)) => {
                vec![Step::Broken(BackendError::new(
                    BackendErrorKind::Protocol,
                    error.message,
                ))]
            }
            (About::Thread, Ok(result)) => self.thread_opened(&result),
            (About::Thread, Err(error)) => vec![Step::Broken(self.thread_refused(&error))],
            (About::Turn, Ok(result)) => {
                let turn = result.get("turn").unwrap_or(&Value::Null);
                self.turn_started(id(turn, "id"))
            }
            (About::Turn, Err(error)) if self.is_in_turn => {
                let kind = failure::by_text(&error.message);
                self.end_turn(Err(BackendError::new(kind, error.message)))
            }
            (About::Steer(id), Ok(_)) => vec![Step::Steered(*id, Steered::Taken)],
            (About::Steer(id), Err(_)) => vec![Step::Steered(*id, Steered::NotTaken)],
            (About::Turn, Err(_)) | (About::Interrupt, _) => Vec::new(),
        }
    }

    fn open_thread(&mut self) -> Vec<Step> {
        let initialized = self.requests.notification("initialized", None);
        let mut params = self.thread.clone();
        let method = match &self.choice {
            SessionChoice::New { .. } => "thread/start",
            SessionChoice::Resume { id } => {
                params["threadId"] = json!(id);
                "thread/resume"
            }
        };
        let open = self.requests.request(method, params, About::Thread);
        vec![Step::Send(initialized), Step::Send(open)]
    }

    fn thread_opened(&mut self, result: &Value) -> Vec<Step> {
        let thread = result.get("thread").unwrap_or(&Value::Null);
        let Some(thread_id) = id(thread, "id") else {
            let message = "the thread has no id";
            return vec![Step::Broken(BackendError::new(
                BackendErrorKind::Protocol,
                message,
            ))];
        };
        if let SessionChoice::Resume { id } = &self.choice
            && id != thread_id
        {
            let message = format!("it opened {thread_id} in place of {id}");
            return vec![Step::Broken(BackendError::new(
                BackendErrorKind::ResumeRefused,
                message,
            ))];
        }
        self.session = Some(thread_id.to_owned());
        vec![Step::Event(BackendEvent::Started {
            session_id: thread_id.to_owned(),
            model: text(result, "model").map(str::to_owned),
        })]
    }

    fn thread_refused(&self, error: &RpcError) -> BackendError {
        let kind = match (self.choice.is_resume(), failure::by_text(&error.message)) {
            (true, BackendErrorKind::Failed) => BackendErrorKind::ResumeRefused,
            (false, BackendErrorKind::Failed) => BackendErrorKind::BadInvocation,
            (_, kind) => kind,
        };
        BackendError::new(kind, error.message.clone())
    }

    fn turn_started(&mut self, turn_id: Option<&str>) -> Vec<Step> {
        if !self.is_in_turn {
            return Vec::new();
        }
        if self.turn_id.is_none() {
            self.turn_id = turn_id.map(str::to_owned);
        }
        match std::mem::take(&mut self.wants_interrupt) {
            true => self.interrupt(),
            false => Vec::new(),
        }
    }

    fn end_turn(&mut self, result: Result<BackendEnd, BackendError>) -> Vec<Step> {
        self.is_in_turn = false;
        let mut steps = self.approvals.withdraw_all();
        steps.push(Step::Ended(result));
        steps
    }

    fn notification(&mut self, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        let thread = id(params, "threadId");
        if thread.is_some() && thread != self.session.as_deref() {
            return vec![raw(Some(method), line)];
        }
        match method {
            "account/rateLimits/updated" => {
                self.limits
                    .windows(params.get("rateLimits").unwrap_or(&Value::Null));
                Vec::new()
            }
            "thread/tokenUsage/updated" => self.token_usage(params),
            "warning" | "configWarning" | "deprecationNotice" => {
                let said = text(params, "message").or(text(params, "summary"));
                said.map(warning).into_iter().collect()
            }
            "thread/started"
            | "thread/status/changed"
            | "turn/started"
            | "remoteControl/status/changed"
            | "item/reasoning/summaryPartAdded" => Vec::new(),
            method if self.is_in_turn => self.of_turn(method, params, line),
            method => vec![raw(Some(method), line)],
        }
    }

    fn of_turn(&mut self, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        match method {
            "item/agentMessage/delta" => {
                let message = id(params, "itemId").map(str::to_owned);
                if let Some(message) = &message
                    && self.streamed.len() < MAX_STREAMED
                {
                    self.streamed.insert(message.clone());
                }
                said(text(params, "delta"), message)
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                if let Some(item) = id(params, "itemId")
                    && self.streamed.len() < MAX_STREAMED
                {
                    self.streamed.insert(item.to_owned());
                }
                thought(text(params, "delta"))
            }
            "item/commandExecution/outputDelta" => match id(params, "itemId") {
                Some(call) => self
                    .calls
                    .output(call, text(params, "delta").unwrap_or_default()),
                None => Vec::new(),
            },
            "item/started" => {
                let item = params.get("item").unwrap_or(&Value::Null);
                self.item_started(item).into_iter().collect()
            }
            "item/completed" => {
                let item = params.get("item").unwrap_or(&Value::Null);
                self.item_completed(item, line)
            }
            "error" => self.error(params),
            "turn/completed" => self.turn_completed(params.get("turn").unwrap_or(&Value::Null)),
            other => vec![raw(Some(other), line)],
        }
    }

    /// After a resume it tells the counts of the last turn before, also while the next one begins.
    fn token_usage(&mut self, params: &Value) -> Vec<Step> {
        let usage = params.get("tokenUsage").unwrap_or(&Value::Null);
        let Some(total) = usage.get("total").filter(|total| total.is_object()) else {
            return Vec::new();
        };
        let total = failure::tokens(total, &TOKEN_NAMES);
        let is_of_turn = self.turn_id.is_some() && id(params, "turnId") == self.turn_id.as_deref();
        if !self.is_in_turn || !is_of_turn {
            self.meter.tokens_before(total);
            return Vec::new();
        }
        self.meter.session_tokens(total);
        let turn = self.meter.turn().map(BackendEvent::Usage);
        turn.map(Step::Event).into_iter().collect()
    }

    fn item_started(&mut self, item: &Value) -> Option<Step> {
        let call_id = id(item, "id")?;
        let kind = tool_kind(item)?;
        self.calls.start(ObservedCall {
            id: call_id.to_owned(),
            name: kind.to_owned(),
            arguments: arguments(item),
            parent: None,
        })
    }

    fn item_completed(&mut self, item: &Value, line: &[u8]) -> Vec<Step> {
        let Some(item_id) = id(item, "id") else {
            return Vec::new();
        };
        let is_told = self.streamed.contains(item_id);
        match text(item, "type") {
            Some("userMessage") => Vec::new(),
            Some("agentMessage" | "reasoning") if is_told => Vec::new(),
            Some("agentMessage") => said(text(item, "text"), Some(item_id.to_owned())),
            Some("reasoning") => {
                let parts = item.get("summary").and_then(Value::as_array);
                let parts = parts.into_iter().flatten().filter_map(Value::as_str);
                parts.flat_map(|part| thought(Some(part))).collect()
            }
            _ if tool_kind(item).is_some() => {
                let mut steps: Vec<_> = self.item_started(item).into_iter().collect();
                let is_error = matches!(text(item, "status"), Some("failed" | "declined"));
                steps.extend(self.calls.end(item_id, output(item), is_error));
                steps
            }
            other => vec![raw(other, line)],
        }
    }

    fn error(&mut self, params: &Value) -> Vec<Step> {
        let error = params.get("error").unwrap_or(&Value::Null);
        let info = error.get("codexErrorInfo").unwrap_or(&Value::Null);
        let message = text(error, "message")
            .unwrap_or("it does not say why")
            .to_owned();
        if params.get("willRetry").and_then(Value::as_bool) == Some(true) {
            return vec![notice(BackendNotice::Retry {
                attempt: attempt(&message),
                delay_ms: None,
                status: codex_status(info),
                message,
            })];
        }
        self.limits.codex_error(info);
        match self.limits.met() {
            Some(Limit { reset_at }) => vec![notice(BackendNotice::Limit { reset_at })],
            None => vec![warning(message)],
        }
    }

    fn turn_completed(&mut self, turn: &Value) -> Vec<Step> {
        let ended = id(turn, "id");
        if self.turn_id.is_some() && ended.is_some() && ended != self.turn_id.as_deref() {
            return Vec::new();
        }
        let error = turn.get("error").unwrap_or(&Value::Null);
        let result = match text(turn, "status") {
            Some("completed") if error.is_null() => Ok(BackendEnd::Completed),
            Some("interrupted") => Ok(BackendEnd::Interrupted),
            Some("failed" | "completed") => {
                let failed = failure::read(error);
                if failed.kind == BackendErrorKind::RateLimit {
                    let info = error.get("codexErrorInfo").unwrap_or(&Value::Null);
                    self.limits.codex_error(info);
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

fn said(piece: Option<&str>, message: Option<String>) -> Vec<Step> {
    let piece = piece.filter(|piece| !piece.is_empty());
    let event = piece.map(|piece| BackendEvent::Text {
        text: piece.to_owned(),
        message,
        parent: None,
    });
    event.map(Step::Event).into_iter().collect()
}

fn thought(piece: Option<&str>) -> Vec<Step> {
    let piece = piece.filter(|piece| !piece.is_empty());
    let event = piece.map(|piece| BackendEvent::Thinking {
        text: piece.to_owned(),
        parent: None,
    });
    event.map(Step::Event).into_iter().collect()
}

/// Returns the kind of an item that is a call.
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

/// Returns what a call was made with: what its item has and its result has not.
fn arguments(item: &Value) -> Value {
    let fields = [
        "command",
        "cwd",
        "changes",
        "server",
        "tool",
        "arguments",
        "query",
        "path",
    ];
    let known = fields.into_iter().filter_map(|field| {
        let value = item.get(field).filter(|value| !value.is_null())?;
        Some((field.to_owned(), value.clone()))
    });
    Value::Object(known.collect())
}

fn output(item: &Value) -> Value {
    let fields = ["aggregatedOutput", "exitCode", "result", "error", "status"];
    let known = fields.into_iter().filter_map(|field| {
        let value = item.get(field).filter(|value| !value.is_null())?;
        Some((field.to_owned(), value.clone()))
    });
    Value::Object(known.collect())
}

/// Reads the number in texts such as `Reconnecting... 2/5`.
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
        vec![Step::Send(self.requests.request(
            "initialize",
            params,
            About::Initialize,
        ))]
    }

    fn line(&mut self, line: &[u8]) -> Vec<Step> {
        let Some(message) = object(line) else {
            return raw_unless_blank(line);
        };
        match Message::read(message) {
            Message::Request { id, method, params } => {
                // Nobody is there to decide between turns.
                if self.is_in_turn
                    && let Some(step) = self.approvals.ask(&id, &method, &params)
                {
                    return vec![step];
                }
                let refusal = self.requests.refusal(&id, NO_SUCH_METHOD, "not supported");
                vec![Step::Send(refusal), raw(Some(&method), line)]
            }
            Message::Notification { method, params } => self.notification(&method, &params, line),
            Message::Reply { id, result } => match self.requests.take(id) {
                Some(about) => self.reply(&about, result),
                None => vec![raw(None, line)],
            },
            Message::Other => vec![raw(None, line)],
        }
    }

    fn readiness(&self) -> Readiness {
        match self.session {
            Some(_) => Readiness::Ready,
            None => Readiness::NotYet,
        }
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.is_in_turn = true;
        self.turn_id = None;
        self.wants_interrupt = false;
        self.streamed.clear();
        self.calls.begin_turn();
        self.limits.begin_turn();
        self.meter.begin_turn();
        let input = json!([{"type": "text", "text": prompt}]);
        let params = json!({"threadId": self.session, "input": input});
        vec![Step::Send(self.requests.request(
            "turn/start",
            params,
            About::Turn,
        ))]
    }

    fn steer(&mut self, id: SteerId, text: &str) -> Option<Vec<Step>> {
        let turn = self.turn_id.as_ref().filter(|_| self.is_in_turn)?;
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": self.session, "expectedTurnId": turn, "input": input});
        Some(vec![Step::Send(self.requests.request(
            "turn/steer",
            params,
            About::Steer(id),
        ))])
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.is_in_turn {
            return Vec::new();
        }
        let Some(turn) = &self.turn_id else {
            self.wants_interrupt = true;
            return Vec::new();
        };
        let params = json!({"threadId": self.session, "turnId": turn});
        let interrupt = self
            .requests
            .request("turn/interrupt", params, About::Interrupt);
        vec![Step::Send(interrupt)]
    }

    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>> {
        let (id, answer) = self.approvals.answer(request, decision)?;
        Some(vec![Step::Send(self.requests.reply(&id, &answer))])
    }

    fn waits_for_person(&self) -> bool {
        self.approvals.any()
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
            refusals: &["no rollout found"],
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
