//! Every type of event: its name, its constant, its payload.

use std::fmt::Display;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::data::*;

/// The type of an event is not known to this version.
#[derive(Debug, thiserror::Error)]
pub enum EventDecodeError {
    /// No such type.
    #[error("unknown event type `{0}`; it was written by a newer version")]
    UnknownType(String),
    /// The payload does not fit the type.
    #[error("{}", unreadable(event_type, source))]
    Payload {
        event_type: String,
        source: serde_json::Error,
    },
}

fn unreadable(event_type: &str, source: &dyn Display) -> String {
    format!("the payload of a `{event_type}` event cannot be read: {source}")
}

macro_rules! events {
    ($($variant:ident($data:ty) $constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("The type `", $name, "`.")] pub const $constant: &str = $name;)*

        /// All types of events.
        pub const EVENT_TYPES: &[&str] = &[$($name),*];

        /// The payload of an event, serialized without a tag; the event's `type` selects the variant.
        ///
        /// Large payloads are boxed, so that the many small events use little memory.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum EventData {
            $(#[doc = concat!("`", $name, "`")] $variant($data),)*
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
                    $($name => <$data>::deserialize(payload).map(Self::$variant).map_err(wrong),)*
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
                Self::$variant(data)
            }
        })*
    };
}

events! {
    SessionStarted(SessionStartedData) SESSION_STARTED = "session.started";
    SessionUpdated(Box<SessionUpdatedData>) SESSION_UPDATED = "session.updated";
    SessionForked(Box<SessionForkedData>) SESSION_FORKED = "session.forked";
    SessionRewound(SessionRewoundData) SESSION_REWOUND = "session.rewound";
    SessionActivated(SessionActivatedData) SESSION_ACTIVATED = "session.activated";
    SessionIdled(SessionIdledData) SESSION_IDLED = "session.idled";
    InputMessage(Box<InputMessageData>) INPUT_MESSAGE = "input.message";
    InputQueued(Box<InputQueuedData>) INPUT_QUEUED = "input.queued";
    InputEdited(InputEditedData) INPUT_EDITED = "input.edited";
    OutputMessageStarted(OutputMessageStartedData) OUTPUT_MESSAGE_STARTED = "output.message.started";
    OutputMessageDelta(OutputMessageDeltaData) OUTPUT_MESSAGE_DELTA = "output.message.delta";
    OutputMessageCompleted(Box<OutputMessageCompletedData>) OUTPUT_MESSAGE_COMPLETED = "output.message.completed";
    OutputMessageReplaced(Box<OutputMessageReplacedData>) OUTPUT_MESSAGE_REPLACED = "output.message.replaced";
    OutputRejected(OutputRejectedData) OUTPUT_REJECTED = "output.rejected";
    TurnStarted(Box<TurnStartedData>) TURN_STARTED = "turn.started";
    TurnSteered(TurnSteeredData) TURN_STEERED = "turn.steered";
    TurnInterruptRequested(TurnInterruptRequestedData) TURN_INTERRUPT_REQUESTED = "turn.interrupt_requested";
    TurnResumed(TurnResumedData) TURN_RESUMED = "turn.resumed";
    TurnReleased(TurnReleasedData) TURN_RELEASED = "turn.released";
    TurnCompleted(Box<TurnCompletedData>) TURN_COMPLETED = "turn.completed";
    TurnFailed(Box<TurnFailedData>) TURN_FAILED = "turn.failed";
    TurnCancelled(Box<TurnCancelledData>) TURN_CANCELLED = "turn.cancelled";
    ReasonStarted(ReasonStartedData) REASON_STARTED = "reason.started";
    ReasonCompleted(Box<ReasonCompletedData>) REASON_COMPLETED = "reason.completed";
    ReasonThinkingStarted(ReasonThinkingStartedData) REASON_THINKING_STARTED = "reason.thinking.started";
    ReasonThinkingDelta(ReasonThinkingDeltaData) REASON_THINKING_DELTA = "reason.thinking.delta";
    ReasonThinkingCompleted(ReasonThinkingCompletedData) REASON_THINKING_COMPLETED = "reason.thinking.completed";
    LlmGeneration(Box<LlmGenerationData>) LLM_GENERATION = "llm.generation";
    ToolsDiscovered(Box<ToolsDiscoveredData>) TOOLS_DISCOVERED = "tools.discovered";
    ActStarted(ActStartedData) ACT_STARTED = "act.started";
    ActCompleted(ActCompletedData) ACT_COMPLETED = "act.completed";
    ToolStarted(Box<ToolStartedData>) TOOL_STARTED = "tool.started";
    ToolCompleted(Box<ToolCompletedData>) TOOL_COMPLETED = "tool.completed";
    ToolProgress(ToolProgressData) TOOL_PROGRESS = "tool.progress";
    ToolOutputDelta(Box<ToolOutputDeltaData>) TOOL_OUTPUT_DELTA = "tool.output.delta";
    ToolCallRequested(Box<ToolCallRequestedData>) TOOL_CALL_REQUESTED = "tool.call_requested";
    ToolCallResolved(ToolCallResolvedData) TOOL_CALL_RESOLVED = "tool.call_resolved";
    ToolCallTimeout(ToolCallTimeoutData) TOOL_CALL_TIMEOUT = "tool.call_timeout";
    ToolCallCanceled(ToolCallCanceledData) TOOL_CALL_CANCELED = "tool.call_canceled";
    ApprovalRequired(Box<ApprovalRequiredData>) APPROVAL_REQUIRED = "approval.required";
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
    ContextCompacted(Box<ContextCompactedData>) CONTEXT_COMPACTED = "context.compacted";
    BackendStarted(Box<BackendStartedData>) BACKEND_STARTED = "backend.started";
    BackendSessionChosen(BackendSessionChosenData) BACKEND_SESSION_CHOSEN = "backend.session_chosen";
    BackendEstablished(BackendEstablishedData) BACKEND_ESTABLISHED = "backend.established";
    BackendSteered(BackendSteeredData) BACKEND_STEERED = "backend.steered";
    BackendNotice(BackendNoticeData) BACKEND_NOTICE = "backend.notice";
    BackendUsage(BackendUsageData) BACKEND_USAGE = "backend.usage";
    BackendCompleted(Box<BackendCompletedData>) BACKEND_COMPLETED = "backend.completed";
    BackendWaiting(BackendWaitingData) BACKEND_WAITING = "backend.waiting";
    FileWritten(FileWrittenData) FILE_WRITTEN = "file.written";
    ScheduleTriggered(ScheduleTriggeredData) SCHEDULE_TRIGGERED = "schedule.triggered";
    JournalPruned(JournalPrunedData) JOURNAL_PRUNED = "journal.pruned";
    Custom(CustomData) CUSTOM = "custom";
}

