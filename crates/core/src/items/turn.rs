//! The user's view of a turn.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use super::change::WaitKind;
use super::step::item_of_message;
use crate::events::{
    ApprovalDecidedData, Decision, ErrorFields, Event, EventData, TokenUsage, TurnOutline,
    TurnStartedData,
};
use crate::typed_id::{MessageId, SessionId, TurnId};

/// The progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It is running or parked.
    InProgress,
    Completed,
    Failed,
    /// It was stopped.
    Interrupted,
}

/// One turn, from a single event or a fold of events. Stores serialize it, so a new field needs a default.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnView {
    /// Identifies the turn.
    pub id: TurnId,
    pub session_id: SessionId,
    pub status: TurnStatus,
    /// The input that started it, if the record contains its ID.
    pub input_message_id: Option<MessageId>,
    /// The summary of its input, its model, its items, and how often it was steered and resumed.
    pub outline: TurnOutline,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Time to the first text, in milliseconds.
    pub time_to_first_token_ms: Option<u64>,
    pub usage: Option<TokenUsage>,
    /// The number of model calls started.
    pub iterations: usize,
    /// The number of model calls ended.
    pub llm_call_count: usize,
    /// The number of tool calls started.
    pub tool_call_count: usize,
    /// The newest message of the agent.
    pub final_message_id: Option<MessageId>,
    /// Why it failed or was stopped.
    pub error: Option<String>,
    /// A stable code of why it failed.
    pub error_code: Option<String>,
    /// Details of why it failed, by name.
    pub error_fields: Option<ErrorFields>,
    /// Its open waits, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitKind>,
    /// Calls that did not run because they were not approved.
    #[serde(default, skip_serializing_if = "UnapprovedCalls::is_empty")]
    pub unapproved: UnapprovedCalls,
}

/// Calls of a turn that did not run because they were not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnapprovedCalls {
    /// Those that were refused.
    pub refused: u32,
    /// Those whose approval timed out.
    pub timed_out: u32,
}

impl UnapprovedCalls {
    /// Returns whether every call that needed an approval got it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts a decision about an approval. A withdrawn request is not counted.
    pub fn count(&mut self, decided: &ApprovalDecidedData) {
        if decided.decision == Decision::Deny && decided.withdrawn != Some(true) {
            let count = match decided.timed_out {
                Some(true) => &mut self.timed_out,
                _ => &mut self.refused,
            };
            *count = count.saturating_add(1);
        }
    }
}

