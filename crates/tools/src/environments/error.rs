//! Errors of opening an environment for a turn.

use std::io;
use std::path::PathBuf;

/// Why a turn cannot work in an environment.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The turn names no environment, and there is no default.
    #[error(
        "environment_not_found: the turn names no environment and the host has no default; start the turn with one"
    )]
    NoDefault,
    /// The environment does not exist, or was removed.
    #[error(
        "environment_not_found: there is no environment `{id}`; it was removed or never registered"
    )]
    NotFound { id: String },
    /// The root of an environment is not a directory.
    #[error(
        "the root of an environment must be an existing directory: {}: {source}",
        root.display()
    )]
    RootNotFound {
        /// The root as given.
        root: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The working directory is outside the root.
    #[error(
        "cwd_outside_root: {} is outside the root of environment `{id}`; choose a directory inside it",
        cwd.display()
    )]
    CwdOutsideRoot {
        id: String,
        /// The working directory as given.
        cwd: PathBuf,
    },
    /// The working directory is hidden by the host.
    #[error(
        "cwd_outside_root: {} contains the host program's own data or keys, which tools cannot access; give environment `{id}` \
         another directory",
        path.display()
    )]
    Hidden {
        id: String,
        /// The directory as given.
        path: PathBuf,
    },
    /// The working directory does not exist or is not a directory.
    #[error(
        "cwd_not_found: there is no directory {} in environment `{id}`: {source}",
        cwd.display()
    )]
    CwdNotFound {
        id: String,
        /// The working directory as given.
        cwd: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl EnvironmentError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDefault | Self::NotFound { .. } => "environment_not_found",
            Self::CwdOutsideRoot { .. } | Self::Hidden { .. } => "cwd_outside_root",
            Self::RootNotFound { .. } | Self::CwdNotFound { .. } => "cwd_not_found",
        }
    }
}
