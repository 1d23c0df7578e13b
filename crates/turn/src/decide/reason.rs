//! Model calls: their beginning, their text, their end.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::derived_id::message_of_step;
use windlass_core::events::{
    ErrorFields, LlmGenerationData, LlmGenerationMetadata, LlmGenerationOutput,
    OutputMessageCompletedData, OutputMessageDeltaData, OutputMessageStartedData,
    OutputRejectedData, PromptRef, ReasonCompletedData, ReasonStartedData,
    ReasonThinkingCompletedData, ReasonThinkingDeltaData, ReasonThinkingStartedData,
};
use windlass_core::message::{
    ContentPart, ERROR_MARK, Message, MessageRole, REPORT_MARK, ToolCallContentPart,
};
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::ExecId;

use super::context_window::ContextWindow;
use crate::OUTPUT_SCHEMA_MISMATCH;
use crate::decision::{Decision, Rejected};
use crate::draft::Draft;
use crate::input::{Answer, DecisionContext, FailureDetails, RequestedCall, UnflushedText};
use crate::state::{Phase, Reason, Thread, Turn};

/// Length limit of an answer's preview, in characters.
const PREVIEW_CHARS: usize = 60;

/// The treatment of the text of an incomplete model call.
#[derive(Clone, Copy)]
pub(super) enum UnfinishedText<'a> {
    /// The text is the model's own and remains in the conversation.
    Keep,
    /// The message is completed and marked with the failure; without text, it contains a report of the failure.
    Fail(&'a FailureDetails),
    /// The text was shown to users and remains visible to them; the model does not see it again.
    Void(&'a FailureDetails),
    /// The text is complete and remains in the conversation.
    Whole,
}

impl UnfinishedText<'_> {
    pub(super) fn completeness(&self) -> Completeness {
        match self {
            UnfinishedText::Fail(_) | UnfinishedText::Whole => Completeness::Complete,
            UnfinishedText::Keep | UnfinishedText::Void(_) => Completeness::CutShort,
        }
    }
}

/// Whether the text or reasoning of a model call was cut short.
#[derive(Clone, Copy)]
pub(super) enum Completeness {
    /// The call ended, successfully or not.
    Complete,
    /// An interrupt or a crash stopped it.
    CutShort,
}

impl Completeness {
    fn is_cut_short(self) -> Option<bool> {
        matches!(self, Self::CutShort).then_some(true)
    }
}

impl Thread {
    /// Records streamed text of the running model call or external agent: the context's `UnflushedText`. It needs no decision.
    pub fn chunk(&self, exec_id: ExecId, ctx: &DecisionContext<'_>) -> Result<Decision, Rejected> {
        let mut draft = Draft::new(self, ctx);
        match draft.running_backend(exec_id) {
            Ok(_) => draft.flush_text(),
            Err(_) => {
                draft.running_reason(exec_id)?;
                draft.flush_text_of(exec_id);
            }
        }
        Ok(draft.finish()?)
    }
}

pub(super) fn preview(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.chars().take(PREVIEW_CHARS).collect())
}

/// The failure of a turn without any model output. If it counted as completed, users would wait for an answer.
pub(super) fn no_output() -> FailureDetails {
    let text = "Turn completed without engine output";
    FailureDetails::new("no_output", text, text)
}

fn output_mismatch(errors: Vec<String>) -> FailureDetails {
    let listed = errors.join("; ");
    let text = format!("The answer does not match the output schema: {listed}");
    FailureDetails {
        fields: Some(ErrorFields::from([("errors".to_owned(), errors.into())])),
        ..FailureDetails::new(OUTPUT_SCHEMA_MISMATCH, text.clone(), text)
    }
}

/// Returns a duration in milliseconds.
pub(super) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds between two times; 0 if the clock went back.
pub(super) fn millis(from: DateTime<Utc>, to: DateTime<Utc>) -> u64 {
    u64::try_from((to - from).num_milliseconds()).unwrap_or(0)
}

