//! Everything that a thread can meet.

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

/// What every decision gets from outside: time, chance, and the configuration of the turn at hand.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The time.
    pub now: DateTime<Utc>,
    /// A uuid that was never used before; all ids of the decision are derived from it.
    pub uuid: Uuid,
    /// The plan of the running turn, or of the turn that the input starts.
    pub plan: &'a TurnPlan,
    /// Text of the running model call, or backend, that is not in the journal yet.
    pub tail: Option<&'a Tail>,
    /// Removes secrets from everything that is recorded; `None` if none is known.
    pub mask: Option<&'a dyn RecordMask>,
}

/// Removes secrets from events. The machine applies it to each event before the event has any effect, so that neither the
/// record nor the state contains one.
pub trait RecordMask: std::fmt::Debug {
    /// Masks an event. Applied twice, it changes nothing more.
    fn mask(&self, data: &mut EventData);
}

/// Streamed text between the journal and the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// Text of the answer.
    pub text: String,
    /// Text of the thinking.
    pub thinking: String,
}

impl Tail {
    /// Tells whether there is nothing.
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

/// What to do with an input while a turn is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnBusy {
    /// It waits for its own turn.
    #[default]
    Queue,
    /// The running turn reads it at its next model call.
    Steer,
    /// The running turn is stopped, and the input starts the next one.
    Interrupt,
    /// The caller is told.
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

/// A call that the model asks for, after a first look at it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    /// The call.
    pub call: ToolCall,
    /// Why it cannot be carried out: unknown tool, wrong arguments. The model reads it.
    pub refusal: Option<String>,
}

/// What a model call came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The whole text.
    pub text: String,
    /// The whole thinking.
    pub thinking: Option<String>,
    /// The provider's proof of the thinking.
    pub thinking_signature: Option<String>,
    /// The provider's own record of its reasoning, to send back unchanged.
    pub reasoning_items: Vec<serde_json::Value>,
    /// The calls.
    pub calls: Vec<RequestedCall>,
    /// Where in its work the model said it.
    pub phase: Option<ExecutionPhase>,
    /// How the call went.
    pub metadata: LlmGenerationMetadata,
    /// What was sent, where that is not the thread's own history.
    pub prompt: Option<PromptRef>,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// A stable code.
    pub code: String,
    /// The cause, once.
    pub message: String,
    /// What a person reads in the agent's place.
    pub user_message: String,
    /// Details by name.
    pub fields: Option<ErrorFields>,
}

/// What a call waits for after it ran.
#[derive(Debug, Clone, PartialEq)]
pub enum Wait {
    /// An account that the user must connect.
    Connection {
        /// Which one.
        provider: String,
    },
    /// An answer of the user.
    UserInput {
        /// The question.
        prompt: Value,
    },
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    /// How it ended.
    pub status: ToolStatus,
    /// Its result.
    pub result: ToolResult,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What it still waits for; then `status` and `result` do not count.
    pub wait: Option<Wait>,
    /// Whether the runtime refused it, so that the tool did not run.
    pub refused: bool,
}

