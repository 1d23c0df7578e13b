//! The client side of the Agent Client Protocol.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendExit, BackendNotice, BackendSpec,
    HostAccessError, HostOffers, PermissionDecision, SessionChoice,
};
use windlass_core::json_rpc::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MessageWriter,
};

use super::failure::{self, AnswerTail};
use super::host::{self, HostRequestError};
use super::permission::{Permissions, cancelled};
use super::{AcpSettings, update};
use crate::json::{answer_text, broken, id, notice, raw, text, thinking};
use crate::protocol::{HostCall, Protocol, Readiness, Step};
use crate::rpc::{JsonRpcClient, Received};
use crate::state::SessionState;

const VERSION: u64 = 1;
const NOT_FOUND: i64 = -32002;
/// Required silence after an agent has loaded a session: some agents still replay history after they report completion.
const QUIET: Duration = Duration::from_millis(500);

/// The purpose of a request that Windlass sent.
enum RequestPurpose {
    Initialize,
    New,
    /// Loads a session; the agent replays its history.
    Load,
    Resume,
    Prompt,
}

/// The ACP state machine of one process. ACP has no way to steer a running turn.
pub struct Acp {
    state: SessionState,
    cwd: Value,
    offers: HostOffers,
    settings: AcpSettings,
    rpc: JsonRpcClient<RequestPurpose>,
    /// Whether the agent may still be replaying history.
    is_replaying: bool,
    is_interrupted: bool,
    tail: AnswerTail,
    /// The last cost reported for the session.
    cost: Option<f64>,
    permissions: Permissions,
}

impl Acp {
    /// Creates the protocol for a new process and its session.
    #[must_use]
    pub fn new(spec: &BackendSpec, settings: AcpSettings) -> Self {
        let offers = spec.host.as_ref().map(|host| host.offers());
        Self {
            state: SessionState::new(spec.session.clone(), spec.totals),
            cwd: json!(spec.cwd),
            offers: offers.unwrap_or_default(),
            settings,
            rpc: JsonRpcClient::new(MessageWriter::V2),
            is_replaying: false,
            is_interrupted: false,
            tail: AnswerTail::default(),
            cost: None,
            permissions: Permissions::default(),
        }
    }

    fn reply(&mut self, purpose: &RequestPurpose, result: Result<Value, ErrorObject>) -> Vec<Step> {
        match (purpose, result) {
            (RequestPurpose::Initialize, Ok(result)) => self.open_session(&result),
            (RequestPurpose::Initialize, Err(error)) => vec![Step::Broken(failure::read(&error))],
            (RequestPurpose::New, Ok(result)) => match id(&result, "sessionId") {
                Some(session) => vec![self.state.establish(session, None)],
                None => broken(BackendErrorKind::Protocol, "the session has no id"),
            },
            (RequestPurpose::Load | RequestPurpose::Resume, Ok(_)) => {
                self.is_replaying = matches!(purpose, RequestPurpose::Load);
                let session = self.state.choice.id().unwrap_or_default().to_owned();
                vec![self.state.establish(&session, None)]
            }
            (RequestPurpose::New, Err(error)) => vec![Step::Broken(failure::read(&error))],
            (RequestPurpose::Load | RequestPurpose::Resume, Err(error)) => {
                let mut failed = failure::read(&error);
                // Agents use one error code for every failure.
                if failed.kind == BackendErrorKind::Failed {
                    failed.kind = BackendErrorKind::ResumeRefused;
                }
                vec![Step::Broken(failed)]
            }
            (RequestPurpose::Prompt, result) if self.state.is_in_turn => self.prompt_ended(result),
            (RequestPurpose::Prompt, _) => Vec::new(),
        }
    }

    fn open_session(&mut self, result: &Value) -> Vec<Step> {
        let version = result["protocolVersion"].as_u64();
        if version != Some(VERSION) {
            let agent_version = version.map_or("none".to_owned(), |version| version.to_string());
            let message = format!(
                "the agent uses protocol version {agent_version}; Windlass needs {VERSION}"
            );
            return broken(BackendErrorKind::Protocol, message);
        }
        let capabilities = &result["agentCapabilities"];
        let can_load = capabilities["loadSession"].as_bool() == Some(true);
        let resume = capabilities.pointer("/sessionCapabilities/resume");
        let can_resume = resume.is_some_and(|resume| !resume.is_null());
        let mut params = json!({"cwd": self.cwd, "mcpServers": []});
        let (method, purpose) = match &self.state.choice {
            SessionChoice::New { .. } => ("session/new", RequestPurpose::New),
            SessionChoice::Resume { id } => {
                params["sessionId"] = json!(id);
                match (can_resume, can_load) {
                    (true, _) => ("session/resume", RequestPurpose::Resume),
                    (false, true) => ("session/load", RequestPurpose::Load),
                    (false, false) => {
                        let message = "the agent cannot resume sessions";
                        return broken(BackendErrorKind::ResumeRefused, message);
                    }
                }
            }
        };
        vec![self.rpc.request(method, &params, purpose)]
    }

