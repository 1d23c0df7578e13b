//! The launch parameters of an external agent.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HostAccess, SessionTotals};
use crate::turn_environment::TurnEnvironment;

/// The launch parameters of an external agent.
#[derive(Clone)]
pub struct BackendSpec {
    /// The name of the agent that owns the work, for logs.
    pub agent: String,
    /// The owner of the work, if it is not the operator.
    pub owner: Option<String>,
    /// Whether it may do everything without a permission request.
    pub approve_all: bool,
    /// The program: a name or an absolute path; `None` is the backend's default.
    pub command: Option<PathBuf>,
    /// Arguments in addition to those that the backend sets.
    pub arguments: Vec<String>,
    /// The working directory; absolute.
    pub cwd: PathBuf,
    /// The environment that confines the turn.
    pub environment: Option<TurnEnvironment>,
    /// Its variables, by name. Values are never printed.
    pub variables: BTreeMap<String, String>,
    /// The model to ask for; `None` is the agent's default.
    pub model: Option<String>,
    /// The conversation to start or resume.
    pub session: SessionChoice,
    /// The conversation's usage so far, from the last [`BackendOutcome`](super::BackendOutcome).
    pub totals: SessionTotals,
    /// The longest silence allowed during a turn; `None` is unlimited.
    pub inactivity_timeout: Option<Duration>,
    /// Time limit of a turn, without waits for a user; `None` is unlimited.
    pub turn_limit: Option<Duration>,
    /// Access to the host's files and programs; `None` denies it.
    pub host: Option<Arc<dyn HostAccess>>,
}

impl BackendSpec {
    /// Starts a new conversation in a directory, with defaults for all other parameters.
    pub fn new(agent: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent: agent.into(),
            owner: None,
            approve_all: false,
            command: None,
            arguments: Vec::new(),
            cwd: cwd.into(),
            environment: None,
            variables: BTreeMap::new(),
            model: None,
            session: SessionChoice::New { id: None },
            totals: SessionTotals::default(),
            inactivity_timeout: None,
            turn_limit: None,
            host: None,
        }
    }
}

impl fmt::Debug for BackendSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.variables.keys().collect();
        formatter
            .debug_struct("BackendSpec")
            .field("agent", &self.agent)
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .field("variables", &names)
            .field("model", &self.model)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// The conversation that a process continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionChoice {
    /// A new session.
    New {
        /// The id that [`Backend::choose_session`](super::Backend::choose_session) gave.
        id: Option<String>,
    },
    /// A session that the agent should know.
    Resume {
        /// The agent's ID of the session.
        id: String,
    },
}

impl SessionChoice {
    /// Returns the id, if there is one yet.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::New { id } => id.as_deref(),
            Self::Resume { id } => Some(id),
        }
    }

    /// Tells whether the agent should know the session.
    #[must_use]
    pub fn is_resume(&self) -> bool {
        matches!(self, Self::Resume { .. })
    }
}
