//! Whole agents: what they tell, what they ask, and how their runs begin.

use serde_json::json;
use windlass_core::backend::{
    Attempts, BackendEvent, BackendNotice, ObservedCall, ObservedResult, PermissionRequest,
    SessionChoice,
};
use windlass_core::digest::Digest128;
use windlass_core::events::{
    ApprovalDecidedData, ApprovalRequiredData, BackendEstablishedData, BackendNoticeData,
    BackendNoticeKind, BackendPrompt, BackendSessionChosenData, BackendStartedData,
    BackendSteeredData, Decision, ToolOrigin, ToolOutputDeltaData, ToolStartedData, ToolStatus,
};
use windlass_core::tools::{SideEffectClass, ToolCall, ToolResult};
use windlass_core::typed_id::{ExecId, MessageId};

use super::reason::UnfinishedText;
use crate::decision::{Command, Rejected};
use crate::draft::Draft;
use crate::input::{Failure, Tail};
use crate::run::{LastRun, Run, call_digest};
use crate::state::{Call, CallState};

const WITHDRAWN: &str = "the agent no longer asks for it";
const DECIDED_BEFORE: &str = "it was decided before the agent's process was gone";

impl Draft<'_> {
    /// Lets the backend carry the turn: takes up the session that it has of this conversation, or begins one with the history.
    pub(super) fn begin_backend(&mut self) {
        let Some(backend) = &self.plan().backend else {
            return;
        };
        let Some(input) = self.turn().map(|turn| turn.input_message_id) else {
            return;
        };
        let known = self.thread.session.as_ref().filter(|known| {
            // Nothing may have been said meanwhile but what it is told now.
            *known.backend == *backend.name && known.messages + 1 == self.thread.history.len()
        });
        let (session, prompt) = match known {
            Some(known) => {
                let id = known.session_id.clone();
                (SessionChoice::Resume { id }, BackendPrompt::Words)
            }
            None => (SessionChoice::New { id: None }, BackendPrompt::History),
        };
        self.start_run(session, prompt, vec![input], Attempts::default(), 1);
    }

    /// Tells the backend what was said to the turn while it worked.
    pub(super) fn prompt_again(&mut self, last: &LastRun, attempts: Attempts) {
        let next = self.turn().map_or(1, |turn| turn.iterations + 1);
        let session = last.session.clone();
        self.start_run(session, BackendPrompt::Words, Vec::new(), attempts, next);
    }

    /// Tries the run that ended last once more. The words that it was told may not have been heard.
    pub(super) fn try_again(&mut self, attempts: Attempts) {
        let Some((last, n)) = self.last_run() else {
            return;
        };
        let (prompt, told) = match last.is_established {
            true => (BackendPrompt::GoOn, Vec::new()),
            false => (last.prompt, last.message_ids.to_vec()),
        };
        self.start_run(last.session, prompt, told, attempts, n);
    }

    /// The backend does not know the session any more: it is told the conversation, and people that it was so.
    pub(super) fn start_fresh(&mut self, attempts: Attempts) {
        let Some((last, n)) = self.last_run() else {
            return;
        };
        self.record(BackendNoticeData {
            kind: BackendNoticeKind::SessionLost,
            message: "The agent does not know its session any more; it starts again with the conversation so far"
                .to_owned(),
        });
        let session = SessionChoice::New { id: None };
        let told = last.message_ids.to_vec();
        self.start_run(session, BackendPrompt::History, told, attempts, n);
    }

    fn last_run(&self) -> Option<(LastRun, usize)> {
        let turn = self.turn()?;
        Some((turn.last_run.clone()?, turn.iterations))
    }

    fn start_run(
        &mut self,
        session: SessionChoice,
        prompt: BackendPrompt,
        mut told: Vec<MessageId>,
        attempts: Attempts,
        iteration: usize,
    ) {
        let Some(turn) = self.turn() else { return };
        let Some(plan) = &self.plan().backend else {
            return self.fail_turn(&Failure {
                code: "configuration".to_owned(),
                message: "the turn's backend is not configured any more".to_owned(),
                user_message: "The turn's agent is not there any more.".to_owned(),
                fields: None,
            });
        };
        told.extend(turn.steered.iter().map(|message| message.id));
        let data = BackendStartedData {
            backend: plan.name.clone(),
            iteration,
            session,
            prompt,
            attempts,
            message_ids: (!told.is_empty()).then_some(told),
        };
        let exec_id = ExecId::from_uuid(self.new_uuid());
        self.record_step(exec_id, data);
    }

    pub(super) fn running_backend(&self, exec_id: ExecId) -> Result<&Run, Rejected> {
        let run = self.turn().and_then(|turn| turn.run());
        run.filter(|run| run.exec_id == exec_id && !run.is_lost)
            .ok_or(Rejected::Stale(exec_id))
    }

    pub(super) fn backend_session(
        &mut self,
        exec_id: ExecId,
        session_id: String,
    ) -> Result<(), Rejected> {
        if self.running_backend(exec_id)?.session_id.is_none() {
            self.record_step(exec_id, BackendSessionChosenData { session_id });
        }
        Ok(())
    }

    pub(super) fn backend_pause(&mut self, exec_id: ExecId) -> Result<(), Rejected> {
        self.running_backend(exec_id)?;
        self.flush_running_tail();
        self.close_part(UnfinishedText::Whole, None);
        Ok(())
    }

    /// One that was placed meanwhile is no news.
    pub(super) fn backend_steered(
        &mut self,
        exec_id: ExecId,
        message_id: MessageId,
    ) -> Result<(), Rejected> {
        self.running_backend(exec_id)?;
        let mut steered = self.turn().into_iter().flat_map(|turn| &turn.steered);
        if steered.any(|message| message.id == message_id) {
            self.flush_running_tail();
            self.close_part(UnfinishedText::Whole, None);
            self.record_step(exec_id, BackendSteeredData { message_id });
        }
        Ok(())
    }

    pub(super) fn backend_said(
        &mut self,
        exec_id: ExecId,
        event: BackendEvent,
    ) -> Result<(), Rejected> {
        let run = self.running_backend(exec_id)?;
        let (part, is_established) = (run.part.exec_id, run.is_established);
        match event {
            BackendEvent::Started { .. } if is_established => {}
            BackendEvent::Started { session_id, model } => {
                self.record_step(exec_id, BackendEstablishedData { session_id, model });
            }
            BackendEvent::Text {
                text, parent: None, ..
            } => {
                self.flush_running_tail();
                let thinking = String::new();
                self.record_tail(part, &Tail { text, thinking });
            }
            BackendEvent::Thinking {
                text: thinking,
                parent: None,
            } => {
                self.flush_running_tail();
                let text = String::new();
                self.record_tail(part, &Tail { text, thinking });
            }
            BackendEvent::Text {
                text,
                parent: Some(call_id),
                ..
            }
            | BackendEvent::Thinking {
                text,
                parent: Some(call_id),
            }
            | BackendEvent::ToolOutput { call_id, text } => {
                self.observe_output(exec_id, &call_id, text)?
            }
            BackendEvent::ToolStarted(observed) => self.observe_call(exec_id, observed)?,
            BackendEvent::ToolCompleted(result) => self.observe_result(exec_id, result)?,
            BackendEvent::Permission(request) => self.ask_permission(exec_id, request)?,
            BackendEvent::PermissionWithdrawn { request_id } => {
                self.withdraw(exec_id, &request_id)?
            }
            // The end of the run tells all of it.
            BackendEvent::Usage(_) => {}
            BackendEvent::Notice(notice) => {
                let (kind, message) = in_words(notice);
                self.record(BackendNoticeData { kind, message });
            }
        }
        Ok(())
    }

    fn observe_output(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        delta: String,
    ) -> Result<(), Rejected> {
        let call = self.running_backend(exec_id)?.call_named(call_id);
        let call = call
            .filter(|call| !call.state.is_done())
            .ok_or_else(|| not_open(call_id))?;
        let (step, name) = (call.exec_id, call.call.name.clone());
        self.record_step(
            step,
            ToolOutputDeltaData {
                tool_call_id: call_id.to_owned(),
                tool_name: name,
                delta,
                stream: "stdout".to_owned(),
            },
        );
        Ok(())
    }

    fn observe_call(&mut self, exec_id: ExecId, observed: ObservedCall) -> Result<(), Rejected> {
        let run = self.running_backend(exec_id)?;
        let is_known =
            run.call_named(&observed.id).is_some() || run.ended_by_us.contains(&observed.id);
        if !is_known {
            let ObservedCall {
                id,
                name,
                arguments,
                ..
            } = observed;
            self.open_observed(ToolCall {
                id,
                name,
                arguments,
            });
        }
        Ok(())
    }

    /// Records a call that the backend makes by itself, behind what it has said so far.
    fn open_observed(&mut self, call: ToolCall) -> Option<ExecId> {
        self.flush_running_tail();
        self.close_part(UnfinishedText::Whole, Some(&call));
        let run = self.turn()?.run()?;
        let step = run.calls.last()?.exec_id;
        self.record_step(
            step,
            ToolStartedData {
                tool_call: call,
                side_effects: SideEffectClass::AtMostOnce,
                display_name: None,
                narration: None,
                shape: None,
                external: None,
                origin: Some(ToolOrigin::Observed),
            },
        );
        Some(step)
    }

    fn observe_result(
        &mut self,
        exec_id: ExecId,
        observed: ObservedResult,
    ) -> Result<(), Rejected> {
        let ObservedResult {
            call_id,
            output,
            is_error,
        } = observed;
        let run = self.running_backend(exec_id)?;
        if run.ended_by_us.contains(&call_id) {
            return Ok(());
        }
        let call = run
            .call_named(&call_id)
            .filter(|call| !call.state.is_done());
        let call = call.cloned().ok_or_else(|| not_open(&call_id))?;
        // It went on without the answer.
        if matches!(call.state, CallState::AwaitingApproval { .. }) {
            self.record_withdrawal(&call);
        }
        let (status, result) = match is_error {
            false => (ToolStatus::Success, ToolResult::success(&call_id, output)),
            true => {
                let text = output
                    .as_str()
                    .map_or_else(|| output.to_string(), str::to_owned);
                (ToolStatus::Error, ToolResult::failure(&call_id, text))
            }
        };
        self.close_call(call.exec_id, status, result, None);
        Ok(())
    }

    /// A permission is an approval of ours: whoever may decide about our own calls decides about these.
    fn ask_permission(
        &mut self,
        exec_id: ExecId,
        request: PermissionRequest,
    ) -> Result<(), Rejected> {
        let PermissionRequest {
            id: request_id,
            call_id,
            name,
            arguments,
            title,
            ..
        } = request;
        let run = self.running_backend(exec_id)?;
        if run.call_asking(&request_id).is_some() {
            return Ok(());
        }
        if call_id
            .as_ref()
            .is_some_and(|id| run.ended_by_us.contains(id))
        {
            self.answer(exec_id, request_id, Decision::Deny, None);
            return Ok(());
        }
        let named = call_id.as_deref().and_then(|id| run.call_named(id));
        let named = named.map(|call| {
            (
                call.exec_id,
                matches!(call.state, CallState::Running { .. }),
            )
        });
        let is_allowed = |step| self.thread.verdict_on(step) == Some(Decision::Allow);
        let allows_all = self
            .plan()
            .backend
            .as_ref()
            .is_some_and(|backend| backend.allows_all);
        let asks_nobody = allows_all || self.turn().is_some_and(|turn| turn.asks_nobody);
        if asks_nobody || named.is_some_and(|(step, _)| is_allowed(step)) {
            self.answer(exec_id, request_id, Decision::Allow, None);
            return Ok(());
        }
        let step = match (named, call_id) {
            (Some((step, true)), _) => Some(step),
            // It asks before it tells of the call.
            (None, Some(id)) => self.open_observed(ToolCall {
                id,
                name,
                arguments,
            }),
            // It asks for something that it never tells of, or once more: the request itself is the call.
            (_, _) => {
                let id = request_id.clone();
                self.open_observed(ToolCall {
                    id,
                    name,
                    arguments,
                })
            }
        };
        if let Some(call) = step.and_then(|step| self.call(step)).cloned() {
            self.require(&call, request_id, title);
        }
        Ok(())
    }

    fn require(&mut self, call: &Call, request_id: String, title: Option<String>) {
        let digest = call_digest(&call.call);
        let turn = self.turn();
        let mut settled = turn.into_iter().flat_map(|turn| &turn.settled);
        let decided = settled
            .find(|settled| settled.call == digest)
            .map(|it| it.is_allowed);
        let data = ApprovalRequiredData {
            tool_call: (*call.call).clone(),
            digest: Digest128::of_json(&call.call.arguments).to_string(),
            display_name: title,
            expires_at: self.after(self.plan().wait_timeout),
            request_id: Some(request_id),
        };
        self.record_step(call.exec_id, data);
        if let Some(is_allowed) = decided {
            let data = ApprovalDecidedData {
                tool_call_id: call.call.id.clone(),
                decision: if is_allowed {
                    Decision::Allow
                } else {
                    Decision::Deny
                },
                reason: Some(DECIDED_BEFORE.to_owned()),
                timed_out: None,
                remember: None,
                withdrawn: None,
            };
            self.decide_call(call, data);
        }
    }

    fn withdraw(&mut self, exec_id: ExecId, request_id: &str) -> Result<(), Rejected> {
        let call = self.running_backend(exec_id)?.call_asking(request_id);
        let call = call.filter(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
        let call = call.cloned().ok_or_else(|| not_open(request_id))?;
        self.record_withdrawal(&call);
        if call.call.id == request_id {
            let result = ToolResult::failure(request_id, WITHDRAWN);
            self.close_call(call.exec_id, ToolStatus::Cancelled, result, None);
        }
        Ok(())
    }

    pub(super) fn record_withdrawal(&mut self, call: &Call) {
        let data = ApprovalDecidedData {
            tool_call_id: call.call.id.clone(),
            decision: Decision::Deny,
            reason: Some(WITHDRAWN.to_owned()),
            timed_out: None,
            remember: None,
            withdrawn: Some(true),
        };
        self.record_step(call.exec_id, data);
    }

    /// Somebody decided about a call of a backend: it hears so, if its process is still there.
    pub(super) fn pass_on(
        &mut self,
        call: &Call,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let (exec_id, is_lost) = (run.exec_id, run.is_lost);
        let is_request_itself = call.call.id == request_id;
        match (is_lost, decision) {
            (true, Decision::Allow) => {
                let why =
                    "the agent's process was gone before it made this call; it may make it again";
                let result = ToolResult::failure(&call.call.id, why);
                self.close_call(call.exec_id, ToolStatus::Unknown, result, None);
            }
            (true, Decision::Deny) => {}
            (false, decision) => {
                if is_request_itself && decision == Decision::Allow {
                    let result = ToolResult::success(&call.call.id, json!("allowed"));
                    self.close_call(call.exec_id, ToolStatus::Success, result, None);
                }
                self.answer(exec_id, request_id, decision, reason);
            }
        }
    }

    fn answer(
        &mut self,
        exec_id: ExecId,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        self.says.push(Command::AnswerBackend {
            exec_id,
            request_id,
            decision,
            reason,
        });
    }

    /// Returns the request by which a backend asks for a call.
    pub(super) fn request_for(&self, exec_id: ExecId) -> Option<String> {
        let run = self.turn()?.run()?;
        run.request_for(exec_id).map(str::to_owned)
    }

    /// Says to a running backend what the turn is told; what it does not take is told by the next run.
    pub(super) fn steer_backend(&mut self, message_id: MessageId, text: String) {
        let run = self.turn().and_then(|turn| turn.run());
        if let Some(run) = run.filter(|run| !run.is_lost) {
            let command = Command::SteerBackend {
                exec_id: run.exec_id,
                message_id,
                text,
            };
            self.says.push(command);
        }
    }
}

fn not_open(name: &str) -> Rejected {
    Rejected::NoPendingCall {
        call: name.to_owned(),
        reason: "the agent has no such open call",
    }
}

fn in_words(notice: BackendNotice) -> (BackendNoticeKind, String) {
    use BackendNoticeKind as Kind;
    let when = |at: Option<chrono::DateTime<chrono::Utc>>| match at {
        Some(at) => format!(" until {}", at.to_rfc3339()),
        None => String::new(),
    };
    match notice {
        BackendNotice::Retry { message, .. } => (Kind::Retry, message),
        BackendNotice::Limit { reset_at } => (
            Kind::Limit,
            format!("The agent's provider lets it do no more{}", when(reset_at)),
        ),
        BackendNotice::LimitNear { reset_at } => (
            Kind::LimitNear,
            format!(
                "The agent's provider will soon let it do no more{}",
                when(reset_at)
            ),
        ),
        BackendNotice::Warning(message) => (Kind::Warning, message),
        BackendNotice::Raw { line, .. } => (Kind::Raw, line),
        BackendNotice::LineCut { limit } => (
            Kind::LineCut,
            format!("The agent wrote a line of more than {limit} bytes, which is not read"),
        ),
    }
}