impl Draft<'_> {
    /// Starts the first step of a turn.
    pub(super) fn start_work(&mut self) {
        match self.plan().backend {
            Some(_) => self.begin_backend(),
            None => self.start_reason(),
        }
    }

    /// Makes the next model call.
    pub(super) fn start_reason(&mut self) {
        self.start_reason_after(None);
    }

    /// Makes the next model call, after a failed compaction if there was one.
    pub(super) fn start_reason_after(&mut self, failure: Option<&str>) {
        let done = self.turn().map_or(0, |turn| turn.iterations);
        self.call_model(done + 1, failure);
    }

    /// Repeats the newest model call under a new step. It counts as the same iteration, so that a crash does not cost the turn a model call.
    pub(super) fn repeat_reason(&mut self) {
        let newest = self.turn().map_or(1, |turn| turn.iterations);
        self.call_model(newest, None);
    }

    /// Calls the model, or compacts the history first; both count against the budget.
    fn call_model(&mut self, iteration: usize, failure: Option<&str>) {
        if let Some(failure) = self.budget_failure() {
            return self.fail_turn(&failure);
        }
        match self.context_window() {
            ContextWindow::Enough => {
                let exec_id = ExecId::from_uuid(self.new_uuid());
                self.record_step(exec_id, ReasonStartedData { iteration });
            }
            ContextWindow::Shorten { recent_messages } => self.start_compaction(recent_messages),
            ContextWindow::Full => self.fail_turn(&self.context_full(failure)),
        }
    }

    pub(super) fn running_reason(&self, exec_id: ExecId) -> Result<&Reason, Rejected> {
        match self.turn().map(|turn| &turn.phase) {
            Some(Phase::Reasoning(reason)) if reason.exec_id == exec_id => Ok(reason),
            _ => Err(Rejected::Stale(exec_id)),
        }
    }

    /// Returns the open message of a step of a model or an external agent.
    fn open_message(&self, exec_id: ExecId) -> Option<&Reason> {
        let reason = match &self.turn()?.phase {
            Phase::Reasoning(reason) => reason,
            Phase::Backend(run) => &run.part,
            _ => return None,
        };
        Some(reason).filter(|reason| reason.exec_id == exec_id)
    }

    /// Records the unflushed text of the running model call or external agent.
    pub(super) fn flush_text(&mut self) {
        match self.turn().map(|turn| &turn.phase) {
            Some(Phase::Reasoning(reason)) => self.flush_text_of(reason.exec_id),
            Some(Phase::Backend(run)) => self.flush_text_of(run.part.exec_id),
            _ => {}
        }
    }

    /// Records the unflushed text, once.
    fn flush_text_of(&mut self, exec_id: ExecId) {
        if let Some(tail) = self.ctx.tail.take() {
            self.record_text(exec_id, tail);
        }
    }

    /// Records deltas of a step's streamed text.
    pub(super) fn record_text(&mut self, exec_id: ExecId, tail: &UnflushedText) {
        let (Some(turn), Some(open)) = (self.turn(), self.open_message(exec_id)) else {
            return;
        };
        let turn_id = turn.id;
        let starts_text = open.text_started.is_none();
        let starts_thinking = open.thinking_started.is_none();
        if !tail.thinking.is_empty() {
            if starts_thinking {
                self.record_step(exec_id, ReasonThinkingStartedData {});
            }
            let data = ReasonThinkingDeltaData::new(turn_id, tail.thinking.clone());
            self.record_step(exec_id, data);
        }
        if !tail.text.is_empty() {
            if starts_text {
                let data = OutputMessageStartedData::new(message_of_step(exec_id));
                self.record_step(exec_id, data);
            }
            let data = OutputMessageDeltaData::new(turn_id, tail.text.clone());
            self.record_step(exec_id, data);
        }
    }

    pub(super) fn model_finished(
        &mut self,
        exec_id: ExecId,
        answer: Answer,
    ) -> Result<(), Rejected> {
        if self.running_compaction(exec_id).is_some() {
            self.compaction_finished(exec_id, answer);
            return Ok(());
        }
        if self.is_empty_turn(exec_id, &answer)? && self.plan().needs_output {
            return self.model_failed(exec_id, no_output(), answer.metadata);
        }
        self.finished = Some(exec_id);
        self.flush_text_of(exec_id);
        // Closes the streamed item, even if the answer does not repeat its text.
        let streamed = self.running_reason(exec_id)?.thinking.joined();
        let streamed = (!streamed.is_empty()).then_some(streamed);
        let thinking = answer.thinking.as_deref().or(streamed.as_deref());
        self.close_thinking(exec_id, thinking, Completeness::Complete);
        let (calls, usage) = (answer.calls, answer.metadata.usage);
        self.record_generation(exec_id, &calls, answer.metadata, answer.prompt);
        let requested = calls.iter().map(|requested| &requested.call);
        let message = Message {
            phase: answer.phase,
            thinking: answer.thinking,
            thinking_signature: answer.thinking_signature,
            reasoning_items: answer.reasoning_items,
            ..self.agent_message(exec_id, answer.text, requested)
        };
        self.record_answer(exec_id, message, None, Completeness::Complete);
        let data = ReasonCompletedData {
            usage,
            ..ReasonCompletedData::new(true, !calls.is_empty(), calls.len())
        };
        self.record_step(exec_id, data);
        self.after_answer(calls, answer.mismatch)
    }

    /// Tells whether the model returned no text, thinking or call in the whole turn, and the turn was not steered.
    fn is_empty_turn(&self, exec_id: ExecId, answer: &Answer) -> Result<bool, Rejected> {
        let reason = self.running_reason(exec_id)?;
        let is_shown = reason.text_started.is_some() || reason.thinking_started.is_some();
        let is_pending = self.ctx.tail.is_some_and(|tail| !tail.is_empty());
        let is_empty =
            answer.text.is_empty() && answer.thinking.is_none() && answer.calls.is_empty();
        let is_first = |turn: &Turn| turn.iterations <= 1 && turn.steered.is_empty();
        Ok(is_empty && !is_shown && !is_pending && self.turn().is_some_and(is_first))
    }

    fn after_answer(
        &mut self,
        calls: Vec<RequestedCall>,
        mismatch: Vec<String>,
    ) -> Result<(), Rejected> {
        let Some(turn) = self.turn() else {
            return Ok(());
        };
        let at_limit = turn.iterations >= self.plan().max_iterations;
        let has_more_to_read = !turn.steered.is_empty();
        match (calls.is_empty(), at_limit) {
            (true, false) if has_more_to_read => self.continue_turn(),
            (true, _) if mismatch.is_empty() => self.complete_turn(),
            (true, at_limit) => self.reject_output(mismatch, at_limit),
            (false, true) => self.stop_at_limit(),
            (false, false) => self.begin_act(calls),
        }
        Ok(())
    }

    /// Lets the model repair an answer that does not match the turn's schema, once.
    fn reject_output(&mut self, errors: Vec<String>, at_limit: bool) {
        let Some(turn) = self.turn() else { return };
        match turn.last_message_id {
            Some(message_id) if !turn.is_repairing && !at_limit => {
                let data = OutputRejectedData::new(turn.id, message_id, errors);
                self.record(data);
                self.start_reason();
            }
            _ => self.fail_turn(&output_mismatch(errors)),
        }
    }

    pub(super) fn model_failed(
        &mut self,
        exec_id: ExecId,
        failure: FailureDetails,
        metadata: LlmGenerationMetadata,
    ) -> Result<(), Rejected> {
        if self.running_compaction(exec_id).is_some() {
            self.compaction_failed(exec_id, &failure, metadata);
            return Ok(());
        }
        self.running_reason(exec_id)?;
        self.finished = Some(exec_id);
        self.flush_text_of(exec_id);
        self.abandon_reason(&failure.message, UnfinishedText::Fail(&failure), metadata);
        self.fail_turn(&failure);
        Ok(())
    }

    /// Ends a model call that brought no whole answer.
    pub(super) fn abandon_reason(
        &mut self,
        why: &str,
        leftover: UnfinishedText<'_>,
        metadata: LlmGenerationMetadata,
    ) {
        let Some(Phase::Reasoning(reason)) = self.turn().map(|turn| &turn.phase) else {
            return;
        };
        let (exec_id, started_at) = (reason.exec_id, reason.started_at);
        let (text, thinking) = (reason.text.joined(), reason.thinking.joined());
        let usage = metadata.usage;
        let metadata = LlmGenerationMetadata {
            model: if metadata.model.is_empty() {
                self.plan().model.clone()
            } else {
                metadata.model
            },
            success: false,
            error: Some(why.to_owned()),
            ..metadata
        };
        let thinking = (!thinking.is_empty()).then_some(thinking.as_str());
        self.close_thinking(exec_id, thinking, leftover.completeness());
        self.record_generation(exec_id, &[], metadata, None);
        self.record_leftover(exec_id, text, leftover);
        let data = ReasonCompletedData {
            error: Some(why.to_owned()),
            duration_ms: Some(millis(started_at, self.now())),
            usage,
            ..ReasonCompletedData::new(false, false, 0)
        };
        self.record_step(exec_id, data);
    }

    pub(super) fn record_leftover(
        &mut self,
        exec_id: ExecId,
        text: String,
        leftover: UnfinishedText<'_>,
    ) {
        let (failure, is_report) = match leftover {
            UnfinishedText::Keep | UnfinishedText::Whole => (None, false),
            UnfinishedText::Fail(failure) => (Some(failure), text.is_empty()),
            UnfinishedText::Void(failure) => (Some(failure), true),
        };
        let text = match leftover {
            UnfinishedText::Fail(failure) if text.is_empty() => failure.user_message.clone(),
            _ => text,
        };
        if text.is_empty() {
            return;
        }
        let mut message = self.agent_message(exec_id, text, std::iter::empty());
        message.metadata = failure.map(|failure| {
            let code = (ERROR_MARK.to_owned(), Value::String(failure.code.clone()));
            let report = is_report.then(|| (REPORT_MARK.to_owned(), Value::Bool(true)));
            std::iter::once(code).chain(report).collect()
        });
        self.record_answer(exec_id, message, failure, leftover.completeness());
    }

    pub(super) fn close_thinking(
        &mut self,
        exec_id: ExecId,
        thinking: Option<&str>,
        completeness: Completeness,
    ) {
        let Some(thinking) = thinking.map(str::to_owned) else {
            return;
        };
        let reason = self.open_message(exec_id);
        let started_at = reason.and_then(|reason| reason.thinking_started);
        let data = ReasonThinkingCompletedData {
            thinking,
            started_at: started_at.filter(|at| *at != self.now()),
            interrupted: completeness.is_cut_short(),
        };
        self.record_step(exec_id, data);
    }

    pub(super) fn agent_message<'c>(
        &self,
        exec_id: ExecId,
        text: String,
        calls: impl Iterator<Item = &'c ToolCall>,
    ) -> Message {
        let text = (!text.is_empty()).then(|| ContentPart::text(text));
        let calls =
            calls.map(|call| ContentPart::ToolCall(ToolCallContentPart::from(call.clone())));
        let mut content: Vec<ContentPart> = text.into_iter().chain(calls).collect();
        content.shrink_to_fit();
        let id = message_of_step(exec_id);
        Message::from_parts(id, MessageRole::Agent, content, self.now())
    }

    pub(super) fn record_answer(
        &mut self,
        exec_id: ExecId,
        message: Message,
        failure: Option<&FailureDetails>,
        completeness: Completeness,
    ) {
        let reason = self.open_message(exec_id);
        let started_at = reason.and_then(|reason| reason.text_started);
        // For a message without text, this shows that text was streamed.
        let started_at = started_at.filter(|at| *at != self.now() || message.text().is_none());
        let id = message.id.uuid();
        let data = OutputMessageCompletedData {
            error_code: failure.map(|failure| failure.code.clone()),
            error_fields: failure.and_then(|failure| failure.fields.clone()),
            started_at,
            interrupted: completeness.is_cut_short(),
            ..OutputMessageCompletedData::new(message)
        };
        self.record_as(id, Some(exec_id), data);
    }

    pub(super) fn record_generation(
        &mut self,
        exec_id: ExecId,
        calls: &[RequestedCall],
        metadata: LlmGenerationMetadata,
        prompt: Option<PromptRef>,
    ) {
        let history = self.thread.context();
        let own_prompt = || PromptRef {
            message_count: history.len(),
            last_message_id: history.last().map(|message| message.id),
            digest: history.digest().to_string(),
        };
        let mut tools = self.plan().tool_names.to_vec();
        tools.extend(self.thread.discovered_tools(self.plan()));
        let data = LlmGenerationData {
            prompt: prompt.unwrap_or_else(own_prompt),
            tools,
            output: LlmGenerationOutput {
                text: None,
                tool_calls: calls.iter().map(|it| it.call.clone()).collect(),
            },
            metadata,
        };
        self.record_step(exec_id, data);
    }
}
