//! The types of events: name, constant and payload.

use std::fmt::Display;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::data::*;

/// Why an event cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum EventDecodeError {
    /// The type is unknown to this version.
    #[error("unknown event type `{0}`; it was written by a newer version")]
    UnknownType(String),
    /// The payload does not match the type.
    #[error("{}", unreadable(event_type, source))]
    Payload {
        event_type: String,
        source: serde_json::Error,
    },
}

fn unreadable(event_type: &str, source: &dyn Display) -> String {
    format!("the payload of a `{event_type}` event cannot be read: {source}")
}

macro_rules! payload_type {
    ($data:ident) => { $data };
    ($data:ident $container:ident) => { $container<$data> };
}

macro_rules! events {
    ($($variant:ident($data:ident $(in $container:ident)?) $constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("The type `", $name, "`.")] pub const $constant: &str = $name;)*

        /// All types of events.
        pub const EVENT_TYPES: &[&str] = &[$($name),*];

        /// The payload of an event, serialized without a tag; the event's `type` selects the variant.
        ///
        /// Large payloads are boxed, so that the many small events use little memory.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum EventData {
            $(#[doc = concat!("`", $name, "`")] $variant(payload_type!($data $($container)?)),)*
        }

        impl EventData {
            /// Returns the name of the type.
            #[must_use]
            pub fn event_type(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Reads a payload of a named type straight from its text.
            pub(super) fn read<'de, D: Deserializer<'de>>(event_type: &str, payload: D) -> Result<Self, D::Error> {
                let wrong = |error: D::Error| D::Error::custom(unreadable(event_type, &error));
                match event_type {
                    $($name => Deserialize::deserialize(payload).map(Self::$variant).map_err(wrong),)*
                    _ => Err(D::Error::custom(EventDecodeError::UnknownType(event_type.to_owned()))),
                }
            }

            /// Reads a payload of a named type.
            pub fn from_type(event_type: &str, payload: Value) -> Result<Self, EventDecodeError> {
                let wrong = |source| EventDecodeError::Payload { event_type: event_type.to_owned(), source };
                match event_type {
                    $($name => serde_json::from_value(payload).map(Self::$variant).map_err(wrong),)*
                    _ => Err(EventDecodeError::UnknownType(event_type.to_owned())),
                }
            }
        }

        $(impl From<$data> for EventData {
            fn from(data: $data) -> Self {
                Self::$variant(data.into())
            }
        })*
    };
}

