//! An environment and its policy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_process::Network;

use super::EnvironmentError;

/// Whether commands may run if no confinement works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unconfined {
    /// Commands are refused.
    #[default]
    Refuse,
    /// Commands run with all rights of the host's process.
    Allow,
}

/// Permissions in an environment. The policy restricts a turn's permissions and never extends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Whether files may be changed.
    pub write: bool,
    /// Whether commands may run.
    pub shell: bool,
    /// Network access of commands.
    pub network: Network,
    /// Whether commands may run without a sandbox.
    pub unconfined: Unconfined,
}

impl Default for Policy {
    /// Allows file changes and confined commands, without a network.
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
    /// A policy for reading only: no changes and no commands.
    #[must_use]
    pub fn read_only() -> Self {
        Self {
            write: false,
            shell: false,
            ..Self::default()
        }
    }

    /// Returns the policy restricted by a turn's permissions.
    #[must_use]
    pub fn narrowed(self, turn: Option<&TurnEnvironment>) -> Self {
        Self {
            write: self.write && turn.is_none_or(|turn| turn.write),
            shell: self.shell && turn.is_none_or(|turn| turn.shell),
            ..self
        }
    }

    /// Returns the names of tools whose every call this policy refuses, so that a turn need not offer them.
    #[must_use]
    pub fn idle_tools(self) -> Vec<&'static str> {
        let writers: &[_] = if self.write { &[] } else { &["edit", "write"] };
        let shell: &[_] = if self.shell {
            &[]
        } else {
            &["shell", "shell_output", "shell_stop"]
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
    /// Creates an environment for an existing directory. Symbolic links in its path are resolved once, here.
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

    /// Creates an environment for a path that was resolved earlier, such as before it was stored. If the directory is gone, turns fail with an error.
    pub fn stored(id: impl Into<String>, root: impl Into<PathBuf>, policy: Policy) -> Self {
        Self {
            id: id.into(),
            root: root.into(),
            policy,
        }
    }

    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the root directory, with links resolved.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }
}
