//! The result of a decision, and the reasons for rejecting an input.

use std::sync::Arc;

use windlass_core::backend::{SessionChoice, SessionTotals};
use windlass_core::error::{QuotaExceeded, WaitingFor};
use windlass_core::events::{Decision as Verdict, Event};
use windlass_core::tools::ToolCall;
use windlass_core::turn_request::UnusableRequest;
use windlass_core::typed_id::{ExecId, MessageId, TurnId};

use crate::state::Thread;
use crate::validate::InvalidEvent;

/// Something to do, as data.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Call the model with the thread's history.
    CallModel {
        exec_id: ExecId,
        /// The number of the turn's model call, from 1.
        iteration: usize,
    },
    /// Ask the model for a summary of the conversation; the answer arrives like that of any model call.
    Summarise { exec_id: ExecId },
    /// Run a tool.
    RunTool {
        exec_id: ExecId,
        call: Arc<ToolCall>,
    },
    /// Let an external agent execute the turn with the prompt of [`crate::Thread::backend_prompt`], whose length the host limits.
    /// After a crash it resumes the session of the run before.
    RunBackend {
        exec_id: ExecId,
        /// The session to begin or to resume. A new one without an id gets it by [`crate::Input::BackendSession`], before
        /// the process starts.
        session: SessionChoice,
        /// The usage so far of a resumed session; zero for any other.
        totals: SessionTotals,
    },
    /// Answer a permission request of a running external agent.
    AnswerBackend {
        exec_id: ExecId,
        request_id: String,
        decision: Verdict,
        /// Reason of a denial, for the agent.
        reason: Option<String>,
    },
    /// Send a message to a running external agent; [`crate::Input::BackendSteered`] confirms it.
    SteerBackend {
        exec_id: ExecId,
        message_id: MessageId,
        /// Steered text for the agent.
        text: String,
    },
    /// Build the plan of the first queued input, then send [`crate::Input::Begin`].
    Prepare {
        /// The turn that the input will start.
        turn_id: TurnId,
    },
    /// Stop a step; its result is ignored.
    Stop { exec_id: ExecId },
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

/// The result of an input: record the events in one commit, then commit the decision, then run the commands.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The events to record, in order. Empty if the input changes nothing.
    pub events: Vec<Arc<Event>>,
    /// The commands to run once the events are durable.
    pub commands: Vec<Command>,
    /// The turn that contains the input.
    pub turn_id: Option<TurnId>,
    /// The message that the input became.
    pub message_id: Option<MessageId>,
    /// The state after the events. Equal to folding them, which the tests check; stored so that live threads do not fold twice.
    pub(crate) after: Box<Thread>,
}

/// Why an input has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The step is no longer running.
    #[error("step {0} is not running any more")]
    Stale(ExecId),
    /// A turn is running, and the caller does not want to wait.
    #[error("turn {0} is running")]
    Busy(TurnId),
    /// The turn is parked.
    #[error("turn {turn_id} waits for {waiting_for}")]
    Waiting {
        /// The parked turn.
        turn_id: TurnId,
        waiting_for: WaitingFor,
    },
    /// No turn is active.
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
        /// Why it is rejected.
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
    /// The input contains a part that cannot start a turn.
    #[error("the input is not usable: {0}")]
    Unusable(#[from] UnusableRequest),
    /// The machine produced an invalid event. This is a bug; no event of the decision is recorded.
    #[error("{0}")]
    InvalidEvent(#[from] InvalidEvent),
}
