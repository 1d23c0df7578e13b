//! Why something was not done.

use windlass_core::runs::RunStatus;
use windlass_store::JournalError;

/// Why something was not done. The texts are those that clients of the protocol know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The intent is blank.
    #[error("runs.start requires a non-empty `intent`")]
    BlankIntent,
    /// A parameter is not as it must be.
    #[error("{0}")]
    InvalidParams(String),
    /// Nobody says whose run it is.
    #[error(
        "runs.start could not resolve an agent_id: no `agent_id` param, no bound session.auth {{agent_id}}, no \
         CAR_AGENT_ID env, and no usable `agent_name` to synthesize one from"
    )]
    NoAgent,
    /// A connection that is bound to one agent asked for another.
    #[error(
        "runs.start `agent_id` (`{asked}`) does not match this session's bound agent: a bound connection can only record \
         runs under its own agent"
    )]
    AgentMismatch {
        /// The other one.
        asked: String,
    },
    /// The agent has a token, and the connection has not shown it.
    #[error(
        "not authorized to record runs as `{agent_id}`: this agent has a token of its own; bind the connection with \
         session.auth {{agent_id, token}}"
    )]
    AgentNeedsBinding {
        /// The agent.
        agent_id: String,
    },
    /// The agent is one of Windlass itself.
    #[error(
        "not authorized to record runs as `{agent_id}`: this names sessions that run here, and they record their turns \
         themselves; use another agent_id"
    )]
    OwnAgent {
        /// The agent.
        agent_id: String,
    },
    /// There is no such run, or it is somebody else's: which of both, nobody is told.
    #[error("unknown run_id `{0}`")]
    UnknownRun(String),
    /// There is no such run to take over, or it is somebody else's.
    #[error("run not found or not authorized")]
    NotResumable,
    /// Those runs are not the caller's to see.
    #[error("not authorized to access this run: {0}")]
    NotAuthorized(String),
    /// The run has its end.
    #[error("run `{run_id}` is already terminal — cannot record another outcome (it is {status})")]
    Terminal {
        /// The run.
        run_id: String,
        /// Its end.
        status: RunStatus,
    },
    /// Somebody else has the run, or the key stands for another one.
    #[error("run ownership conflict: {0}")]
    Conflict(String),
    /// Something is over a limit.
    #[error("{0}")]
    Limit(String),
    /// A record cannot be read any more.
    #[error("run trace corruption: {0}")]
    Corrupt(String),
    /// Nothing can be written or read now.
    #[error("the run could not be recorded or read: {0}")]
    Storage(String),
}

/// The kind of an error, stable for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A parameter is wrong.
    InvalidParams,
    /// Nobody says whose run it is.
    NoAgent,
    /// The connection is bound to another agent.
    AgentMismatch,
    /// The caller may not do that.
    NotAuthorized,
    /// No such run for this caller.
    NotFound,
    /// The run has its end.
    RunTerminal,
    /// Somebody else has it.
    Conflict,
    /// Too much.
    Limit,
    /// Damaged.
    Corrupt,
    /// The store is in trouble.
    Storage,
}

impl RunError {
    /// Returns the kind.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::BlankIntent | Self::InvalidParams(_) => Reason::InvalidParams,
            Self::NoAgent => Reason::NoAgent,
            Self::AgentMismatch { .. } => Reason::AgentMismatch,
            Self::AgentNeedsBinding { .. } | Self::OwnAgent { .. } | Self::NotAuthorized(_) => {
                Reason::NotAuthorized
            }
            Self::UnknownRun(_) | Self::NotResumable => Reason::NotFound,
            Self::Terminal { .. } => Reason::RunTerminal,
            Self::Conflict(_) => Reason::Conflict,
            Self::Limit(_) => Reason::Limit,
            Self::Corrupt(_) => Reason::Corrupt,
            Self::Storage(_) => Reason::Storage,
        }
    }
}

impl From<JournalError> for RunError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Damaged { .. } | JournalError::UnknownVersion { .. } => {
                Self::Corrupt(error.to_string())
            }
            _ => Self::Storage(error.to_string()),
        }
    }
}
