//! Events that an external agent reports during a turn.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{BackendUsage, PermissionRequest};

/// An event that an external agent reports during a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendEvent {
    /// The session is established. Arrives once per process, and confirms a resume.
    Started {
        /// The session's ID, as reported by the agent.
        session_id: String,
        /// The model in use, if the agent reports it.
        model: Option<String>,
    },
    /// A delta of the answer. Each piece of text arrives once, even from agents that repeat the full text at the end.
    Text {
        text: String,
        /// The message that contains the text, if the agent distinguishes messages.
        message: Option<String>,
        /// ID of the subagent call that produced the text; `None` for the agent itself.
        parent: Option<String>,
    },
    /// A delta of its reasoning.
    Thinking {
        text: String,
        /// ID of the subagent call that produced the reasoning; `None` for the agent itself.
        parent: Option<String>,
    },
    /// A tool call of the agent has started. Arrives once per call ID in a turn.
    ToolStarted(ObservedCall),
    /// A delta of a tool call's output.
    ToolOutput {
        /// ID of the call in the turn.
        call_id: String,
        text: String,
    },
    /// A tool call of the agent has ended. Follows [`ToolStarted`](Self::ToolStarted), at most once per call ID in a turn.
    ToolCompleted(ObservedResult),
    /// It asks for a permission and waits for [`answer`](super::BackendSession::answer).
    Permission(PermissionRequest),
    /// It no longer waits for that permission.
    PermissionWithdrawn {
        /// ID of the withdrawn request.
        request_id: String,
    },
    /// The turn's usage so far.
    Usage(BackendUsage),
    /// A notice that changes no state.
    Notice(BackendNotice),
}

/// A tool call that the agent executes without asking Windlass.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedCall {
    /// Its id in the turn.
    pub id: String,
    /// The tool's name, or the best available description.
    pub name: String,
    /// The arguments, if the agent reports them.
    pub arguments: Value,
    /// ID of the subagent call that made this one; `None` for the agent itself.
    pub parent: Option<String>,
}

/// The result of a tool call that the agent executed.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedResult {
    pub call_id: String,
    /// The output, if the agent reports it.
    pub output: Value,
    /// Whether it failed.
    pub is_error: bool,
}

/// A notice that changes no state.
#[derive(Debug, Clone, PartialEq)]
pub enum BackendNotice {
    /// It retries a model call.
    Retry {
        /// The number of the attempt, from 1.
        attempt: Option<u64>,
        /// The delay before the retry, in milliseconds.
        delay_ms: Option<u64>,
        /// The HTTP status of the last attempt.
        status: Option<u16>,
        /// The agent's message.
        message: String,
    },
    /// Its provider's rate limit is reached.
    Limit {
        /// When the limit resets, if the agent reports it.
        reset_at: Option<DateTime<Utc>>,
    },
    /// Its provider's rate limit is almost reached.
    LimitNear {
        /// When the limit resets, if the agent reports it.
        reset_at: Option<DateTime<Utc>>,
    },
    /// A warning of the agent.
    Warning(String),
    /// The agent wrote a line that could not be parsed; long lines are truncated.
    Raw {
        /// The line's type, if it could be determined.
        kind: Option<String>,
        line: String,
    },
    /// It wrote a line that is too long to be read.
    LineCut {
        /// The limit, in bytes.
        limit: usize,
    },
}
