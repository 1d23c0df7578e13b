//! Errors of run operations.

use windlass_core::runs::RunStatus;
use windlass_store::JournalError;

/// Why a run operation failed. The messages are part of the protocol; clients know them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The intent is blank.
    #[error("runs.start requires a non-empty `intent`")]
    BlankIntent,
    /// A parameter is invalid.
    #[error("{0}")]
    InvalidParams(String),
    /// The agent of the run cannot be determined.
    #[error(
        "runs.start could not resolve an agent_id: no `agent_id` param, no bound session.auth {{agent_id}}, no \
         CAR_AGENT_ID env, and no usable `agent_name` to synthesize one from"
    )]
    NoAgent,
    /// A connection bound to one agent requested another.
    #[error(
        "runs.start `agent_id` (`{requested}`) does not match this session's bound agent: a bound connection can only record \
         runs under its own agent"
    )]
    AgentMismatch {
        /// The requested agent.
        requested: String,
    },
    /// The agent has a token, and the connection has not presented it.
    #[error(
        "not authorized to record runs as `{agent_id}`: this agent has a token of its own; bind the connection with \
         session.auth {{agent_id, token}}"
    )]
    AgentNeedsBinding {
        /// ID of the agent.
        agent_id: String,
    },
    /// The agent is reserved for Windlass itself.
    #[error(
        "not authorized to record runs as `{agent_id}`: this names sessions that run here, and they record their turns \
         themselves; use another agent_id"
    )]
    OwnAgent {
        /// ID of the agent.
        agent_id: String,
    },
    /// The run does not exist or belongs to another agent; the caller cannot distinguish the two.
    #[error("unknown run_id `{0}`")]
    UnknownRun(String),
    /// The run to resume does not exist or belongs to another agent.
    #[error("run not found or not authorized")]
    NotResumable,
    /// The caller may not read those runs.
    #[error("not authorized to access this run: {0}")]
    NotAuthorized(String),
    /// The run has already ended.
    #[error("run `{run_id}` is already terminal — cannot record another outcome (it is {status})")]
    Terminal {
        /// ID of the run.
        run_id: String,
        /// The recorded outcome.
        status: RunStatus,
    },
    /// Another connection owns the run, or the key belongs to a different run.
    #[error("run ownership conflict: {0}")]
    Conflict(String),
    /// A limit is exceeded.
    #[error("{0}")]
    Limit(String),
    /// A stored record is unreadable.
    #[error("run trace corruption: {0}")]
    Corrupt(String),
    /// The store cannot be read or written now.
    #[error("the run could not be recorded or read: {0}")]
    Storage(String),
}

impl RunError {
    /// Returns the stable reason of the error.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.code_and_reason().1
    }

    /// Returns the JSON-RPC code and the stable reason.
    pub(crate) const fn code_and_reason(&self) -> (i64, &'static str) {
        match self {
            Self::BlankIntent | Self::InvalidParams(_) => (-32602, "invalid_params"),
            Self::NoAgent => (-32602, "no_agent"),
            Self::AgentMismatch { .. } => (-32010, "agent_mismatch"),
            Self::AgentNeedsBinding { .. } | Self::OwnAgent { .. } | Self::NotAuthorized(_) => {
                (-32002, "not_authorized")
            }
            Self::UnknownRun(_) | Self::NotResumable => (-32002, "not_found"),
            Self::Terminal { .. } => (-32010, "run_terminal"),
            Self::Conflict(_) => (-32010, "conflict"),
            Self::Limit(_) => (-32009, "limit"),
            Self::Corrupt(_) => (-32011, "corrupt"),
            Self::Storage(_) => (-32603, "storage"),
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
