//! Compaction of the history: a turn with one step, or a step before a model call.

use windlass_core::events::{
    ContextCompactedData, ContextCompactingData, LlmGenerationMetadata, TokenUsage, TurnStartedData,
};
use windlass_core::message::InputMessage;
use windlass_core::typed_id::{ExecId, TurnId};

use super::begin::check_input;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::{Answer, FailureDetails};
use crate::state::{Compaction, Phase};

/// The end of a compaction that changes nothing.
pub(super) enum CompactionEnd<'a> {
    Failed(&'a str),
    Interrupted,
}

impl Draft<'_> {
    pub(super) fn compact(
        &mut self,
        requested_id: Option<TurnId>,
        message: InputMessage,
    ) -> Result<(), Rejected> {
        if let Some(turn) = self.turn() {
            return Err(match turn.waiting_for() {
                Some(waiting_for) => Rejected::Waiting {
                    turn_id: turn.id,
                    waiting_for,
                },
                None => Rejected::Busy(turn.id),
            });
        }
        if let Some(next) = self.thread.queue.front() {
            return Err(Rejected::Busy(next.turn_id));
        }
        self.check_quota()?;
        check_input(&message)?;
        let turn_id = requested_id.unwrap_or_else(|| TurnId::from_uuid(self.new_uuid()));
        let message = self.new_message(message);
        self.repair();
        self.turn_id = Some(turn_id);
        let mut outline = self.outline_of(&message);
        outline.compaction = Some(true);
        outline.backend = None;
        self.record(TurnStartedData {
            config: Some(self.plan().digest.clone()),
            deadline: self.deadline(None),
            outline: Some(outline),
            ..TurnStartedData::new(turn_id, message.id)
        });
        if let Some(failure) = self.budget_failure() {
            self.fail_turn(&failure);
            return Ok(());
        }
        let exec_id = ExecId::from_uuid(self.new_uuid());
        let message_count = self.thread.context().len();
        let data = ContextCompactingData {
            auto: Some(false),
            ..ContextCompactingData::new(message_count)
        };
        self.record_step(exec_id, data);
        if message_count == 0 {
            self.record_compacted(exec_id, None, &LlmGenerationMetadata::default());
            self.complete_turn();
        }
        Ok(())
    }

    pub(super) fn running_compaction(&self, exec_id: ExecId) -> Option<Compaction> {
        match &self.turn()?.phase {
            Phase::Compacting(compaction) if compaction.exec_id == exec_id => Some(*compaction),
            _ => None,
        }
    }

    pub(super) fn compaction_finished(&mut self, exec_id: ExecId, answer: Answer) {
        self.finished = Some(exec_id);
        let Answer {
            text,
            metadata,
            prompt,
            ..
        } = answer;
        if text.trim().is_empty() {
            let failure = FailureDetails::new(
                "empty_summary",
                "The model returned no summary",
                "The conversation could not be summarised.",
            );
            return self.compaction_failed(exec_id, &failure, metadata);
        }
        self.record_generation(exec_id, &[], metadata.clone(), prompt);
        let is_auto = self.is_auto(exec_id);
        self.record_compacted(exec_id, Some(text), &metadata);
        if is_auto {
            self.continue_turn()
        } else {
            self.complete_turn()
        }
    }

    fn is_auto(&self, exec_id: ExecId) -> bool {
        let compaction = self.running_compaction(exec_id);
        compaction.is_some_and(|compaction| compaction.is_auto())
    }

    pub(super) fn compaction_failed(
        &mut self,
        exec_id: ExecId,
        failure: &FailureDetails,
        metadata: LlmGenerationMetadata,
    ) {
        self.finished = Some(exec_id);
        let (usage, is_auto) = (metadata.usage, self.is_auto(exec_id));
        self.record_generation(exec_id, &[], metadata, None);
        self.end_unchanged(&CompactionEnd::Failed(&failure.message), usage);
        if is_auto {
            self.start_reason_after(Some(&failure.message))
        } else {
            self.fail_turn(failure)
        }
    }

    /// Records that a running summary call was cut off: its cost is unknown.
    pub(super) fn abandon_summary(&mut self, why: &str) {
        let Some(Phase::Compacting(compaction)) = self.turn().map(|turn| &turn.phase) else {
            return;
        };
        let exec_id = compaction.exec_id;
        let metadata = LlmGenerationMetadata {
            model: self.plan().model.clone(),
            success: false,
            error: Some(why.to_owned()),
            ..LlmGenerationMetadata::default()
        };
        self.record_generation(exec_id, &[], metadata, None);
    }

    /// Ends a compaction that changes nothing.
    pub(super) fn end_unchanged(&mut self, end: &CompactionEnd<'_>, usage: Option<TokenUsage>) {
        let Some(Phase::Compacting(compaction)) = self.turn().map(|turn| &turn.phase) else {
            return;
        };
        let compaction = *compaction;
        let messages = self.thread.context().len();
        let (error, interrupted) = match end {
            CompactionEnd::Failed(error) => (Some((*error).to_owned()), None),
            CompactionEnd::Interrupted => (None, Some(true)),
        };
        let data = ContextCompactedData {
            auto: Some(compaction.is_auto()),
            started_at: Some(compaction.started_at),
            usage,
            error,
            interrupted,
            ..ContextCompactedData::new(messages, messages)
        };
        self.record_step(compaction.exec_id, data);
    }

    fn record_compacted(
        &mut self,
        exec_id: ExecId,
        summary: Option<String>,
        metadata: &LlmGenerationMetadata,
    ) {
        let compaction = self.running_compaction(exec_id);
        let recent_messages = compaction.and_then(|it| it.recent_messages);
        let verbatim = recent_messages.unwrap_or(0);
        let input = self.turn().map(|turn| turn.input_message_id);
        let input = input.and_then(|input| self.thread.history.outside(verbatim, input));
        let head = usize::from(summary.is_some()) + usize::from(input.is_some());
        let data = ContextCompactedData {
            summary,
            auto: Some(recent_messages.is_some()),
            started_at: compaction.map(|compaction| compaction.started_at),
            usage: metadata.usage,
            kept_messages: recent_messages,
            ..ContextCompactedData::new(self.thread.context().len(), head + verbatim)
        };
        self.record_step(exec_id, data);
    }
}