impl TurnView {
    /// Returns whether the turn has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.status != TurnStatus::InProgress
    }

    fn new(id: TurnId, session_id: SessionId, outline: TurnOutline) -> Self {
        Self {
            id,
            session_id,
            status: TurnStatus::InProgress,
            input_message_id: None,
            outline,
            ended_at: None,
            duration_ms: None,
            time_to_first_token_ms: None,
            usage: None,
            iterations: 0,
            llm_call_count: 0,
            tool_call_count: 0,
            final_message_id: None,
            error: None,
            error_code: None,
            error_fields: None,
            waiting_for: Vec::new(),
            unapproved: UnapprovedCalls::default(),
        }
    }

    pub(super) fn started(event: &Event, data: &TurnStartedData) -> Self {
        let mut outline = data.outline.clone().unwrap_or_default();
        outline.started_at.get_or_insert(event.ts);
        outline.created_at = outline.created_at.or(outline.started_at);
        if outline.item_ids.is_empty() && outline.compaction.is_none() {
            outline
                .item_ids
                .push(item_of_message(data.input_message_id));
        }
        Self {
            input_message_id: Some(data.input_message_id),
            ..Self::new(data.turn_id, event.session_id, outline)
        }
    }

    /// Reads the turn from the record of its end. A turn that ends before it started was never shown.
    pub(super) fn ended(event: &Event) -> Option<Self> {
        let (id, outline) = match &event.data {
            EventData::TurnCompleted(data) => (data.turn_id, &data.outline),
            EventData::TurnFailed(data) => (data.turn_id, &data.outline),
            EventData::TurnCancelled(data) => {
                if data.outline.is_none() && data.iterations.is_none() {
                    return None;
                }
                (data.turn_id, &data.outline)
            }
            _ => return None,
        };
        let mut turn = Self::new(id, event.session_id, outline.clone().unwrap_or_default());
        turn.end(event);
        Some(turn)
    }

    /// Copies the fields of the end record; missing fields leave the current values.
    pub(super) fn end(&mut self, event: &Event) {
        let outline = match &event.data {
            EventData::TurnCompleted(data) => {
                self.status = TurnStatus::Completed;
                self.iterations = data.iterations;
                set(&mut self.duration_ms, data.duration_ms);
                set(&mut self.usage, data.usage);
                set(&mut self.final_message_id, data.final_message_id);
                set(
                    &mut self.time_to_first_token_ms,
                    data.time_to_first_token_ms,
                );
                self.count(None, data.tool_call_count, data.llm_call_count);
                &data.outline
            }
            EventData::TurnFailed(data) => {
                self.status = TurnStatus::Failed;
                self.error = Some(data.error.clone());
                self.error_code.clone_from(&data.error_code);
                self.error_fields.clone_from(&data.error_fields);
                set(&mut self.duration_ms, data.duration_ms);
                set(&mut self.usage, data.usage);
                set(&mut self.final_message_id, data.final_message_id);
                self.count(data.iterations, data.tool_call_count, data.llm_call_count);
                &data.outline
            }
            EventData::TurnCancelled(data) => {
                self.status = TurnStatus::Interrupted;
                self.error.clone_from(&data.reason);
                set(&mut self.duration_ms, data.duration_ms);
                set(&mut self.usage, data.usage);
                set(&mut self.final_message_id, data.final_message_id);
                self.count(data.iterations, data.tool_call_count, data.llm_call_count);
                &data.outline
            }
            _ => return,
        };
        if let Some(outline) = outline {
            self.outline.clone_from(outline);
            self.outline.created_at = outline.created_at.or(outline.started_at);
            let recorded = std::mem::take(&mut self.outline.unapproved);
            if !recorded.is_empty() {
                self.unapproved = recorded;
            }
        }
        self.ended_at = Some(event.ts);
        self.waiting_for.clear();
    }

    /// Applies an event of this turn: updates its counters and copies the fields of its end event. Items and waits are folded elsewhere.
    pub fn follow(&mut self, event: &Event) {
        self.note(event);
        self.end(event);
    }

    fn count(&mut self, iterations: Option<usize>, tools: Option<usize>, models: Option<usize>) {
        self.iterations = iterations.unwrap_or(self.iterations);
        self.tool_call_count = tools.unwrap_or(self.tool_call_count);
        self.llm_call_count = models.unwrap_or(self.llm_call_count);
    }

    fn add_usage(&mut self, usage: Option<&TokenUsage>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().add(usage);
        }
    }

    /// Updates the counters that no item shows.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.data {
            EventData::ReasonStarted(data) => {
                self.iterations = self.iterations.max(data.iteration);
            }
            EventData::LlmGeneration(data) if data.metadata.provider.is_some() => {
                self.outline.provider.clone_from(&data.metadata.provider);
            }
            EventData::ReasonCompleted(data) => {
                self.llm_call_count += 1;
                self.add_usage(data.usage.as_ref());
            }
            EventData::ContextCompacted(data) => {
                self.llm_call_count += usize::from(data.usage.is_some());
                self.add_usage(data.usage.as_ref());
            }
            EventData::BackendStarted(data) => {
                self.iterations = self.iterations.max(data.iteration);
            }
            EventData::BackendEstablished(data) if data.model.is_some() => {
                self.outline.model.clone_from(&data.model);
            }
            EventData::BackendCompleted(data) => self.add_usage(data.usage.as_ref()),
            EventData::ToolStarted(_) => self.tool_call_count += 1,
            // A message of an external agent without text is not the final answer.
            EventData::OutputMessageCompleted(data)
                if self.outline.backend.is_none() || data.message.text().is_some() =>
            {
                self.final_message_id = Some(data.message.id);
            }
            EventData::TurnSteered(_) => {
                self.outline.steer_count = self.outline.steer_count.saturating_add(1);
            }
            EventData::ApprovalDecided(data) => self.unapproved.count(data),
            EventData::TurnResumed(data) => self.outline.resumed_count = data.attempt,
            _ => {}
        }
    }
}

fn set<T: Copy>(field: &mut Option<T>, value: Option<T>) {
    *field = value.or(*field);
}
