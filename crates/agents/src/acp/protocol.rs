//! How the Agent Client Protocol is spoken, from the side of the client.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendNotice,
    BackendSpec, BackendUsage, HostAccessError, HostOffers, PermissionDecision, SessionChoice,
    SessionTotals,
};

use super::failure::{self, AnswerTail};
use super::host::{self, Unasked};
use super::permission::{Permissions, cancelled};
use super::{AcpSettings, update};
use crate::calls::Calls;
use crate::ended::Known;
use crate::json::{id, notice, object, raw, raw_unless_blank, text};
use crate::limits::{Limit, Limits};
use crate::protocol::{HostAnswer, HostCall, Protocol, Readiness, SteerId, Step};
use crate::rpc::{Dialect, Message, Requests, RpcError};
use crate::usage::Meter;

const VERSION: u64 = 1;
const NO_SUCH_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const NOT_FOUND: i64 = -32002;
const FAILED: i64 = -32603;
/// How long an agent has to be silent after it loaded a session: some repeat the history after they said that they are done.
const QUIET: Duration = Duration::from_millis(500);

/// What a request of ours is about.
enum About {
    Initialize,
    New,
    /// A session whose history the agent repeats.
    Load,
    Resume,
    Prompt,
}

/// How the Agent Client Protocol is spoken.
pub struct Acp {
    choice: SessionChoice,
    cwd: Value,
    offers: HostOffers,
    settings: AcpSettings,
    requests: Requests<About>,
    session: Option<String>,
    /// Whether the agent may still repeat what was said before.
    repeats: bool,
    is_in_turn: bool,
    is_interrupted: bool,
    tail: AnswerTail,
    /// The last cost that was told of the session.
    cost: Option<f64>,
    calls: Calls,
    permissions: Permissions,
    limits: Limits,
    meter: Meter,
}

impl Acp {
    /// A process for a session.
    #[must_use]
    pub fn new(spec: &BackendSpec, settings: AcpSettings) -> Self {
        let offers = spec.host.as_ref().map(|host| host.offers());
        Self {
            choice: spec.session.clone(),
            cwd: json!(spec.cwd),
            offers: offers.unwrap_or_default(),
            settings,
            requests: Requests::new(Dialect::Versioned),
            session: None,
            repeats: false,
            is_in_turn: false,
            is_interrupted: false,
            tail: AnswerTail::default(),
            cost: None,
            calls: Calls::default(),
            permissions: Permissions::default(),
            limits: Limits::default(),
            meter: Meter::new(spec.totals),
        }
    }

    fn reply(&mut self, about: &About, result: Result<Value, RpcError>) -> Vec<Step> {
        match (about, result) {
            (About::Initialize, Ok(result)) => self.open_session(&result),
            (About::Initialize, Err(error)) => vec![Step::Broken(failure::read(&error))],
            (About::New, Ok(result)) => match id(&result, "sessionId") {
                Some(session) => self.established(session.to_owned()),
                None => {
                    let message = "the session has no id";
                    vec![Step::Broken(BackendError::new(
                        BackendErrorKind::Protocol,
                        message,
                    ))]
                }
            },
            (About::Load | About::Resume, Ok(_)) => {
                self.repeats = matches!(about, About::Load);
                let session = self.choice.id().unwrap_or_default().to_owned();
                self.established(session)
            }
            (About::New, Err(error)) => vec![Step::Broken(failure::read(&error))],
            (About::Load | About::Resume, Err(error)) => {
                let mut failed = failure::read(&error);
                // They use one code for all that goes wrong.
                if failed.kind == BackendErrorKind::Failed {
                    failed.kind = BackendErrorKind::ResumeRefused;
                }
                vec![Step::Broken(failed)]
            }
            (About::Prompt, result) if self.is_in_turn => self.prompt_ended(result),
            (About::Prompt, _) => Vec::new(),
        }
    }

    fn open_session(&mut self, result: &Value) -> Vec<Step> {
        let version = result.get("protocolVersion").and_then(Value::as_u64);
        if version != Some(VERSION) {
            let spoken = version.map_or("none".to_owned(), |version| version.to_string());
            let message = format!("it speaks version {spoken} of the protocol, and we {VERSION}");
            return vec![Step::Broken(BackendError::new(
                BackendErrorKind::Protocol,
                message,
            ))];
        }
        let can = result.get("agentCapabilities").unwrap_or(&Value::Null);
        let can_load = can.get("loadSession").and_then(Value::as_bool) == Some(true);
        let resume = can.pointer("/sessionCapabilities/resume");
        let can_resume = resume.is_some_and(|resume| !resume.is_null());
        let mut params = json!({"cwd": self.cwd, "mcpServers": []});
        let (method, about) = match &self.choice {
            SessionChoice::New { .. } => ("session/new", About::New),
            SessionChoice::Resume { id } => {
                params["sessionId"] = json!(id);
                match (can_resume, can_load) {
                    (true, _) => ("session/resume", About::Resume),
                    (false, true) => ("session/load", About::Load),
                    (false, false) => {
                        let message = "it can take up no session at all";
                        let kind = BackendErrorKind::ResumeRefused;
                        return vec![Step::Broken(BackendError::new(kind, message))];
                    }
                }
            }
        };
        vec![Step::Send(self.requests.request(method, params, about))]
    }

