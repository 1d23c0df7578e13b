//! What an agent tells while it carries a turn.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{BackendUsage, PermissionRequest};

/// What an agent tells while it carries a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendEvent {
    /// The session is established. It comes once for each process, and a resume was taken if it comes.
    Started {
        /// The session's id, as the agent says it.
        session_id: String,
        /// The model that it works with, if it says so.
        model: Option<String>,
    },
    /// A piece of its answer. Text is told once, also by agents that repeat it whole.
    Text {
        /// The piece.
        text: String,
        /// The message that it belongs to, where the agent tells messages apart.
        message: Option<String>,
        /// The call of a helper that says so; `None` is the agent itself.
        parent: Option<String>,
    },
    /// A piece of its thoughts.
    Thinking {
        /// The piece.
        text: String,
        /// The call of a helper that thinks so; `None` is the agent itself.
        parent: Option<String>,
    },
    /// It has started a call of its own. It comes once for each id in a turn.
    ToolStarted(ObservedCall),
    /// A piece of what a call of its own prints.
    ToolOutput {
        /// The call.
        call_id: String,
        /// The piece.
        text: String,
    },
    /// A call of its own has ended. It follows [`ToolStarted`](Self::ToolStarted), at most once for each id in a turn.
    ToolCompleted(ObservedResult),
    /// It asks for a permission and waits for [`answer`](super::BackendSession::answer).
    Permission(PermissionRequest),
    /// It no longer waits for that permission.
    PermissionWithdrawn {
        /// The request.
        request_id: String,
    },
    /// What the turn has used so far.
    Usage(BackendUsage),
    /// Something to know that changes nothing.
    Notice(BackendNotice),
}

/// A call that the agent made by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedCall {
    /// Its id in the turn.
    pub id: String,
    /// The tool, or what is known of it.
    pub name: String,
    /// What it was called with, as far as the agent tells.
    pub arguments: Value,
    /// The call of a helper that made this one; `None` is the agent itself.
    pub parent: Option<String>,
}

/// How a call ended that the agent made by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedResult {
    /// The call.
    pub call_id: String,
    /// What came of it, as far as the agent tells.
    pub output: Value,
    /// Whether it failed.
    pub is_error: bool,
}

/// Something to know that changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendNotice {
    /// It tries a model call again.
    Retry {
        /// Which attempt this is, from 1.
        attempt: Option<u64>,
        /// When it tries, in milliseconds from now.
        delay_ms: Option<u64>,
        /// The HTTP status that the last attempt met.
        status: Option<u16>,
        /// What the agent says about it.
        message: String,
    },
    /// Its provider lets it do no more for now.
    Limit {
        /// Until when.
        reset_at: Option<DateTime<Utc>>,
    },
    /// Its provider will soon let it do no more.
    LimitNear {
        /// When the count starts anew.
        reset_at: Option<DateTime<Utc>>,
    },
    /// It warns of something.
    Warning(String),
    /// It said something that nobody here understands; what is long is cut.
    Raw {
        /// What it was, if that could be seen.
        kind: Option<String>,
        /// The line.
        line: String,
    },
    /// It wrote a line that is too long to be read.
    LineCut {
        /// How many bytes a line may have.
        limit: usize,
    },
}
