//! What a backend tells its thread, and what it is told.

use serde_json::Value;
use windlass_core::backend::{BackendEvent, BackendNotice, PermissionDecision, PermissionScope};
use windlass_core::error::Result;
use windlass_core::events::Decision;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::{ExecId, MessageId};
use windlass_turn::Input;

use super::actor::Actor;
use super::printed::Rest;
use crate::steps::arguments::recordable;
use crate::steps::backend::{BackendRun, Told};
use crate::steps::output;
use crate::steps::stream_buffer::StreamKind;

/// How many notices of one run are recorded: an agent may print without end what nobody understands.
const MAX_NOTICES: usize = 64;

impl Actor {
    pub(super) async fn backend_told(&mut self, told: Told) -> Result<()> {
        let Some(exec_id) = self.backend.as_ref().map(|run| run.exec_id) else {
            return Ok(());
        };
        match told {
            Told::Session {
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
            Told::Steered(message_id) => {
                let input = Input::BackendSteered {
                    exec_id,
                    message_id,
                };
                self.decide(input).await
            }
            Told::ChunkDue => self.flush_chunk().await,
            Told::PrintedDue => self.show_all_printed(exec_id, Rest::May).await,
            Told::Ended(outcome) => {
                self.show_all_printed(exec_id, Rest::Cannot).await?;
                let tail = self.backend.take().map(|run| run.buffer.tail);
                let input = Input::BackendEnded { exec_id, outcome };
                self.end_step(input, tail).await
            }
            Told::Event(event) => self.backend_said(exec_id, event).await,
        }
    }

    async fn backend_said(&mut self, exec_id: ExecId, event: BackendEvent) -> Result<()> {
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
                    std::mem::replace(&mut run.has_spoken, true) && is_other
                });
                self.hear(exec_id, &text, StreamKind::Answer, is_next).await
            }
            BackendEvent::Thinking { text, parent: None } => {
                let run = self.backend.as_mut();
                let is_next = run.is_some_and(|run| std::mem::take(&mut run.has_spoken));
                self.hear(exec_id, &text, StreamKind::Thinking, is_next)
                    .await
            }
            // What a helper says is what its call prints.
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
                self.call_printed(exec_id, &call_id, &text).await
            }
            BackendEvent::ToolCompleted(result) => {
                self.show_printed(exec_id, &result.call_id, Rest::Cannot)
                    .await?;
                self.tell(exec_id, BackendEvent::ToolCompleted(result))
                    .await
            }
            event => self.tell(exec_id, event).await,
        }
    }

    /// Cuts an event to the size of its record. Returns `None` if it is not recorded: the turn has reached its limit of output or
    /// of notices.
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
                BackendEvent::Notice(one_of_few(self.backend.as_mut()?, notice)?)
            }
            event => event,
        };
        self.backend.as_mut()?.admits(&event).then_some(event)
    }

    pub(super) async fn tell(&mut self, exec_id: ExecId, event: BackendEvent) -> Result<()> {
        let event = Box::new(event);
        self.decide(Input::BackendSaid { exec_id, event }).await
    }

    /// Joins pieces into chunks, as those of a model. What begins another message ends the one before; so does what would make one
    /// larger than an answer may be, because a message is kept whole.
    async fn hear(
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

    /// Cuts a value as the results of our own tools are cut.
    fn cut_value(&self, call_id: &str, value: Value) -> Value {
        let mut result = ToolResult::success(call_id, recordable(value));
        output::cap(&mut result, self.inner.settings.max_tool_result_bytes);
        result.result.unwrap_or_default()
    }

    /// Permissions are given once: that they hold for longer is for this runtime to remember.
    pub(super) fn answer_backend(
        &mut self,
        exec_id: ExecId,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        let decision = match decision {
            Decision::Allow => PermissionDecision::Allow {
                scope: PermissionScope::Once,
                arguments: None,
            },
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

/// Lets the first notices of a run pass, and one that says so when there are more.
fn one_of_few(run: &mut BackendRun, notice: BackendNotice) -> Option<BackendNotice> {
    run.notices += 1;
    match run.notices {
        n if n <= MAX_NOTICES => Some(notice),
        n if n == MAX_NOTICES + 1 => Some(BackendNotice::Warning(
            "The agent has more to remark, which is not recorded".to_owned(),
        )),
        _ => None,
    }
}
