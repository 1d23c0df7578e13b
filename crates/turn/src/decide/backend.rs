//! External agents: their events, their permission requests, and the start of their runs.

use windlass_core::backend::{
    Attempts, BackendEvent, BackendNotice, ObservedCall, ObservedResult, SessionChoice,
};
use windlass_core::events::{
    BackendEstablishedData, BackendNoticeData, BackendNoticeKind, BackendPrompt,
    BackendSessionChosenData, BackendStartedData, BackendSteeredData, BackendUsageData, ToolOrigin,
    ToolOutputDeltaData, ToolStartedData, ToolStatus,
};
use windlass_core::tools::{PLAN_TOOL, SideEffectClass, ToolCall, ToolResult, ToolShape};
use windlass_core::typed_id::{ExecId, MessageId};

use super::end::WaitEndCause;
use super::reason::UnfinishedText;
use crate::decision::{Command, Rejected};
use crate::draft::Draft;
use crate::input::{FailureDetails, UnflushedText};
use crate::run::{LastRun, Run};
use crate::state::CallState;

impl Draft<'_> {
    /// Starts a run of the external agent: resumes its session of this conversation, or starts one with the history.
    pub(super) fn begin_backend(&mut self) {
        let (Some(backend), Some(turn)) = (&self.plan().backend, self.turn()) else {
            return;
        };
        let input = turn.input_message_id;
        let known = self.thread.session.as_ref().filter(|known| {
            // Nothing but this run's input may have been added since.
            *known.backend == *backend.name
                && known.is_current
                && known.messages + known.unread.len() + 1 == self.thread.history.len()
        });
        let mut message_ids = Vec::new();
        let (session, prompt) = match known {
            Some(known) => {
                let id = known.session_id.clone();
                message_ids.extend(known.unread.iter().copied());
                (SessionChoice::Resume { id }, BackendPrompt::Words)
            }
            None => (SessionChoice::New { id: None }, BackendPrompt::History),
        };
        message_ids.push(input);
        self.start_run(session, prompt, message_ids, Attempts::default(), 1);
    }

    /// Sends the messages that arrived during the run to the external agent.
    pub(super) fn send_steered(&mut self, last: &LastRun, attempts: Attempts) {
        let next = self.turn().map_or(1, |turn| turn.iterations + 1);
        let session = last.session.clone();
        self.start_run(session, BackendPrompt::Words, Vec::new(), attempts, next);
    }

    /// Repeats the run that ended last. The agent may not have received its input.
    pub(super) fn repeat_run(&mut self, attempts: Attempts) {
        let Some((last, n)) = self.last_run() else {
            return;
        };
        let (prompt, message_ids) = if last.is_established {
            (BackendPrompt::GoOn, Vec::new())
        } else {
            (last.prompt, last.message_ids.to_vec())
        };
        self.start_run(last.session, prompt, message_ids, attempts, n);
    }

    /// The agent no longer knows the session: it gets the history, and a notice records that.
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
        let message_ids = last.message_ids.to_vec();
        self.start_run(session, BackendPrompt::History, message_ids, attempts, n);
    }

    fn last_run(&self) -> Option<(LastRun, usize)> {
        let turn = self.turn()?;
        Some((turn.last_run.clone()?, turn.iterations))
    }

    fn start_run(
        &mut self,
        session: SessionChoice,
        prompt: BackendPrompt,
        mut message_ids: Vec<MessageId>,
        attempts: Attempts,
        iteration: usize,
    ) {
        let Some(turn) = self.turn() else { return };
        let Some(plan) = &self.plan().backend else {
            return self.fail_turn(&FailureDetails::new(
                "configuration",
                "the turn's backend is no longer configured",
                "The turn's agent is no longer available.",
            ));
        };
        message_ids.extend(turn.steered.iter().map(|message| message.id));
        if let Some(failure) = self.run_failure() {
            return self.fail_turn(&failure);
        }
        let backend = plan.name.clone();
        let data = BackendStartedData {
            message_ids: (!message_ids.is_empty()).then_some(message_ids),
            ..BackendStartedData::new(backend, iteration, session, prompt, attempts)
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
        if let Some(failure) = self.quota_failure() {
            self.end_full_run(&failure);
            return Ok(());
        }
        self.flush_text();
        self.close_part(UnfinishedText::Whole, None);
        Ok(())
    }

    /// Ignores a message that was positioned in the meantime.
    pub(super) fn backend_steered(
        &mut self,
        exec_id: ExecId,
        message_id: MessageId,
    ) -> Result<(), Rejected> {
        self.running_backend(exec_id)?;
        let mut steered = self.turn().into_iter().flat_map(|turn| &turn.steered);
        if steered.any(|message| message.id == message_id) {
            self.flush_text();
            self.close_part(UnfinishedText::Whole, None);
            self.record_step(exec_id, BackendSteeredData { message_id });
        }
        Ok(())
    }

    pub(super) fn backend_reported(
        &mut self,
        exec_id: ExecId,
        event: BackendEvent,
    ) -> Result<(), Rejected> {
        let run = self.running_backend(exec_id)?;
        let (part, is_established) = (run.part.exec_id, run.is_established);
        let reported = run.usage;
        if let Some(failure) = self.quota_failure().filter(|_| is_growth(&event)) {
            self.end_full_run(&failure);
            return Ok(());
        }
        match event {
            BackendEvent::Started { .. } if is_established => {}
            BackendEvent::Started { session_id, model } => {
                self.record_step(exec_id, BackendEstablishedData { session_id, model });
            }
            BackendEvent::Text {
                text, parent: None, ..
            } => {
                self.flush_text();
                let thinking = String::new();
                self.record_text(part, &UnflushedText { text, thinking });
            }
            BackendEvent::Thinking {
                text: thinking,
                parent: None,
            } => {
                self.flush_text();
                let text = String::new();
                self.record_text(part, &UnflushedText { text, thinking });
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
            BackendEvent::Usage(usage) => {
                let usage = usage.to_token_usage();
                if reported != Some(usage) {
                    self.record_step(exec_id, BackendUsageData { usage });
                }
            }
            BackendEvent::Notice(notice) => {
                let (kind, message) = describe_notice(notice);
                self.record(BackendNoticeData { kind, message });
            }
        }
        Ok(())
    }

    /// An external agent may run indefinitely: it is stopped when the session reaches its limits.
    fn end_full_run(&mut self, failure: &FailureDetails) {
        let why = "cancelled: the session has reached its limit";
        self.stop_steps(why, WaitEndCause::TurnEnded);
        self.fail_turn(failure);
    }

    fn observe_output(
        &mut self,
        exec_id: ExecId,
        call_id: &str,
        delta: String,
    ) -> Result<(), Rejected> {
        let call = self.running_backend(exec_id)?.call_by_id(call_id);
        let call = call
            .filter(|call| !call.state.is_done())
            .ok_or_else(|| not_open(call_id))?;
        let (step, name) = (call.exec_id, call.call.name.clone());
        let data = ToolOutputDeltaData::new(call_id.to_owned(), name, delta, "stdout".to_owned());
        self.record_step(step, data);
        Ok(())
    }

    fn observe_call(&mut self, exec_id: ExecId, observed: ObservedCall) -> Result<(), Rejected> {
        let run = self.running_backend(exec_id)?;
        let is_known =
            run.call_by_id(&observed.id).is_some() || run.ended_by_us.contains(&observed.id);
        if !is_known {
            self.open_observed(ToolCall {
                id: observed.id,
                name: observed.name,
                arguments: observed.arguments,
            });
        }
        Ok(())
    }

    /// Records a call that the agent makes itself, after its output so far.
    pub(super) fn open_observed(&mut self, call: ToolCall) -> Option<ExecId> {
        self.flush_text();
        self.close_part(UnfinishedText::Whole, Some(&call));
        let run = self.turn()?.run()?;
        let step = run.calls.last()?.exec_id;
        let data = ToolStartedData {
            origin: Some(ToolOrigin::Observed),
            shape: observed_shape(&call.name),
            ..ToolStartedData::new(call, SideEffectClass::AtMostOnce)
        };
        self.record_step(step, data);
        Some(step)
    }

    fn observe_result(
        &mut self,
        exec_id: ExecId,
        observed: ObservedResult,
    ) -> Result<(), Rejected> {
        let (call_id, output) = (observed.call_id, observed.output);
        let run = self.running_backend(exec_id)?;
        if run.ended_by_us.contains(&call_id) {
            return Ok(());
        }
        let call = run
            .call_by_id(&call_id)
            .filter(|call| !call.state.is_done());
        let call = call.cloned().ok_or_else(|| not_open(&call_id))?;
        // The agent continued without the answer.
        if matches!(call.state, CallState::AwaitingApproval { .. }) {
            self.record_withdrawal(&call);
        }
        let (status, result) = if !observed.is_error {
            (ToolStatus::Success, ToolResult::success(&call_id, output))
        } else {
            let text = output
                .as_str()
                .map_or_else(|| output.to_string(), str::to_owned);
            (ToolStatus::Error, ToolResult::failure(&call_id, text))
        };
        self.close_call(call.exec_id, status, result);
        Ok(())
    }

    /// Sends steered text to a running agent; text that it does not accept is part of the next run.
    pub(super) fn steer_backend(&mut self, message_id: MessageId, text: String) {
        let run = self.turn().and_then(|turn| turn.run());
        if let Some(run) = run.filter(|run| !run.is_lost) {
            let exec_id = run.exec_id;
            self.backend_commands.push(Command::SteerBackend {
                exec_id,
                message_id,
                text,
            });
        }
    }
}

/// Returns whether an event starts or extends something. Events that end something or are rare are never limited.
fn is_growth(event: &BackendEvent) -> bool {
    match event {
        BackendEvent::ToolStarted(_)
        | BackendEvent::ToolOutput { .. }
        | BackendEvent::Permission(_)
        | BackendEvent::Text { .. }
        | BackendEvent::Thinking { .. } => true,
        BackendEvent::Started { .. }
        | BackendEvent::ToolCompleted(_)
        | BackendEvent::PermissionWithdrawn { .. }
        | BackendEvent::Usage(_)
        | BackendEvent::Notice(_) => false,
    }
}

pub(super) fn not_open(name: &str) -> Rejected {
    Rejected::NoPendingCall {
        call: name.to_owned(),
        reason: "the agent has no such open call",
    }
}

fn describe_notice(notice: BackendNotice) -> (BackendNoticeKind, String) {
    use BackendNoticeKind as Kind;
    let when = |at: Option<chrono::DateTime<chrono::Utc>>| match at {
        Some(at) => format!(" until {}", at.to_rfc3339()),
        None => String::new(),
    };
    match notice {
        BackendNotice::Retry { message, .. } => (Kind::Retry, message),
        BackendNotice::Limit { reset_at } => (
            Kind::Limit,
            format!("The agent's provider limits it{}", when(reset_at)),
        ),
        BackendNotice::LimitNear { reset_at } => (
            Kind::LimitNear,
            format!("The agent's provider will soon limit it{}", when(reset_at)),
        ),
        BackendNotice::Warning(message) => (Kind::Warning, message),
        BackendNotice::Raw { line, .. } => (Kind::Raw, line),
        BackendNotice::LineCut { limit } => (
            Kind::LineCut,
            format!("The agent wrote a line of more than {limit} bytes, which was dropped"),
        ),
    }
}

/// Returns the kind of an external agent's call, if it is known: agents report plans under the name of our tool.
pub(super) fn observed_shape(name: &str) -> Option<ToolShape> {
    (name == PLAN_TOOL).then_some(ToolShape::Plan)
}