/// Everything that a thread can meet.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Somebody says something.
    Submit {
        /// What.
        message: InputMessage,
        /// What to do while a turn is running.
        on_busy: OnBusy,
        /// How long the turn may take, where not as planned.
        timeout: Option<Duration>,
        /// The id of the turn that it makes, which no turn may have had before; a new one where none is given.
        turn_id: Option<TurnId>,
    },
    /// A client changes an input that is queued.
    EditQueued {
        /// The turn that the input will start.
        turn_id: TurnId,
        /// The change.
        edit: QueueEdit,
    },
    /// A client removes an input that is queued. Unlike [`Input::Interrupt`] it never stops a turn that has begun.
    RemoveQueued {
        /// The turn that the input would start.
        turn_id: TurnId,
        /// Why.
        reason: Option<String>,
    },
    /// The plan of the first queued input is ready, or cannot be made.
    Begin {
        /// The turn it was made for. It no longer counts when another is first by now.
        turn_id: TurnId,
        /// Why not.
        failure: Option<Failure>,
    },
    /// Somebody says something to the running turn.
    Steer {
        /// Which one; `None` is whichever runs.
        turn_id: Option<TurnId>,
        /// What.
        message: InputMessage,
    },
    /// Somebody wants the model to read a summary in the place of what was said so far.
    Compact {
        /// Why, and with which model. It is not part of the conversation.
        message: InputMessage,
        /// The id of the turn that it makes, which no turn may have had before; a new one where none is given.
        turn_id: Option<TurnId>,
    },
    /// Somebody wants a turn to stop.
    Interrupt {
        /// Which one; `None` is the running one.
        turn_id: Option<TurnId>,
        /// Why.
        reason: Option<String>,
    },
    /// The model answered.
    ModelFinished {
        /// The step.
        exec_id: ExecId,
        /// The answer.
        answer: Box<Answer>,
    },
    /// The model call failed for good.
    ModelFailed {
        /// The step.
        exec_id: ExecId,
        /// Why.
        failure: Failure,
        /// How the call went.
        metadata: Box<LlmGenerationMetadata>,
    },
    /// A tool is done.
    ToolFinished {
        /// The step.
        exec_id: ExecId,
        /// What it came to.
        outcome: Box<ToolOutcome>,
    },
    /// The session that a backend is to begin has an id.
    BackendSession {
        /// The step.
        exec_id: ExecId,
        /// The id.
        session_id: String,
    },
    /// A backend tells something. Text that is streamed comes as the moment's [`Tail`] instead.
    BackendSaid {
        /// The step.
        exec_id: ExecId,
        /// What.
        event: Box<BackendEvent>,
    },
    /// What a backend says from here on is another message.
    BackendPause {
        /// The step.
        exec_id: ExecId,
    },
    /// A running backend has taken what was said to the turn.
    BackendSteered {
        /// The step.
        exec_id: ExecId,
        /// The message.
        message_id: MessageId,
    },
    /// A run of a backend has ended.
    BackendEnded {
        /// The step.
        exec_id: ExecId,
        /// How.
        outcome: Box<BackendOutcome>,
    },
    /// Somebody outside answers calls: all of them or none are taken.
    ToolResults {
        /// The answers; `tool_call_id` names the call by the provider's id or the step's.
        results: Vec<ToolResult>,
    },
    /// Somebody decides about a call.
    Approval {
        /// The call, by the provider's id or the step's.
        call: String,
        /// The decision.
        decision: Decision,
        /// Why.
        reason: Option<String>,
        /// What else it allows.
        remember: Remember,
    },
    /// Somebody answers a question.
    UserAnswer {
        /// The question's id.
        request: String,
        /// The answer.
        answer: Value,
    },
    /// A running call reports progress, output or something of its own.
    Emit {
        /// The step.
        exec_id: ExecId,
        /// What.
        data: EventData,
    },
    /// The host says what it keeps of the session, in or outside of turns.
    Note {
        /// `session.started`, `session.updated` or `session.forked`.
        data: EventData,
    },
    /// A deadline may have passed.
    Timer,
    /// The process is new; what was running is gone.
    Recover,
    /// The process stops in order, and leaves the turn to the next one.
    Release,
    /// Somebody wants the conversation to end after an earlier turn again.
    Rewind {
        /// The turn that is to be the last.
        turn_id: TurnId,
    },
    /// The host adds a message to the conversation, outside of turns.
    Import {
        /// The message.
        message: Message,
    },
}

/// What else somebody allows who allows a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remember {
    /// Nothing.
    #[default]
    Nothing,
    /// All calls that come later in the turn.
    Turn,
    /// The same call with the same arguments, in the turn and in all that come later in its project. Whoever makes the plans of turns keeps it for those.
    CallInProject,
}
