//! Commands that a thread accepts.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::Event;
use windlass_core::message::InputMessage;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::TurnId;
use windlass_turn::{Approval, Input, QueueEdit, Queued, Thread};

use crate::turn_result::{TurnHandle, TurnOptions};

/// Where a command's result is sent. The receiver may be gone.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T>>;

/// Why a caller abandons its submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AbandonReason {
    /// The caller was dropped. That cancels a turn that it started, but not one that it joined.
    Gone,
    /// The caller cancelled explicitly. That cancels the turn in any case.
    Cancelled,
}

/// The kind of turn that a submission requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmissionKind {
    /// A turn that answers its message.
    Answer,
    /// A turn that compacts the history.
    Compaction,
}

/// When a session may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseWhen {
    /// Immediately; running work is ended.
    Now,
    /// Only if no turn is running or queued.
    Idle,
}

/// An input with its options.
pub(crate) struct Submission {
    pub(crate) kind: SubmissionKind,
    /// Identifies the submission before it has a turn.
    pub(crate) ticket: u64,
    pub(crate) message: InputMessage,
    pub(crate) options: TurnOptions,
    /// Dropped when the turn has ended, or when there will be none.
    pub(crate) until_end: Option<DropGuard>,
    pub(crate) reply: ReplySender<TurnHandle>,
}

/// Commands that a thread accepts. Large ones are boxed, because commands are queued.
pub(crate) enum ThreadCommand {
    /// Requests the recorded thread.
    Snapshot {
        reply: ReplySender<Box<Thread>>,
    },
    /// Resumes the turn that a previous process left open; answered when the resumption is recorded.
    Resume {
        reply: ReplySender<Option<TurnHandle>>,
    },
    Submit(Box<Submission>),
    Steer {
        turn_id: Option<TurnId>,
        message: Box<InputMessage>,
        reply: ReplySender<TurnHandle>,
    },
    Interrupt {
        turn_id: Option<TurnId>,
        reason: Option<String>,
        reply: ReplySender<()>,
    },
    /// Changes a queued input; answered with the queue after the change.
    EditQueued {
        turn_id: TurnId,
        edit: QueueEdit,
        reply: ReplySender<Vec<Queued>>,
    },
    /// The caller abandons its submission.
    Abandon {
        ticket: u64,
        reason: AbandonReason,
    },
    ToolResults {
        results: Vec<ToolResult>,
        reply: ReplySender<TurnHandle>,
    },
    Approval {
        call: String,
        approval: Approval,
        reply: ReplySender<TurnHandle>,
    },
    UserAnswer {
        request: String,
        answer: serde_json::Value,
        reply: ReplySender<TurnHandle>,
    },
    /// Decides an input that has no result.
    Decide {
        input: Box<Input>,
        reply: ReplySender<()>,
    },
    /// Decides an input that records one event; answered with that event.
    Record {
        input: Box<Input>,
        reply: ReplySender<Event>,
    },
    /// The process is shutting down: start nothing new, and leave the turn open.
    Retire {
        patience: Duration,
        reply: ReplySender<()>,
    },
    /// The session is removed: end all work and accept no more, or refuse because work is running.
    Close {
        when: CloseWhen,
        reply: ReplySender<()>,
    },
}

impl ThreadCommand {
    /// Returns whether the command requests work on the session, and so resumes a turn that a previous process left open. Cancelling a turn or
    /// removing a session does not resume it first.
    pub(super) fn resumes_turn(&self) -> bool {
        matches!(self, Self::Resume { .. } | Self::Submit(_)) || self.needs_plan()
    }

    /// Returns whether the command needs the turn's plan, because it may start tools.
    pub(super) fn needs_plan(&self) -> bool {
        matches!(
            self,
            Self::Steer { .. }
                | Self::ToolResults { .. }
                | Self::Approval { .. }
                | Self::UserAnswer { .. }
        )
    }

    /// Sends an error as the answer.
    pub(super) fn refuse(self, error: AgentLoopError) {
        match self {
            Self::Submit(submission) => drop(submission.reply.send(Err(error))),
            Self::Steer { reply, .. }
            | Self::ToolResults { reply, .. }
            | Self::Approval { reply, .. }
            | Self::UserAnswer { reply, .. } => drop(reply.send(Err(error))),
            Self::Record { reply, .. } => drop(reply.send(Err(error))),
            Self::Snapshot { reply } => drop(reply.send(Err(error))),
            Self::Resume { reply } => drop(reply.send(Err(error))),
            Self::EditQueued { reply, .. } => drop(reply.send(Err(error))),
            Self::Interrupt { reply, .. }
            | Self::Decide { reply, .. }
            | Self::Retire { reply, .. }
            | Self::Close { reply, .. } => drop(reply.send(Err(error))),
            Self::Abandon { .. } => {}
        }
    }
}
