//! The ends of turns: completed, failed or cancelled, with the results of open calls.

use windlass_core::events::{
    ApprovalDecidedData, ApprovalTimeoutData, Decision, LlmGenerationMetadata, SessionIdledData,
    ToolCallCanceledData, ToolCallTimeoutData, ToolStatus, TurnCancelledData, TurnCompletedData,
    TurnFailedData, TurnInterruptRequestedData, TurnOutline, UserInputCanceledData,
};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::TurnId;

use super::backend_end::RunEnd;
use super::compact::CompactionEnd;
use super::reason::{UnfinishedText, millis, preview, whole_millis};
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::FailureDetails;
use crate::state::{Call, CallState, Phase};
use crate::{PROCESS_RESTART, PROCESS_STOPPED};

/// Why a wait ends with its turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitEndCause {
    /// The turn ended.
    TurnEnded,
    /// The process crashed, and the turn must not resume.
    ProcessGone,
}

impl WaitEndCause {
    fn code(self) -> String {
        let code = match self {
            Self::TurnEnded => "turn_terminal",
            Self::ProcessGone => PROCESS_RESTART,
        };
        code.to_owned()
    }
}

impl Draft<'_> {
    pub(super) fn complete_turn(&mut self) {
        let Some(turn) = self.turn() else { return };
        let last = self.thread.history.last();
        let answer = last.filter(|last| Some(last.id) == turn.last_message_id);
        let preview = answer.and_then(|it| it.text()).and_then(preview);
        let data = TurnCompletedData {
            turn_id: turn.id,
            iterations: turn.iterations,
            duration_ms: Some(millis(turn.started_at, self.now())),
            usage: turn.usage,
            input_content: None,
            final_message_id: turn.last_message_id,
            final_answer_preview: preview,
            time_to_first_token_ms: turn.first_token_at.map(|at| millis(turn.started_at, at)),
            tool_call_count: Some(turn.tool_calls),
            llm_call_count: Some(turn.llm_calls),
            status: Some("completed".to_owned()),
            outline: Some(TurnOutline::clone(&turn.outline)),
        };
        self.record(data);
        self.record(SessionIdledData {});
    }

    pub(super) fn fail_turn(&mut self, failure: &FailureDetails) {
        let Some(turn) = self.turn() else { return };
        let data = TurnFailedData {
            turn_id: turn.id,
            error: failure.message.clone(),
            error_code: Some(failure.code.clone()),
            error_fields: failure.fields.clone(),
            iterations: Some(turn.iterations),
            duration_ms: Some(millis(turn.started_at, self.now())),
            usage: turn.usage,
            tool_call_count: Some(turn.tool_calls),
            llm_call_count: Some(turn.llm_calls),
            final_message_id: turn.last_message_id,
            outline: Some(TurnOutline::clone(&turn.outline)),
        };
        self.record(data);
        self.record(SessionIdledData {});
    }

    /// The model requests tools in the last call that it may make: they do not run, and each result has the reason.
    pub(super) fn stop_at_limit(&mut self) {
        let limit = self.plan().max_iterations;
        let why = format!("not run: the turn reached its limit of {limit} model calls");
        self.close_open_calls(&why, WaitEndCause::TurnEnded);
        let message = format!("Max iterations reached: {limit}");
        let user_message = "The turn reached its limit of model calls.";
        self.fail_turn(&FailureDetails::new(
            "max_iterations",
            message,
            user_message,
        ));
    }

    pub(super) fn interrupt(
        &mut self,
        turn_id: Option<TurnId>,
        reason: Option<String>,
    ) -> Result<(), Rejected> {
        let running = self.turn().map(|turn| turn.id);
        match (turn_id, running) {
            (Some(requested), running) if running != Some(requested) => {
                self.cancel_queued(requested, reason)
            }
            (_, Some(turn_id)) => {
                self.turn_id = Some(turn_id);
                // Text that the model streamed before the interrupt is recorded first: nothing starts after the interrupt.
                self.flush_text();
                self.record(TurnInterruptRequestedData {
                    turn_id,
                    reason: reason.clone(),
                });
                let cause = match reason.as_deref() {
                    Some(PROCESS_STOPPED) => WaitEndCause::ProcessGone,
                    _ => WaitEndCause::TurnEnded,
                };
                self.stop_steps("cancelled: the turn was interrupted", cause);
                self.cancel_turn(reason);
                Ok(())
            }
            (_, None) => Err(Rejected::NoTurn),
        }
    }

    pub(super) fn cancel_queued(
        &mut self,
        turn_id: TurnId,
        reason: Option<String>,
    ) -> Result<(), Rejected> {
        if !self.thread.is_queued(turn_id) {
            return Err(Rejected::NoTurn);
        }
        self.turn_id = Some(turn_id);
        self.record(TurnCancelledData {
            reason,
            ..TurnCancelledData::new(turn_id)
        });
        Ok(())
    }

    pub(super) fn cancel_turn(&mut self, reason: Option<String>) {
        let Some(turn) = self.turn() else { return };
        let data = TurnCancelledData {
            turn_id: turn.id,
            reason,
            usage: turn.usage,
            iterations: Some(turn.iterations),
            duration_ms: Some(millis(turn.started_at, self.now())),
            tool_call_count: Some(turn.tool_calls),
            llm_call_count: Some(turn.llm_calls),
            final_message_id: turn.last_message_id,
            outline: Some(TurnOutline::clone(&turn.outline)),
        };
        self.record(data);
        self.record(SessionIdledData {});
    }

    pub(super) fn timer(&mut self) {
        let Some(turn) = self.turn() else { return };
        let now = self.now();
        if turn.deadline.is_some_and(|deadline| deadline <= now) {
            let took = millis(turn.started_at, now);
            let timed_out = || {
                let message = format!("The turn timed out after {took} ms");
                FailureDetails::new("turn_timeout", message, "The turn ran out of time.")
            };
            let failure = self.time_failure().unwrap_or_else(timed_out);
            self.stop_steps(
                "cancelled: the turn ran out of time",
                WaitEndCause::TurnEnded,
            );
            return self.fail_turn(&failure);
        }
        let is_due = |call: &&Call| call.state.expires_at().is_some_and(|at| at <= now);
        if matches!(&turn.phase, Phase::Limited(wait) if wait.until <= now) {
            return self.end_limit_wait();
        }
        let due: Vec<Call> = turn.calls().iter().filter(is_due).cloned().collect();
        if due.is_empty() {
            return;
        }
        for call in due {
            self.expire(&call);
        }
        self.advance();
    }

    fn expire(&mut self, call: &Call) {
        let (exec_id, tool_call_id) = (call.exec_id, call.call.id.clone());
        let timeout = match &call.state {
            CallState::AwaitingResult { .. } => self.wait_timeout(&call.call.name),
            _ => self.plan().wait_timeout,
        };
        let timeout_ms = timeout.map(whole_millis);
        match &call.state {
            CallState::AwaitingApproval { .. } => {
                let expired = ApprovalTimeoutData {
                    tool_call_id: tool_call_id.clone(),
                    timeout_ms,
                };
                self.record_step(exec_id, expired);
                let data = ApprovalDecidedData {
                    reason: Some("no decision in time".to_owned()),
                    timed_out: Some(true),
                    ..ApprovalDecidedData::new(tool_call_id, Decision::Deny)
                };
                return self.decide_call(call, data);
            }
            CallState::AwaitingAnswer { request_id, .. } => {
                let data = UserInputCanceledData::new(request_id.clone(), "timeout".to_owned());
                self.record_step(exec_id, data);
            }
            _ => {
                let data = ToolCallTimeoutData {
                    tool_call_id,
                    timeout_ms,
                };
                self.record_step(exec_id, data);
            }
        }
        let result = ToolResult::failure(&call.call.id, "the call was not answered in time");
        self.close_call(exec_id, ToolStatus::Timeout, result);
    }

    /// Ends all running and waiting steps; finished results and text are preserved.
    pub(super) fn stop_steps(&mut self, why: &str, cause: WaitEndCause) {
        match self.turn().map(|turn| &turn.phase) {
            Some(Phase::Reasoning(_)) => {
                self.flush_text();
                self.abandon_reason(why, UnfinishedText::Keep, LlmGenerationMetadata::default());
            }
            Some(Phase::Acting(_)) => self.close_open_calls(why, cause),
            Some(Phase::Compacting(_)) => {
                self.abandon_summary(why);
                self.end_unchanged(&CompactionEnd::Interrupted, None);
            }
            Some(Phase::Backend(run)) => {
                let end = if run.is_lost {
                    RunEnd::LOST
                } else {
                    RunEnd::INTERRUPTED
                };
                self.flush_text();
                self.close_open_calls(why, cause);
                self.end_run(UnfinishedText::Keep, &end);
            }
            Some(Phase::Between | Phase::Limited(_)) | None => {}
        }
    }

    /// Records the same result for every call without one. A call that did not start has no intent in the journal, and gets none.
    fn close_open_calls(&mut self, why: &str, cause: WaitEndCause) {
        let calls = self.turn().map(|turn| turn.calls().to_vec());
        let calls = calls.unwrap_or_default();
        for call in calls.iter().filter(|call| !call.state.is_done()) {
            let (exec_id, tool_call_id) = (call.exec_id, call.call.id.clone());
            match &call.state {
                CallState::AwaitingApproval { .. } => {
                    let data = ApprovalDecidedData {
                        reason: Some(cause.code()),
                        ..ApprovalDecidedData::new(tool_call_id, Decision::Deny)
                    };
                    self.record_step(exec_id, data);
                }
                CallState::AwaitingResult { .. } => {
                    let data = ToolCallCanceledData::new(tool_call_id, cause.code());
                    self.record_step(exec_id, data);
                }
                CallState::AwaitingAnswer { request_id, .. } => {
                    let data = UserInputCanceledData::new(request_id.clone(), cause.code());
                    self.record_step(exec_id, data);
                }
                CallState::Queued | CallState::Running { .. } | CallState::Done { .. } => {}
            }
            let result = ToolResult::failure(&call.call.id, why);
            self.close_call(exec_id, ToolStatus::Cancelled, result);
        }
    }
}
