//! The inputs of a thread.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;
use windlass_core::backend::{BackendEvent, BackendOutcome};
use windlass_core::events::{
    Decision, ErrorFields, EventData, LlmGenerationMetadata, PromptRef, ToolStatus,
};
use windlass_core::message::{ContentPart, ExecutionPhase, InputMessage, Message};
use windlass_core::tools::{ToolCall, ToolResult};
use windlass_core::typed_id::{ExecId, MessageId, TurnId};

use crate::plan::TurnPlan;

/// The external input of every decision: the time, randomness and the configuration of the current turn.
#[derive(Debug, Clone, Copy)]
pub struct DecisionContext<'a> {
    pub now: DateTime<Utc>,
    /// An unused UUID; all IDs of the decision are derived from it.
    pub uuid: Uuid,
    /// The plan of the running turn, or of the turn that the input starts.
    pub plan: &'a TurnPlan,
    /// Text of the running model call, or backend, that is not in the journal yet.
    pub tail: Option<&'a UnflushedText>,
    /// Removes secrets from everything that is recorded; `None` if none is known.
    pub mask: Option<&'a dyn RecordMask>,
}

/// Removes secrets from events. The machine applies it to each event before the event has any effect, so that neither the
/// record nor the state contains one.
pub trait RecordMask: std::fmt::Debug {
    /// Masks an event. Applied twice, it changes nothing more.
    fn mask(&self, data: &mut EventData);
}

/// Streamed text that is not in the journal yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnflushedText {
    /// Text of the answer.
    pub text: String,
    /// Text of the thinking.
    pub thinking: String,
}

impl UnflushedText {
    /// Returns whether both texts are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.text.len() + self.thinking.len()
    }
}

/// The treatment of an input while a turn is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnBusy {
    /// It waits for its own turn.
    #[default]
    Queue,
    /// The running turn reads it at its next model call.
    Steer,
    /// The running turn is stopped, and the input starts the next one.
    Interrupt,
    /// The caller gets an error.
    Refuse,
}

/// A change of a queued input. Without any field it changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueEdit {
    /// The new content.
    pub content: Option<Vec<ContentPart>>,
    /// The new index in the queue, from 0. An index past the end is the last one.
    pub position: Option<usize>,
}

/// A call that the model requests, after validation.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    pub call: ToolCall,
    /// Why it cannot be executed: unknown tool, wrong arguments. The model reads it.
    pub refusal: Option<String>,
}

/// The result of a model call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The complete text.
    pub text: String,
    /// The complete thinking.
    pub thinking: Option<String>,
    /// The provider's proof of the thinking.
    pub thinking_signature: Option<String>,
    /// The provider's own record of its reasoning, to send back unchanged.
    pub reasoning_items: Vec<serde_json::Value>,
    /// Calls in the order of the answer.
    pub calls: Vec<RequestedCall>,
    /// Why an answer without calls does not match the schema of the turn; empty if it does, or if there is none.
    pub mismatch: Vec<String>,
    /// The phase in which the model wrote the answer.
    pub phase: Option<ExecutionPhase>,
    /// How the call went.
    pub metadata: LlmGenerationMetadata,
    /// The messages sent, if they differ from the thread's own history.
    pub prompt: Option<PromptRef>,
}

/// The failure of a turn or of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureDetails {
    /// A stable code.
    pub code: String,
    /// The cause, for logs and for the operator.
    pub message: String,
    /// The text that users see instead of an answer.
    pub user_message: String,
    /// Details by name.
    pub fields: Option<ErrorFields>,
}

impl FailureDetails {
    /// Creates a failure without details.
    pub fn new(code: &str, message: impl Into<String>, user_message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            user_message: user_message.into(),
            fields: None,
        }
    }
}

/// The wait that a call requires after it ran.
#[derive(Debug, Clone, PartialEq)]
pub enum RequiredWait {
    /// An account that the user must connect.
    Connection {
        /// Registered name of the provider.
        provider: String,
    },
    /// An answer of the user.
    UserInput {
        /// The question as the client sees it.
        prompt: Value,
    },
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// How it ended.
    pub status: ToolStatus,
    pub result: ToolResult,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// The remaining wait; if set, `status` and `result` are ignored.
    pub wait: Option<RequiredWait>,
    /// Whether the runtime refused it, so that the tool did not run.
    pub refused: bool,
}

impl ToolOutcome {
    /// Creates the outcome of a call that ended without a wait.
    #[must_use]
    pub fn new(status: ToolStatus, result: ToolResult) -> Self {
        Self {
            status,
            result,
            duration_ms: None,
            wait: None,
            refused: false,
        }
    }
}

