//! The environment in which a turn's tools run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The environment of a turn, its directory, and its permissions there. The environment's own policy narrows them.
///
/// A record contains every field, because a missing restriction would count as permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnEnvironment {
    pub environment_id: String,
    /// The working directory: absolute, or relative to the environment's root.
    pub cwd: PathBuf,
    /// Whether files may be changed.
    pub write: bool,
    /// Whether commands may run.
    pub shell: bool,
}

impl TurnEnvironment {
    /// Selects an environment and a directory in it, with all permissions of the environment.
    pub fn new(environment_id: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            environment_id: environment_id.into(),
            cwd: cwd.into(),
            write: true,
            shell: true,
        }
    }

    /// Denies file changes in the turn.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.write = false;
        self
    }

    /// Denies commands in the turn.
    #[must_use]
    pub fn without_shell(mut self) -> Self {
        self.shell = false;
        self
    }
}
