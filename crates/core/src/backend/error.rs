//! Why an agent failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an agent failed: a kind for programs and a message for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
#[serde(deny_unknown_fields)]
pub struct BackendError {
    pub kind: BackendErrorKind,
    /// A description of the failure.
    pub message: String,
}

impl BackendError {
    /// An error of a kind.
    pub fn new(kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendErrorKind {
    /// The program could not be started.
    SpawnFailed,
    /// The program rejected its arguments.
    BadInvocation,
    /// It is not logged in, or its key is refused.
    Auth,
    /// Its provider's rate limit is reached.
    RateLimit,
    /// Its provider failed.
    Server,
    /// Its provider could not be reached.
    Network,
    /// The agent does not know the session to resume.
    ResumeRefused,
    /// It reached the limit of model calls in a turn.
    TurnLimit,
    /// It reached its budget.
    Budget,
    /// A shared budget rejected the run before it started.
    BudgetRefused,
    /// It was silent for too long, and was ended.
    Inactive,
    /// Its turn took too long, and it was ended.
    TimeOver,
    /// Its output in one turn exceeded the limit, and the turn was ended.
    OutputLimit,
    /// The process was cancelled.
    Cancelled,
    /// It died by a signal that we did not send.
    Killed(i32),
    /// It violated the protocol, or exited in the middle of a turn.
    Protocol,
    /// It failed without a reason.
    Failed,
    /// Another turn runs in this process.
    Busy,
    /// Its process has exited; open it again.
    Closed,
    /// There is no such open request.
    UnknownRequest,
}

impl fmt::Display for BackendErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::SpawnFailed => "the agent did not start",
            Self::BadInvocation => "the agent rejected its arguments",
            Self::Auth => "the agent is not logged in",
            Self::RateLimit => "the agent's provider limits it",
            Self::Server => "the agent's provider failed",
            Self::Network => "the agent's provider was not reached",
            Self::ResumeRefused => "the agent does not know the session",
            Self::TurnLimit => "the agent reached its limit of model calls",
            Self::Budget => "the agent reached its budget",
            Self::BudgetRefused => "the agent was not started",
            Self::Inactive => "the agent was silent for too long",
            Self::TimeOver => "the agent's turn took too long",
            Self::OutputLimit => "the agent wrote too much in one turn",
            Self::Cancelled => "the agent was ended",
            Self::Killed(signal) => return write!(formatter, "the agent died by signal {signal}"),
            Self::Protocol => "the agent violated the protocol",
            Self::Failed => "the agent failed",
            Self::Busy => "the agent is executing another turn",
            Self::Closed => "the agent's process is gone",
            Self::UnknownRequest => "there is no such open request",
        };
        formatter.write_str(text)
    }
}