macro_rules! boxed {
    ($($variant:ident($data:ident))*) => {
        $(impl From<$data> for EventData {
            fn from(data: $data) -> Self {
                Self::$variant(Box::new(data))
            }
        })*
    };
}

boxed! {
    InputMessage(InputMessageData)
    InputQueued(InputQueuedData)
    OutputMessageCompleted(OutputMessageCompletedData)
    OutputMessageReplaced(OutputMessageReplacedData)
    TurnStarted(TurnStartedData)
    TurnCompleted(TurnCompletedData)
    TurnFailed(TurnFailedData)
    TurnCancelled(TurnCancelledData)
    LlmGeneration(LlmGenerationData)
    ReasonCompleted(ReasonCompletedData)
    ToolsDiscovered(ToolsDiscoveredData)
    ToolStarted(ToolStartedData)
    ToolCompleted(ToolCompletedData)
    ApprovalRequired(ApprovalRequiredData)
    ContextCompacted(ContextCompactedData)
    ToolCallRequested(ToolCallRequestedData)
    ToolOutputDelta(ToolOutputDeltaData)
    SessionUpdated(SessionUpdatedData)
    SessionForked(SessionForkedData)
    BackendStarted(BackendStartedData)
    BackendCompleted(BackendCompletedData)
}

impl ApprovalRequiredData {
    /// Returns the id of the call, as the events after it name it.
    #[must_use]
    pub fn tool_call_id(&self) -> &str {
        &self.tool_call.id
    }
}

impl ApprovalDecidedData {
    /// Returns the id of the call that was decided about.
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

    /// Tells whether the event is about the session itself, and so of no turn.
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
    fn the_events_of_an_approval_name_their_call_in_the_same_way() {
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