/// An input of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A new input.
    Submit {
        message: InputMessage,
        on_busy: OnBusy,
        /// Timeout of the turn, if it differs from the plan.
        timeout: Option<Duration>,
        /// The ID of the new turn, which must be unused; generated if absent.
        turn_id: Option<TurnId>,
    },
    /// A client changes an input that is queued.
    EditQueued {
        /// The turn that the input will start.
        turn_id: TurnId,
        edit: QueueEdit,
    },
    /// A client removes an input that is queued. Unlike [`Input::Interrupt`] it never stops a turn that has begun.
    RemoveQueued {
        /// The turn that the input would start.
        turn_id: TurnId,
        /// Reason for the record.
        reason: Option<String>,
    },
    /// The plan of the first queued input is ready, or failed.
    Begin {
        /// The turn that the plan was made for. Ignored if another turn is first by now.
        turn_id: TurnId,
        /// Set if the turn cannot start.
        failure: Option<FailureDetails>,
    },
    /// Text for the running turn.
    Steer {
        /// The turn; `None` is the running one.
        turn_id: Option<TurnId>,
        message: InputMessage,
    },
    /// A request to compact the history.
    Compact {
        /// Why, and with which model. It is not part of the conversation.
        message: InputMessage,
        /// The ID of the new turn, which must be unused; generated if absent.
        turn_id: Option<TurnId>,
    },
    /// A request to stop a turn.
    Interrupt {
        /// The turn; `None` is the running one.
        turn_id: Option<TurnId>,
        /// Reason for the record.
        reason: Option<String>,
    },
    /// The model answered.
    ModelFinished {
        exec_id: ExecId,
        answer: Box<Answer>,
    },
    /// The model call failed permanently.
    ModelFailed {
        exec_id: ExecId,
        failure: FailureDetails,
        /// How the call went.
        metadata: Box<LlmGenerationMetadata>,
    },
    /// A tool call ended.
    ToolFinished {
        exec_id: ExecId,
        outcome: Box<ToolOutcome>,
    },
    /// The session that an external agent is about to start has an ID.
    BackendSession {
        exec_id: ExecId,
        /// The agent's own session ID.
        session_id: String,
    },
    /// An external agent reported an event. Streamed text arrives as the context's [`UnflushedText`] instead.
    BackendReported {
        exec_id: ExecId,
        event: Box<BackendEvent>,
    },
    /// Further text of an external agent belongs to a new message.
    BackendPause { exec_id: ExecId },
    /// A running external agent accepted a message.
    BackendSteered {
        exec_id: ExecId,
        message_id: MessageId,
    },
    /// A run of a backend has ended.
    BackendEnded {
        exec_id: ExecId,
        outcome: Box<BackendOutcome>,
    },
    /// Results of client-executed calls: all are accepted or none.
    ToolResults {
        /// The answers; `tool_call_id` names the call by the provider's id or the step's.
        results: Vec<ToolResult>,
    },
    /// A decision about a call.
    Approval {
        /// The call, by the provider's id or the step's.
        call: String,
        approval: Approval,
    },
    /// An answer to a question of the agent.
    UserAnswer {
        /// The question's id.
        request: String,
        answer: Value,
    },
    /// A running call reports progress, output or a custom event.
    Emit { exec_id: ExecId, data: EventData },
    /// A record of the host about the session, in or outside of turns.
    Note {
        /// `session.started`, `session.updated` or `session.forked`.
        data: EventData,
    },
    /// A deadline may have passed.
    Timer,
    /// A new process resumes the thread; running work was lost.
    Recover,
    /// The process stops in order, and leaves the turn to the next one.
    Release,
    /// A request to drop the turns after an earlier one.
    Rewind {
        /// The turn that becomes the last one.
        turn_id: TurnId,
    },
    /// The host adds a message to the conversation, outside of turns.
    Import { message: Message },
}

/// A decision about a call that waits for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This call may run.
    Once,
    /// This call and all later calls of its turn may run.
    Turn,
    /// This call may run, and the same call with the same arguments in this turn and in later turns of its project. The host that plans
    /// turns stores the approval for them.
    Project,
    /// The call must not run. The model reads the reason.
    Deny { reason: Option<String> },
}

impl Approval {
    /// The decision as it is recorded.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Once | Self::Turn | Self::Project => Decision::Allow,
            Self::Deny { .. } => Decision::Deny,
        }
    }
}