    fn established(&mut self, session_id: String) -> Vec<Step> {
        self.session = Some(session_id.clone());
        vec![Step::Event(BackendEvent::Started {
            session_id,
            model: None,
        })]
    }

    fn prompt_ended(&mut self, result: Result<Value, RpcError>) -> Vec<Step> {
        self.is_in_turn = false;
        let judged = match &result {
            Ok(result) => self.judge(result),
            Err(error) => match failure::read(error) {
                failed if self.is_interrupted && failed.kind == BackendErrorKind::Failed => {
                    Ok(BackendEnd::Interrupted)
                }
                failed => Err(failed),
            },
        };
        if matches!(&judged, Err(error) if error.kind == BackendErrorKind::RateLimit) {
            self.limits.meet(None);
        }
        if let Some(tokens) = result.as_ref().ok().and_then(update::tokens) {
            self.meter.turn_tokens(tokens);
        }
        if let Some(cost) = self.cost.take() {
            self.meter
                .session_cost(cost, judged == Ok(BackendEnd::Completed));
        }
        let mut steps = self.withdraw();
        steps.extend(self.meter.turn().map(BackendEvent::Usage).map(Step::Event));
        steps.push(Step::Ended(judged));
        steps
    }

    fn judge(&self, result: &Value) -> Result<BackendEnd, BackendError> {
        match text(result, "stopReason") {
            Some("end_turn") => {
                let is_suspect = result.get("usage") == Some(&Value::Null) && !self.calls.any();
                let disguised = self.tail.disguised().filter(|_| is_suspect);
                disguised.map_or(Ok(BackendEnd::Completed), Err)
            }
            Some("cancelled") => Ok(BackendEnd::Interrupted),
            Some("refusal") => Ok(BackendEnd::Refused),
            Some("max_tokens") => Ok(BackendEnd::LengthLimit),
            Some("max_turn_requests") => {
                let message = "it made as many model calls as it may";
                Err(BackendError::new(BackendErrorKind::TurnLimit, message))
            }
            other => {
                let message = format!("a prompt ended as {}", other.unwrap_or("nothing"));
                Err(BackendError::new(BackendErrorKind::Protocol, message))
            }
        }
    }

    /// Answers what nobody decides any more.
    fn withdraw(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (id, request_id) in self.permissions.withdraw_all() {
            steps.push(Step::Send(self.requests.reply(&id, &cancelled())));
            steps.push(Step::Event(BackendEvent::PermissionWithdrawn {
                request_id,
            }));
        }
        steps
    }

    /// Tells whether the agent is at work for somebody.
    fn may_act(&self) -> bool {
        self.is_in_turn && !self.is_interrupted
    }

    fn request(&mut self, request: &Value, method: &str, params: &Value, line: &[u8]) -> Vec<Step> {
        let is_ours = text(params, "sessionId") == self.session.as_deref();
        if method == "session/request_permission" {
            let asks = is_ours && self.may_act();
            let asked = asks
                .then(|| self.permissions.ask(request, params))
                .flatten();
            let answer = || Step::Send(self.requests.reply(request, &cancelled()));
            let step = asked.unwrap_or_else(answer);
            // Some agents never tell what a call is about but here.
            let call = params.get("toolCall").unwrap_or(&Value::Null);
            if let (Some(call_id), Some(title)) = (id(call, "toolCallId"), text(call, "title")) {
                self.calls.name(call_id, title);
            }
            return vec![step];
        }
        match host::read(method, params, self.offers) {
            // After its turn, or an interrupt, it can only let go of what it has.
            Ok(ask) if is_ours && ask.does_something() && !self.may_act() => {
                let refusal = "the turn is over";
                vec![Step::Send(self.requests.refusal(request, FAILED, refusal))]
            }
            Ok(ask) if is_ours => vec![Step::Host(HostCall {
                request: request.clone(),
                ask,
            })],
            Ok(_) | Err(Unasked::BadParams) => {
                vec![Step::Send(self.requests.refusal(
                    request,
                    BAD_PARAMS,
                    "bad parameters",
                ))]
            }
            Err(Unasked::NoSuchMethod) => {
                let refusal = self
                    .requests
                    .refusal(request, NO_SUCH_METHOD, "not supported");
                vec![Step::Send(refusal), raw(Some(method), line)]
            }
        }
    }

