//! What a decision consists of, and why there may be none.

use std::sync::Arc;

use windlass_core::backend::{Attempts, SessionChoice};
use windlass_core::error::{QuotaExceeded, WaitingFor};
use windlass_core::events::{BackendPrompt, Decision as Verdict, Event};
use windlass_core::tools::ToolCall;
use windlass_core::turn_request::UnusableRequest;
use windlass_core::typed_id::{ExecId, MessageId, TurnId};

use crate::fits::Misfit;
use crate::state::Thread;

/// Something to do, as data.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Call the model with the thread's history.
    CallModel {
        /// The step.
        exec_id: ExecId,
        /// Which model call of the turn it is, from 1.
        iteration: usize,
    },
    /// Let the model summarise what it reads of the conversation; it answers as any model call.
    Summarise {
        /// The step.
        exec_id: ExecId,
    },
    /// Run a tool.
    RunTool {
        /// The step.
        exec_id: ExecId,
        /// The call.
        call: Arc<ToolCall>,
    },
    /// Let a backend carry the turn. After a crash it takes up the session of the run before.
    RunBackend {
        /// The step.
        exec_id: ExecId,
        /// Its name.
        backend: Arc<str>,
        /// The session to begin or to take up. One that is to begin and has no id yet gets it by
        /// [`crate::Input::BackendSession`], before the process starts.
        session: SessionChoice,
        /// What it is told; [`crate::Thread::backend_prompt`] has the words.
        prompt: BackendPrompt,
        /// What was tried before in this turn.
        attempts: Attempts,
    },
    /// Answer a permission that a running backend asks for.
    AnswerBackend {
        /// The step.
        exec_id: ExecId,
        /// The request.
        request_id: String,
        /// The answer.
        decision: Verdict,
        /// Why.
        reason: Option<String>,
    },
    /// Tell a running backend what was said to the turn; [`crate::Input::BackendSteered`] says that it has it.
    SteerBackend {
        /// The step.
        exec_id: ExecId,
        /// The message.
        message_id: MessageId,
        /// Its words.
        text: String,
    },
    /// Make the plan of the first queued input, then say [`crate::Input::Begin`].
    Prepare {
        /// The turn that the input will start.
        turn_id: TurnId,
    },
    /// Stop a step; its result no longer counts.
    Stop {
        /// The step.
        exec_id: ExecId,
    },
}

impl Command {
    /// Returns the step that the command is about.
    #[must_use]
    pub fn exec_id(&self) -> Option<ExecId> {
        match self {
            Self::CallModel { exec_id, .. }
            | Self::Summarise { exec_id }
            | Self::RunTool { exec_id, .. }
            | Self::RunBackend { exec_id, .. }
            | Self::AnswerBackend { exec_id, .. }
            | Self::SteerBackend { exec_id, .. }
            | Self::Stop { exec_id } => Some(*exec_id),
            Self::Prepare { .. } => None,
        }
    }
}

/// What follows from an input: record the events in one commit, then commit the decision, then act.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What to record, in order. May be empty: the input changes nothing.
    pub events: Vec<Arc<Event>>,
    /// What to do once the events are durable.
    pub commands: Vec<Command>,
    /// The turn that carries the input.
    pub turn_id: Option<TurnId>,
    /// The message that the input became.
    pub message_id: Option<MessageId>,
    /// The state after the events. Equal to folding them, which the tests check; kept so that live threads do
    /// not fold twice.
    pub(crate) after: Box<Thread>,
}

/// Why an input has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The result of a step that no longer counts.
    #[error("step {0} is not running any more")]
    Stale(ExecId),
    /// A turn is running and the caller asked not to wait.
    #[error("turn {0} is running")]
    Busy(TurnId),
    /// The turn waits for somebody.
    #[error("turn {turn_id} waits for {waiting_for}")]
    Waiting {
        /// The parked turn.
        turn_id: TurnId,
        /// What for.
        waiting_for: WaitingFor,
    },
    /// There is no turn to act upon.
    #[error("no turn is active")]
    NoTurn,
    /// The turn is not in the queue: it has begun or ended, or never was.
    #[error("turn {0} is not queued")]
    NotQueued(TurnId),
    /// The conversation has no such turn that has ended.
    #[error("the conversation has no ended turn {0}")]
    UnknownTurn(TurnId),
    /// An answer names a call that does not wait for one.
    #[error("no pending call `{call}`: {reason}")]
    NoPendingCall {
        /// The call as named.
        call: String,
        /// Why it is not taken.
        reason: &'static str,
    },
    /// A limit is reached.
    #[error("{0}")]
    Quota(QuotaExceeded),
    /// A step may not record this.
    #[error("a step cannot record `{0}`")]
    NotEmittable(&'static str),
    /// A message cannot be added now or here.
    #[error("the message cannot be added: {0}")]
    NotImportable(&'static str),
    /// An input carries something that no turn may be started with.
    #[error("the input is not usable: {0}")]
    Unusable(#[from] UnusableRequest),
    /// The machine made an event that does not fit: a fault of its own, and nothing of it is recorded.
    #[error("{0}")]
    Misfit(#[from] Misfit),
}