    fn prompt_ended(&mut self, result: Result<Value, ErrorObject>) -> Vec<Step> {
        self.state.is_in_turn = false;
        let end = match &result {
            Ok(result) => self.evaluate(result),
            Err(error) => match failure::read(error) {
                failed if self.is_interrupted && failed.kind == BackendErrorKind::Failed => {
                    Ok(BackendEnd::Interrupted)
                }
                failed => Err(failed),
            },
        };
        if matches!(&end, Err(error) if error.kind == BackendErrorKind::RateLimit) {
            self.state.limits.record(None);
        }
        if let Some(tokens) = result.as_ref().ok().and_then(update::tokens) {
            self.state.meter.turn_tokens(tokens);
        }
        if let Some(cost) = self.cost.take() {
            self.state
                .meter
                .session_cost(cost, end == Ok(BackendEnd::Completed));
        }
        let mut steps = self.withdraw();
        steps.extend(self.state.usage_event());
        steps.push(Step::Ended(end));
        steps
    }

    fn evaluate(&self, result: &Value) -> Result<BackendEnd, BackendError> {
        match text(result, "stopReason") {
            Some("end_turn") => {
                let is_suspect =
                    result.get("usage") == Some(&Value::Null) && !self.state.calls.any();
                let disguised = self.tail.disguised().filter(|_| is_suspect);
                disguised.map_or(Ok(BackendEnd::Completed), Err)
            }
            Some("cancelled") => Ok(BackendEnd::Interrupted),
            Some("refusal") => Ok(BackendEnd::Refused),
            Some("max_tokens") => Ok(BackendEnd::LengthLimit),
            Some("max_turn_requests") => {
                let message = "the agent reached its limit of model calls";
                Err(BackendError::new(BackendErrorKind::TurnLimit, message))
            }
            other => {
                let message = format!("a prompt ended as {}", other.unwrap_or("nothing"));
                Err(BackendError::new(BackendErrorKind::Protocol, message))
            }
        }
    }

    /// Cancels all open requests.
    fn withdraw(&mut self) -> Vec<Step> {
        let withdrawn = self.permissions.withdraw_all();
        let steps = withdrawn.flat_map(|(open, event)| {
            let answer = self.rpc.reply(&open.id, &cancelled());
            [answer, event]
        });
        steps.collect()
    }

    /// Returns whether the agent is working on a turn.
    fn may_act(&self) -> bool {
        self.state.is_in_turn && !self.is_interrupted
    }

    fn request(&mut self, request: &Value, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        let is_ours = text(params, "sessionId") == self.state.session.as_deref();
        if method == "session/request_permission" {
            let asks = is_ours && self.may_act();
            let asked = asks
                .then(|| self.permissions.ask(request, params))
                .flatten();
            let answer = || self.rpc.reply(request, &cancelled());
            let step = asked.unwrap_or_else(answer);
            // Some agents describe the call only in this request.
            let call = &params["toolCall"];
            if let (Some(call_id), Some(title)) = (id(call, "toolCallId"), text(call, "title")) {
                self.state.calls.name(call_id, title);
            }
            return vec![step];
        }
        match host::read(method, params, self.offers) {
            // After its turn or an interrupt, the agent may only release resources.
            Ok(operation) if is_ours && operation.has_side_effects() && !self.may_act() => {
                vec![
                    self.rpc
                        .refusal(request, INTERNAL_ERROR, "the turn is over"),
                ]
            }
            Ok(operation) if is_ours => vec![Step::Host(HostCall {
                request: request.clone(),
                operation,
            })],
            Ok(_) | Err(HostRequestError::BadParams) => {
                vec![self.rpc.refusal(request, INVALID_PARAMS, "bad parameters")]
            }
            Err(HostRequestError::NoSuchMethod) => {
                let refusal = self.rpc.refusal(request, METHOD_NOT_FOUND, "not supported");
                vec![refusal, raw(Some(method), line)]
            }
        }
    }

    /// Reports the context size as the turn's usage until the prompt's result has better counts; some agents report nothing else.
    fn context_reported(&mut self, update: &Value) -> Vec<Step> {
        let before = self.state.meter.turn().map_or(0, |turn| turn.input_tokens);
        let reported = update::context_tokens(update).filter(|it| it.input_tokens > before);
        let Some(tokens) = reported.filter(|_| self.state.is_in_turn) else {
            return Vec::new();
        };
        self.state.meter.turn_tokens(tokens);
        self.state.usage_event().into_iter().collect()
    }

