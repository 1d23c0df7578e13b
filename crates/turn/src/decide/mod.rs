//! The decisions, one file per group of inputs.

mod act;
mod answers;
mod backend;
mod backend_end;
mod begin;
mod budget;
mod compact;
mod context_window;
mod end;
mod note;
mod permission;
mod queue;
mod reason;
mod recover;
mod rewind;
mod step_events;

use crate::decision::{Decision, Rejected};
use crate::draft::Draft;
use crate::input::{DecisionContext, Input};
use crate::state::Thread;

impl Thread {
    /// Decides the events and commands that follow from an input. Total and pure: the thread does not change, and an invalid input is rejected.
    pub fn decide(&self, input: Input, ctx: &DecisionContext<'_>) -> Result<Decision, Rejected> {
        let mut draft = Draft::new(self, ctx);
        match input {
            Input::Submit {
                message,
                on_busy,
                timeout,
                turn_id,
            } => draft.submit(message, on_busy, timeout, turn_id)?,
            Input::EditQueued { turn_id, edit } => draft.edit_queued(turn_id, edit)?,
            Input::RemoveQueued { turn_id, reason } => draft.remove_queued(turn_id, reason)?,
            Input::Begin { turn_id, failure } => draft.begin_queued(turn_id, failure)?,
            Input::Steer { turn_id, message } => draft.steer(turn_id, message)?,
            Input::Compact { message, turn_id } => draft.compact(turn_id, message)?,
            Input::Import { message } => draft.import(message)?,
            Input::Interrupt { turn_id, reason } => draft.interrupt(turn_id, reason)?,
            Input::ModelFinished { exec_id, answer } => draft.model_finished(exec_id, *answer)?,
            Input::ModelFailed {
                exec_id,
                failure,
                metadata,
            } => draft.model_failed(exec_id, failure, *metadata)?,
            Input::ToolFinished { exec_id, outcome } => draft.tool_finished(exec_id, *outcome)?,
            Input::BackendSession {
                exec_id,
                session_id,
            } => draft.backend_session(exec_id, session_id)?,
            Input::BackendReported { exec_id, event } => draft.backend_reported(exec_id, *event)?,
            Input::BackendPause { exec_id } => draft.backend_pause(exec_id)?,
            Input::BackendSteered {
                exec_id,
                message_id,
            } => draft.backend_steered(exec_id, message_id)?,
            Input::BackendEnded { exec_id, outcome } => draft.backend_ended(exec_id, &outcome)?,
            Input::ToolResults { results } => draft.tool_results(results)?,
            Input::Approval { call, approval } => draft.record_approval(&call, approval)?,
            Input::UserAnswer { request, answer } => draft.user_answer(&request, answer)?,
            Input::Emit { exec_id, data } => draft.emit(exec_id, data)?,
            Input::Note { data } => draft.note(data)?,
            Input::Rewind { turn_id } => draft.rewind(turn_id)?,
            Input::Timer => draft.timer(),
            Input::Recover => draft.recover(),
            Input::Release => draft.release(),
        }
        Ok(draft.finish()?)
    }
}
