//! The output of an external agent's run, and the input that the thread sends to it.

use serde_json::Value;
use windlass_core::backend::{BackendEvent, BackendNotice, PermissionDecision};
use windlass_core::error::Result;
use windlass_core::events::Decision;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::{ExecId, MessageId};
use windlass_turn::Input;

use super::actor::Actor;
use super::call_output::OutputEnd;
use crate::steps::arguments::recordable;
use crate::steps::backend::{BackendOutput, BackendRun};
use crate::steps::output;
use crate::steps::stream_buffer::StreamKind;

/// Maximum number of notices recorded per run; an agent may print unlimited output that cannot be parsed.
const MAX_NOTICES: usize = 64;

impl Actor {
    pub(super) async fn backend_output(&mut self, output: BackendOutput) -> Result<()> {
        let Some(exec_id) = self.backend.as_ref().map(|run| run.exec_id) else {
            return Ok(());
        };
        match output {
            BackendOutput::Session {
                session_id,
                recorded,
            } => {
                let input = Input::BackendSession {
                    exec_id,
                    session_id,
                };
                self.decide(input).await?;
                let _ = recorded.send(());
                Ok(())
            }
            BackendOutput::Steered(message_id) => {
                let input = Input::BackendSteered {
                    exec_id,
                    message_id,
                };
                self.decide(input).await
            }
            BackendOutput::ChunkDue => self.flush_chunk().await,
            BackendOutput::CallOutputDue => {
                self.record_all_call_output(exec_id, OutputEnd::Open).await
            }
            BackendOutput::Ended(outcome) => {
                self.record_all_call_output(exec_id, OutputEnd::Final)
                    .await?;
                let tail = self.backend.take().map(|run| run.buffer.tail);
                let input = Input::BackendEnded { exec_id, outcome };
                self.end_step(input, tail).await
            }
            BackendOutput::Event(event) => self.backend_event(exec_id, event).await,
        }
    }

    async fn backend_event(&mut self, exec_id: ExecId, event: BackendEvent) -> Result<()> {
        let Some(event) = self.cut_event(event) else {
            return Ok(());
        };
        match event {
            BackendEvent::Text {
                text,
                message,
                parent: None,
            } => {
                let is_next = self.backend.as_mut().is_some_and(|run| {
                    let is_other = run.message.is_some() && run.message != message;
                    run.message = message;
                    std::mem::replace(&mut run.last_was_text, true) && is_other
                });
                self.append_text(exec_id, &text, StreamKind::Answer, is_next)
                    .await
            }
            BackendEvent::Thinking { text, parent: None } => {
                let run = self.backend.as_mut();
                let is_next = run.is_some_and(|run| std::mem::take(&mut run.last_was_text));
                self.append_text(exec_id, &text, StreamKind::Thinking, is_next)
                    .await
            }
            // Text of the agent's own subagent is output of the call that started it.
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
                self.buffer_call_output(exec_id, &call_id, &text).await
            }
            BackendEvent::ToolCompleted(result) => {
                self.record_call_output(exec_id, &result.call_id, OutputEnd::Final)
                    .await?;
                self.record_backend_event(exec_id, BackendEvent::ToolCompleted(result))
                    .await
            }
            event => self.record_backend_event(exec_id, event).await,
        }
    }

    /// Truncates an event to the maximum size of its record. Returns `None` if it is not recorded because the turn has reached its limit of output or
    /// notices.
    fn cut_event(&mut self, event: BackendEvent) -> Option<BackendEvent> {
        let event = match event {
            BackendEvent::ToolStarted(mut call) => {
                call.arguments = self.cut_value(&call.id, call.arguments);
                BackendEvent::ToolStarted(call)
            }
            BackendEvent::ToolCompleted(mut result) => {
                result.output = self.cut_value(&result.call_id, result.output);
                BackendEvent::ToolCompleted(result)
            }
            BackendEvent::Permission(mut request) => {
                request.arguments = recordable(request.arguments);
                BackendEvent::Permission(request)
            }
            BackendEvent::Notice(notice) => {
                BackendEvent::Notice(limit_notices(self.backend.as_mut()?, notice)?)
            }
            event => event,
        };
        self.backend.as_mut()?.admits(&event).then_some(event)
    }

    pub(super) async fn record_backend_event(
        &mut self,
        exec_id: ExecId,
        event: BackendEvent,
    ) -> Result<()> {
        let event = Box::new(event);
        self.decide(Input::BackendReported { exec_id, event }).await
    }

    /// Joins pieces into chunks, like those of a model. A message is stored whole, so it ends where another message begins or where it would exceed
    /// the maximum answer size.
    async fn append_text(
        &mut self,
        exec_id: ExecId,
        text: &str,
        kind: StreamKind,
        is_next: bool,
    ) -> Result<()> {
        let max_bytes = self.inner.settings.max_answer_bytes;
        let is_full = self.backend.as_mut().is_some_and(|run| {
            let bytes = if is_next { 0 } else { run.bytes };
            run.bytes = bytes.saturating_add(text.len());
            let is_full = bytes > 0 && run.bytes > max_bytes;
            if is_full {
                run.bytes = text.len();
            }
            is_full
        });
        if is_next || is_full {
            self.decide(Input::BackendPause { exec_id }).await?;
        }
        self.stream(kind, text).await
    }

    /// Truncates a value like the results of built-in tools.
    fn cut_value(&self, call_id: &str, value: Value) -> Value {
        let mut result = ToolResult::success(call_id, recordable(value));
        output::cap(&mut result, self.inner.settings.max_tool_result_bytes);
        result.result.unwrap_or_default()
    }

    /// The agent gets each permission for one call only; the runtime remembers wider approvals itself.
    pub(super) fn answer_backend(
        &mut self,
        exec_id: ExecId,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        let decision = match decision {
            Decision::Allow => PermissionDecision::Allow,
            Decision::Deny => PermissionDecision::Deny {
                message: reason.unwrap_or_else(|| "The user did not allow it".to_owned()),
            },
        };
        if let Some(run) = self.backend.as_ref().filter(|run| run.exec_id == exec_id) {
            run.answer(request_id, decision);
        }
    }

    pub(super) fn steer_backend(&mut self, exec_id: ExecId, message_id: MessageId, text: String) {
        if let Some(run) = self.backend.as_ref().filter(|run| run.exec_id == exec_id) {
            run.steer(message_id, text);
        }
    }
}

/// Passes the first notices of a run, and then one notice that the rest is omitted.
fn limit_notices(run: &mut BackendRun, notice: BackendNotice) -> Option<BackendNotice> {
    run.notices += 1;
    match run.notices {
        n if n <= MAX_NOTICES => Some(notice),
        n if n == MAX_NOTICES + 1 => Some(BackendNotice::Warning(
            "The agent has more to remark, which is not recorded".to_owned(),
        )),
        _ => None,
    }
}
