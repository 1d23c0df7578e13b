//! One environment.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::{Hidden, Network};

use super::EnvironmentError;
use crate::workspace::ResolvedWorkspace;

/// Whether commands may run where nothing can confine them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unconfined {
    /// They are refused.
    #[default]
    Refuse,
    /// They run with all rights of the host's process.
    Allow,
}

/// What may be done in an environment. It narrows what a turn allows, and never widens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Whether files may be changed.
    pub write: bool,
    /// Whether commands may run.
    pub shell: bool,
    /// What commands may reach over the network.
    pub network: Network,
    /// Whether commands may run without a sandbox.
    pub unconfined: Unconfined,
}

impl Default for Policy {
    /// Files and confined commands, without a network.
    fn default() -> Self {
        Self {
            write: true,
            shell: true,
            network: Network::None,
            unconfined: Unconfined::Refuse,
        }
    }
}

impl Policy {
    /// Looking only: nothing is changed and no command runs.
    #[must_use]
    pub fn read_only() -> Self {
        Self {
            write: false,
            shell: false,
            ..Self::default()
        }
    }

    /// Returns what is left when a turn allows less.
    #[must_use]
    pub fn narrowed(self, turn: Option<&TurnEnvironment>) -> Self {
        Self {
            write: self.write && turn.is_none_or(|turn| turn.write),
            shell: self.shell && turn.is_none_or(|turn| turn.shell),
            ..self
        }
    }

    /// Names the tools that could only refuse under this policy, so that a turn need not offer them.
    #[must_use]
    pub fn idle_tools(self) -> Vec<&'static str> {
        let writers: &[_] = if self.write { &[] } else { &["edit", "write"] };
        let shell: &[_] = match self.shell {
            true => &[],
            false => &["shell", "shell_output", "shell_stop"],
        };
        [writers, shell].concat()
    }
}

/// A named root directory with a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    id: String,
    root: PathBuf,
    policy: Policy,
}

impl Environment {
    /// Names an existing directory. Symbolic links in its path are resolved once, here.
    pub fn new(
        id: impl Into<String>,
        root: impl AsRef<Path>,
        policy: Policy,
    ) -> Result<Self, EnvironmentError> {
        let root = root.as_ref();
        let missing = |source| EnvironmentError::RootNotFound {
            root: root.to_owned(),
            source,
        };
        let resolved = root.canonicalize().map_err(missing)?;
        if !resolved.is_dir() {
            return Err(missing(std::io::ErrorKind::NotADirectory.into()));
        }
        Ok(Self::stored(id, resolved, policy))
    }

    /// Names a directory whose path was resolved before, such as when it was stored. If it is gone by now, turns are told.
    pub fn stored(id: impl Into<String>, root: impl Into<PathBuf>, policy: Policy) -> Self {
        Self {
            id: id.into(),
            root: root.into(),
            policy,
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns its directory, links resolved.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns what may be done in it.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Checks a directory to work in, and returns where it really is. `cwd` is absolute or relative to the root. What the
    /// host hides is refused by [`Environments::resolve`](super::Environments::resolve), which knows of it.
    pub fn check_cwd(&self, cwd: &Path) -> Result<PathBuf, EnvironmentError> {
        let opened = ResolvedWorkspace::open(self, cwd, self.policy, Hidden::default())?;
        Ok(opened.cwd())
    }
}