events! {
    SessionStarted(SessionStartedData) SESSION_STARTED = "session.started";
    SessionUpdated(SessionUpdatedData in Box) SESSION_UPDATED = "session.updated";
    SessionForked(SessionForkedData in Box) SESSION_FORKED = "session.forked";
    SessionRewound(SessionRewoundData) SESSION_REWOUND = "session.rewound";
    SessionActivated(SessionActivatedData) SESSION_ACTIVATED = "session.activated";
    SessionIdled(SessionIdledData) SESSION_IDLED = "session.idled";
    InputMessage(InputMessageData in Box) INPUT_MESSAGE = "input.message";
    InputQueued(InputQueuedData in Box) INPUT_QUEUED = "input.queued";
    InputEdited(InputEditedData) INPUT_EDITED = "input.edited";
    OutputMessageStarted(OutputMessageStartedData) OUTPUT_MESSAGE_STARTED = "output.message.started";
    OutputMessageDelta(OutputMessageDeltaData) OUTPUT_MESSAGE_DELTA = "output.message.delta";
    OutputMessageCompleted(OutputMessageCompletedData in Box) OUTPUT_MESSAGE_COMPLETED = "output.message.completed";
    OutputMessageReplaced(OutputMessageReplacedData in Box) OUTPUT_MESSAGE_REPLACED = "output.message.replaced";
    OutputRejected(OutputRejectedData) OUTPUT_REJECTED = "output.rejected";
    TurnStarted(TurnStartedData in Box) TURN_STARTED = "turn.started";
    TurnSteered(TurnSteeredData) TURN_STEERED = "turn.steered";
    TurnInterruptRequested(TurnInterruptRequestedData) TURN_INTERRUPT_REQUESTED = "turn.interrupt_requested";
    TurnResumed(TurnResumedData) TURN_RESUMED = "turn.resumed";
    TurnReleased(TurnReleasedData) TURN_RELEASED = "turn.released";
    TurnCompleted(TurnCompletedData in Box) TURN_COMPLETED = "turn.completed";
    TurnFailed(TurnFailedData in Box) TURN_FAILED = "turn.failed";
    TurnCancelled(TurnCancelledData in Box) TURN_CANCELLED = "turn.cancelled";
    ReasonStarted(ReasonStartedData) REASON_STARTED = "reason.started";
    ReasonCompleted(ReasonCompletedData in Box) REASON_COMPLETED = "reason.completed";
    ReasonThinkingStarted(ReasonThinkingStartedData) REASON_THINKING_STARTED = "reason.thinking.started";
    ReasonThinkingDelta(ReasonThinkingDeltaData) REASON_THINKING_DELTA = "reason.thinking.delta";
    ReasonThinkingCompleted(ReasonThinkingCompletedData) REASON_THINKING_COMPLETED = "reason.thinking.completed";
    LlmGeneration(LlmGenerationData in Box) LLM_GENERATION = "llm.generation";
    ToolsDiscovered(ToolsDiscoveredData in Box) TOOLS_DISCOVERED = "tools.discovered";
    ActStarted(ActStartedData) ACT_STARTED = "act.started";
    ActCompleted(ActCompletedData) ACT_COMPLETED = "act.completed";
    ToolStarted(ToolStartedData in Box) TOOL_STARTED = "tool.started";
    ToolCompleted(ToolCompletedData in Box) TOOL_COMPLETED = "tool.completed";
    ToolProgress(ToolProgressData) TOOL_PROGRESS = "tool.progress";
    ToolOutputDelta(ToolOutputDeltaData in Box) TOOL_OUTPUT_DELTA = "tool.output.delta";
    ToolCallRequested(ToolCallRequestedData in Box) TOOL_CALL_REQUESTED = "tool.call_requested";
    ToolCallResolved(ToolCallResolvedData) TOOL_CALL_RESOLVED = "tool.call_resolved";
    ToolCallTimeout(ToolCallTimeoutData) TOOL_CALL_TIMEOUT = "tool.call_timeout";
    ToolCallCanceled(ToolCallCanceledData) TOOL_CALL_CANCELED = "tool.call_canceled";
    ApprovalRequired(ApprovalRequiredData in Box) APPROVAL_REQUIRED = "approval.required";
    ApprovalDecided(ApprovalDecidedData) APPROVAL_DECIDED = "approval.decided";
    ApprovalTimeout(ApprovalTimeoutData) APPROVAL_TIMEOUT = "approval.timeout";
    UserInputRequired(UserInputRequiredData) USER_INPUT_REQUIRED = "user_input.required";
    UserInputAnswered(UserInputAnsweredData) USER_INPUT_ANSWERED = "user_input.answered";
    UserInputCanceled(UserInputCanceledData) USER_INPUT_CANCELED = "user_input.canceled";
    TranscriptRepaired(TranscriptRepairedData) TRANSCRIPT_REPAIRED = "transcript.repaired";
    CapabilityUsage(CapabilityUsageData) CAPABILITY_USAGE = "capability.usage";
    SubagentStarted(SubagentStartedData) SUBAGENT_STARTED = "subagent.started";
    SubagentCompleted(SubagentCompletedData) SUBAGENT_COMPLETED = "subagent.completed";
    TaskCreated(TaskCreatedData) TASK_CREATED = "task.created";
    TaskUpdated(TaskUpdatedData) TASK_UPDATED = "task.updated";
    ContextCompacting(ContextCompactingData) CONTEXT_COMPACTING = "context.compacting";
    ContextCompacted(ContextCompactedData in Box) CONTEXT_COMPACTED = "context.compacted";
    BackendStarted(BackendStartedData in Box) BACKEND_STARTED = "backend.started";
    BackendSessionChosen(BackendSessionChosenData) BACKEND_SESSION_CHOSEN = "backend.session_chosen";
    BackendEstablished(BackendEstablishedData) BACKEND_ESTABLISHED = "backend.established";
    BackendSteered(BackendSteeredData) BACKEND_STEERED = "backend.steered";
    BackendNotice(BackendNoticeData) BACKEND_NOTICE = "backend.notice";
    BackendUsage(BackendUsageData) BACKEND_USAGE = "backend.usage";
    BackendCompleted(BackendCompletedData in Box) BACKEND_COMPLETED = "backend.completed";
    BackendWaiting(BackendWaitingData) BACKEND_WAITING = "backend.waiting";
    FileWritten(FileWrittenData) FILE_WRITTEN = "file.written";
    ScheduleTriggered(ScheduleTriggeredData) SCHEDULE_TRIGGERED = "schedule.triggered";
    JournalPruned(JournalPrunedData) JOURNAL_PRUNED = "journal.pruned";
    Custom(CustomData) CUSTOM = "custom";
}

impl ApprovalRequiredData {
    /// Returns the ID of the call, as in the following events.
    #[must_use]
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call.id
    }
}

impl ApprovalDecidedData {
    /// Returns the ID of the decided call.
    #[must_use]
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }
}

impl ApprovalTimeoutData {
    /// Returns the ID of the call whose approval timed out.
    #[must_use]
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call_id
    }
}

impl EventData {
    /// Returns whether the event is only a delta of text that a later event contains in full.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        matches!(
            self,
            Self::OutputMessageDelta(_) | Self::ReasonThinkingDelta(_) | Self::ToolOutputDelta(_)
        )
    }

    /// Returns whether the event concerns the session itself and belongs to no turn.
    #[must_use]
    pub fn is_about_session(&self) -> bool {
        matches!(
            self,
            Self::SessionStarted(_) | Self::SessionUpdated(_) | Self::SessionForked(_)
        )
    }

    /// Tells whether the event ends a turn.
    #[must_use]
    pub fn ends_turn(&self) -> bool {
        matches!(
            self,
            Self::TurnCompleted(_) | Self::TurnFailed(_) | Self::TurnCancelled(_)
        )
    }
}

impl super::Event {
    /// Returns whether the event is only a delta of text that a later event contains in full.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.data.is_ephemeral()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn approval_events_have_the_same_call_id() {
        let call = json!({"id": "c1", "name": "pay", "arguments": {}});
        let required = json!({"tool_call": call, "digest": "d"});
        let required: ApprovalRequiredData = serde_json::from_value(required).unwrap();
        let decided = json!({"tool_call_id": "c1", "decision": "allow"});
        let decided: ApprovalDecidedData = serde_json::from_value(decided).unwrap();
        let late = json!({"tool_call_id": "c1"});
        let late: ApprovalTimeoutData = serde_json::from_value(late).unwrap();
        let named = [
            required.tool_call_id(),
            decided.tool_call_id(),
            late.tool_call_id(),
        ];
        assert_eq!(named, ["c1"; 3]);
    }
}
