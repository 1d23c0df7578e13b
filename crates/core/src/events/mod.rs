//! The events of a session's journal.
//!
//! An event is self-contained: it contains the IDs of its turn and step, and the end of a turn contains the turn's metrics. No event contains the
//! history, so a journal grows linearly with the conversation.

mod data;
mod decode;
mod kinds;
mod usage;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::typed_id::{EventId, ExecId, MessageId, SessionId, TurnId};

pub use data::*;
pub use kinds::*;
pub use usage::TokenUsage;

/// The turn and step that an event belongs to.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventContext {
    pub turn_id: Option<TurnId>,
    /// The input that started the turn.
    pub input_message_id: Option<MessageId>,
    pub exec_id: Option<ExecId>,
    /// The trace, for telemetry.
    pub trace_id: Option<String>,
    /// The span, for telemetry.
    pub span_id: Option<String>,
    /// The span around it.
    pub parent_span_id: Option<String>,
}

impl EventContext {
    /// Makes the context of a turn.
    #[must_use]
    pub fn of_turn(turn_id: TurnId) -> Self {
        Self {
            turn_id: Some(turn_id),
            ..Self::default()
        }
    }

    /// Makes the context of a step.
    #[must_use]
    pub fn of_step(turn_id: TurnId, exec_id: ExecId) -> Self {
        Self {
            exec_id: Some(exec_id),
            ..Self::of_turn(turn_id)
        }
    }
}

/// One record of a session's journal.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Identifies the event.
    pub id: EventId,
    /// The name of its type, such as `turn.started`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened.
    #[serde(serialize_with = "crate::moment::serialize")]
    pub ts: DateTime<Utc>,
    pub session_id: SessionId,
    /// The turn and step.
    pub context: EventContext,
    pub data: EventData,
    pub metadata: Option<Value>,
    pub tags: Option<Vec<String>>,
    /// The number in its session, from 1 without a gap.
    pub sequence: Option<u64>,
}

impl Event {
    /// Returns the number in the session, 0 for an event that is in no journal.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.sequence.unwrap_or_default()
    }
}

/// An event that has no identity yet.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRequest {
    /// The name of its type.
    pub event_type: String,
    /// When it happened.
    pub ts: DateTime<Utc>,
    pub session_id: SessionId,
    /// The turn and step.
    pub context: EventContext,
    pub data: EventData,
    pub metadata: Option<Value>,
    pub tags: Option<Vec<String>>,
}

impl EventRequest {
    /// Makes a request for an event that happens now.
    pub fn new(session_id: SessionId, context: EventContext, data: impl Into<EventData>) -> Self {
        let data = data.into();
        Self {
            event_type: data.event_type().to_owned(),
            ts: Utc::now(),
            session_id,
            context,
            data,
            metadata: None,
            tags: None,
        }
    }

    /// Creates the event with its ID and sequence number.
    #[must_use]
    pub fn into_event(self, id: EventId, sequence: Option<u64>) -> Event {
        Event {
            id,
            event_type: self.event_type,
            ts: self.ts,
            session_id: self.session_id,
            context: self.context,
            data: self.data,
            metadata: self.metadata,
            tags: self.tags,
            sequence,
        }
    }
}