    fn update(&mut self, params: &Value, line: &[u8]) -> Vec<Step> {
        let update = &params["update"];
        let kind = text(update, "sessionUpdate");
        let is_ours = text(params, "sessionId") == self.state.session.as_deref();
        if kind == Some("usage_update") && is_ours {
            self.cost = update::cost(update).or(self.cost);
            return self.context_reported(update);
        }
        // Updates between turns are replayed history or arrived too late.
        if !self.state.is_in_turn || !is_ours {
            return Vec::new();
        }
        match kind {
            Some("agent_message_chunk" | "agent_thought_chunk") => {
                let Some(chunk) = update::chunk(update) else {
                    return vec![raw(kind, line)];
                };
                let step = if kind == Some("agent_thought_chunk") {
                    thinking(Some(chunk), None)
                } else {
                    self.tail.push(chunk);
                    let message = id(update, "messageId").map(str::to_owned);
                    answer_text(Some(chunk), message, None)
                };
                step.into_iter().collect()
            }
            Some("tool_call" | "tool_call_update") => update::call(&mut self.state.calls, update),
            Some("plan") => match update::plan_entries(update) {
                Some(entries) => self.state.calls.plan(entries),
                None => vec![raw(kind, line)],
            },
            Some(
                "user_message_chunk"
                | "available_commands_update"
                | "current_mode_update"
                | "config_option_update"
                | "session_info_update",
            ) => Vec::new(),
            other => vec![raw(other, line)],
        }
    }
}

impl Protocol for Acp {
    fn begin(&mut self) -> Vec<Step> {
        let client = json!({"name": "windlass", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": host::capabilities(self.offers),
            "clientInfo": client,
        });
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
            Received::Request { id, method, params } => self.request(&id, &method, &params, line),
            Received::Notification { method, params } if method == "session/update" => {
                self.update(&params, line)
            }
            Received::Notification { method, .. } => vec![raw(Some(&method), line)],
            Received::Response { purpose, outcome } => self.reply(&purpose, outcome),
        }
    }

    /// Gemini reports its retries only on standard error.
    fn stderr_text(&mut self, text: &str) -> Vec<Step> {
        let retries = text.lines().filter_map(|line| {
            let (_, after) = line.split_once("failed with status ")?;
            let digits = after
                .split(|character: char| !character.is_ascii_digit())
                .next()?;
            Some(notice(BackendNotice::Retry {
                attempt: None,
                delay_ms: None,
                status: Some(digits.parse().ok()?),
                message: crate::json::cut_text(line, 512),
            }))
        });
        retries.take(16).collect()
    }

    fn readiness(&self) -> Readiness {
        match (&self.state.session, self.is_replaying) {
            (None, _) => Readiness::NotYet,
            (Some(_), true) => Readiness::WhenQuiet(QUIET),
            (Some(_), false) => Readiness::Ready,
        }
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.state.begin_turn();
        self.is_interrupted = false;
        self.is_replaying = false;
        self.tail.clear();
        self.cost = None;
        let prompt = json!([{"type": "text", "text": prompt}]);
        let params = json!({"sessionId": self.state.session, "prompt": prompt});
        vec![
            self.rpc
                .request("session/prompt", &params, RequestPurpose::Prompt),
        ]
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.state.is_in_turn {
            return Vec::new();
        }
        self.is_interrupted = true;
        let params = json!({"sessionId": self.state.session});
        let mut steps = vec![self.rpc.notification("session/cancel", Some(&params))];
        steps.extend(self.withdraw());
        steps
    }

    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>> {
        let (id, answer) = self.permissions.answer(request, decision)?;
        Some(vec![self.rpc.reply(&id, &answer)])
    }

    fn waits_for_user(&self) -> bool {
        self.permissions.any()
    }

    fn host_answer(&mut self, request: Value, answer: Result<Value, HostAccessError>) -> Vec<Step> {
        let step = match answer {
            Ok(answer) => self.rpc.reply(&request, &answer),
            Err(error) => {
                let code = match &error {
                    HostAccessError::NotFound(_) => NOT_FOUND,
                    HostAccessError::NotAllowed(_) | HostAccessError::Failed(_) => INTERNAL_ERROR,
                };
                self.rpc.refusal(&request, code, &error.to_string())
            }
        };
        vec![step]
    }

    fn state(&self) -> &SessionState {
        &self.state
    }

    fn explain_exit(&self, exit: &BackendExit, stderr: &str) -> BackendError {
        let refusals = ["Invalid session identifier"];
        let mut error = self.state.explain_exit(exit, stderr, &refusals);
        let has = |codes: &[i32]| exit.code.is_some_and(|code| codes.contains(&code));
        if has(&self.settings.auth_codes) {
            error.kind = BackendErrorKind::Auth;
        }
        if has(&self.settings.limit_codes) {
            error.kind = BackendErrorKind::RateLimit;
        }
        error
    }
}
