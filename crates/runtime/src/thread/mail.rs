//! What a thread can be sent.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventRequest};
use windlass_core::message::{InputMessage, Message};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::{ExecId, TurnId};
use windlass_turn::{OnBusy, QueueEdit, Queued, Remember, Thread};

use crate::turn_result::{EventObserver, TurnHandle};

/// Where an answer goes. Nobody may be listening any more.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// How a caller gives up what it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbandonReason {
    /// It went away. That stops a turn of its own, and none that it only joined.
    Gone,
    /// It says so. That stops the turn in any case.
    Cancelled,
}

/// What a submission asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmissionKind {
    /// A turn that answers its message.
    Answer,
    /// A turn that makes the history shorter.
    Compaction,
}

/// When a session may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseWhen {
    /// At once: what runs is ended.
    Now,
    /// Only if no turn runs, and none waits.
    Idle,
}

/// An input with its options.
pub(crate) struct Submission {
    pub(crate) wanted: SubmissionKind,
    /// Names the submission before it has a turn.
    pub(crate) ticket: u64,
    pub(crate) message: InputMessage,
    pub(crate) on_busy: OnBusy,
    /// The id that the turn gets, where the caller has one for it.
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) turn_timeout: Option<Duration>,
    pub(crate) tool_timeout: Option<Duration>,
    pub(crate) on_event: Option<EventObserver>,
    /// Dropped when the turn has ended, or when there is to be none.
    pub(crate) until_end: Option<DropGuard>,
    pub(crate) reply: Reply<TurnHandle>,
}

/// What a thread can be sent. Boxed where large, since mail is queued.
pub(crate) enum Mail {
    /// Asks for the thread as it is recorded.
    Look {
        reply: Reply<Box<Thread>>,
    },
    /// Asks to take up what an earlier life left behind; answered when that is recorded.
    Resume {
        reply: Reply<Option<TurnHandle>>,
    },
    Submit(Box<Submission>),
    Steer {
        turn_id: Option<TurnId>,
        message: Box<InputMessage>,
        reply: Reply<TurnHandle>,
    },
    Interrupt {
        turn_id: Option<TurnId>,
        reason: Option<String>,
        reply: Reply<()>,
    },
    /// Changes a queued input; answered with the queue after the change.
    EditQueued {
        turn_id: TurnId,
        edit: QueueEdit,
        reply: Reply<Vec<Queued>>,
    },
    RemoveQueued {
        turn_id: TurnId,
        reason: Option<String>,
        reply: Reply<()>,
    },
    /// The caller of a submission does not want it any more.
    Abandon {
        ticket: u64,
        leave: AbandonReason,
    },
    ToolResults {
        results: Vec<ToolResult>,
        reply: Reply<TurnHandle>,
    },
    Approval {
        call: String,
        approve: bool,
        /// What else it allows.
        remember: Remember,
        reason: Option<String>,
        reply: Reply<TurnHandle>,
    },
    UserAnswer {
        request: String,
        answer: serde_json::Value,
        reply: Reply<TurnHandle>,
    },
    /// The host says what it keeps of the session.
    Note {
        data: Box<windlass_core::events::EventData>,
        reply: Reply<Event>,
    },
    Emit {
        exec_id: ExecId,
        request: Box<EventRequest>,
        reply: Reply<Event>,
    },
    Import {
        message: Box<Message>,
        reply: Reply<()>,
    },
    Rewind {
        turn_id: TurnId,
        reply: Reply<()>,
    },
    /// The process ends: begin nothing more, and leave the turn open.
    Retire {
        patience: Duration,
        reply: Reply<()>,
    },
    /// The session is removed: end what runs and take no more, or refuse because something runs.
    Close {
        when: CloseWhen,
        reply: Reply<()>,
    },
}

impl Mail {
    /// Tells whether it asks for work on the session, and so for what an earlier life left behind. A turn is stopped, and a
    /// session removed, without going on first.
    pub(super) fn takes_up(&self) -> bool {
        matches!(self, Self::Resume { .. } | Self::Submit(_)) || self.needs_plan()
    }

    /// Tells whether the turn's plan is needed to decide about it: it may start tools.
    pub(super) fn needs_plan(&self) -> bool {
        matches!(
            self,
            Self::Steer { .. }
                | Self::ToolResults { .. }
                | Self::Approval { .. }
                | Self::UserAnswer { .. }
        )
    }

    /// Answers with an error.
    pub(super) fn refuse(self, error: AgentLoopError) {
        match self {
            Self::Submit(submission) => drop(submission.reply.send(Err(error))),
            Self::Steer { reply, .. }
            | Self::ToolResults { reply, .. }
            | Self::Approval { reply, .. }
            | Self::UserAnswer { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::Emit { reply, .. } | Self::Note { reply, .. } => drop(reply.send(Err(error))),
            Self::Look { reply } => drop(reply.send(Err(error))),
            Self::Resume { reply } => drop(reply.send(Err(error))),
            Self::EditQueued { reply, .. } => drop(reply.send(Err(error))),
            Self::Interrupt { reply, .. }
            | Self::RemoveQueued { reply, .. }
            | Self::Import { reply, .. }
            | Self::Rewind { reply, .. }
            | Self::Retire { reply, .. }
            | Self::Close { reply, .. } => {
                drop(reply.send(Err(error)));
            }
            Self::Abandon { .. } => {}
        }
    }
}