    /// Counts the context as the turn's usage until the prompt's result has better counts; some agents report nothing else.
    fn context_reported(&mut self, update: &Value) -> Vec<Step> {
        let before = self.meter.turn().map_or(0, |turn| turn.input_tokens);
        let reported = update::context_tokens(update).filter(|it| it.input_tokens > before);
        let Some(tokens) = reported.filter(|_| self.is_in_turn) else {
            return Vec::new();
        };
        self.meter.turn_tokens(tokens);
        let usage = self.meter.turn().map(BackendEvent::Usage);
        usage.map(Step::Event).into_iter().collect()
    }

    fn update(&mut self, params: &Value, line: &[u8]) -> Vec<Step> {
        let update = params.get("update").unwrap_or(&Value::Null);
        let kind = text(update, "sessionUpdate");
        let is_ours = text(params, "sessionId") == self.session.as_deref();
        if kind == Some("usage_update") && is_ours {
            self.cost = update::cost(update).or(self.cost);
            return self.context_reported(update);
        }
        // What comes between turns is the history, or comes too late.
        if !self.is_in_turn || !is_ours {
            return Vec::new();
        }
        match kind {
            Some("agent_message_chunk" | "agent_thought_chunk") => {
                if let (Some("agent_message_chunk"), Some(piece)) = (kind, update::piece(update)) {
                    self.tail.push(piece);
                }
                update::said(update, line)
            }
            Some("tool_call" | "tool_call_update") => update::call(&mut self.calls, update),
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
            Message::Request { id, method, params } => self.request(&id, &method, &params, line),
            Message::Notification { method, params } if method == "session/update" => {
                self.update(&params, line)
            }
            Message::Notification { method, .. } => vec![raw(Some(&method), line)],
            Message::Reply { id, result } => match self.requests.take(id) {
                Some(about) => self.reply(&about, result),
                None => vec![raw(None, line)],
            },
            Message::Other => vec![raw(None, line)],
        }
    }

    /// Gemini tells only there that it tries again.
    fn complaint(&mut self, text: &str) -> Vec<Step> {
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
        match (&self.session, self.repeats) {
            (None, _) => Readiness::NotYet,
            (Some(_), true) => Readiness::WhenQuiet(QUIET),
            (Some(_), false) => Readiness::Ready,
        }
    }

    fn prompt(&mut self, prompt: &str) -> Vec<Step> {
        self.is_in_turn = true;
        self.is_interrupted = false;
        self.repeats = false;
        self.tail.clear();
        self.cost = None;
        self.calls.begin_turn();
        self.limits.begin_turn();
        self.meter.begin_turn();
        let prompt = json!([{"type": "text", "text": prompt}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        vec![Step::Send(self.requests.request(
            "session/prompt",
            params,
            About::Prompt,
        ))]
    }

    /// The protocol has no such thing.
    fn steer(&mut self, _id: SteerId, _text: &str) -> Option<Vec<Step>> {
        None
    }

    fn interrupt(&mut self) -> Vec<Step> {
        if !self.is_in_turn {
            return Vec::new();
        }
        self.is_interrupted = true;
        let params = json!({"sessionId": self.session});
        let cancel = self.requests.notification("session/cancel", Some(params));
        let mut steps = vec![Step::Send(cancel)];
        steps.extend(self.withdraw());
        steps
    }

    fn answer(&mut self, request: &str, decision: &PermissionDecision) -> Option<Vec<Step>> {
        let (id, answer) = self.permissions.answer(request, decision)?;
        Some(vec![Step::Send(self.requests.reply(&id, &answer))])
    }

    fn waits_for_person(&self) -> bool {
        self.permissions.any()
    }

    fn host_answer(
        &mut self,
        request: Value,
        answer: Result<HostAnswer, HostAccessError>,
    ) -> Vec<Step> {
        let line = match answer {
            Ok(HostAnswer(answer)) => self.requests.reply(&request, &answer),
            Err(error) => {
                let code = match &error {
                    HostAccessError::NotFound(_) => NOT_FOUND,
                    HostAccessError::NotAllowed(_) | HostAccessError::Failed(_) => FAILED,
                };
                self.requests.refusal(&request, code, &error.to_string())
            }
        };
        vec![Step::Send(line)]
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
            refusals: &["Invalid session identifier"],
        };
        let mut error = known.error();
        let has = |codes: &[i32]| exit.code.is_some_and(|code| codes.contains(&code));
        if has(&self.settings.auth_codes) {
            error.kind = BackendErrorKind::Auth;
        }
        if has(&self.settings.limit_codes) {
            error.kind = BackendErrorKind::RateLimit;
        }
        error
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
