//! What an agent is started with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HostAccess, SessionTotals};
use crate::turn_environment::TurnEnvironment;

/// What an agent is started with.
#[derive(Clone)]
pub struct BackendSpec {
    /// Whose work this is, for logs.
    pub agent: String,
    /// Whose work it is, where it is not the operator's.
    pub owner: Option<String>,
    /// Whether it may do everything without asking for a permission.
    pub approve_all: bool,
    /// The program: a name or an absolute path; `None` is the backend's usual one.
    pub command: Option<PathBuf>,
    /// Arguments beside those by which the backend drives it.
    pub arguments: Vec<String>,
    /// Where it works; absolute.
    pub cwd: PathBuf,
    /// Where its turn may touch the world, for who confines it.
    pub environment: Option<TurnEnvironment>,
    /// Its variables, by name. Values are never printed.
    pub variables: BTreeMap<String, String>,
    /// The model to ask for; `None` is the agent's usual one.
    pub model: Option<String>,
    /// The conversation to begin or to take up.
    pub session: SessionChoice,
    /// What was counted of that conversation so far, as the last [`BackendOutcome`](super::BackendOutcome) told.
    pub totals: SessionTotals,
    /// How long it may be silent while it carries a turn; `None` is as long as it likes.
    pub inactivity_timeout: Option<Duration>,
    /// How long a turn may take, but for waits for a person; `None` is as long as it likes.
    pub turn_limit: Option<Duration>,
    /// What it may ask of the host's files and programs; `None` is nothing.
    pub host: Option<Arc<dyn HostAccess>>,
}

impl BackendSpec {
    /// A new conversation in a directory, with everything else as usual.
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

/// Which conversation a process carries on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionChoice {
    /// A new one.
    New {
        /// The id that [`Backend::choose_session`](super::Backend::choose_session) gave.
        id: Option<String>,
    },
    /// One that the agent should know.
    Resume {
        /// Its id.
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
