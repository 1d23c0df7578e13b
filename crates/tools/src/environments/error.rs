//! Why a turn cannot work in an environment.

use std::io;
use std::path::PathBuf;

/// Why a turn cannot work in an environment.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// The turn names no environment, and there is no default.
    #[error(
        "environment_not_found: the turn names no environment and the host has no default; start the turn with one"
    )]
    NoneNamed,
    /// There is no such environment, or no longer.
    #[error(
        "environment_not_found: there is no environment `{id}`; it was removed or never registered"
    )]
    NotFound {
        /// What was named.
        id: String,
    },
    /// The root of an environment is no directory.
    #[error(
        "the root of an environment must be an existing directory: {}: {source}",
        root.display()
    )]
    RootNotFound {
        /// The root as it was given.
        root: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The directory to work in is not inside of the root.
    #[error(
        "cwd_outside_root: {} lies outside of the root of environment `{id}`; choose a directory inside of it",
        cwd.display()
    )]
    CwdOutsideRoot {
        /// The environment.
        id: String,
        /// What was asked for.
        cwd: PathBuf,
    },
    /// The directory to work in is the host's own.
    #[error(
        "cwd_outside_root: {} lies where the program that runs these tools keeps its own data or keys, which are out of their \
         reach; give environment `{id}` another directory",
        path.display()
    )]
    Hidden {
        /// The environment.
        id: String,
        /// What was asked for.
        path: PathBuf,
    },
    /// The directory to work in is missing or no directory.
    #[error(
        "cwd_not_found: there is no directory {} in environment `{id}`: {source}",
        cwd.display()
    )]
    CwdNotFound {
        /// The environment.
        id: String,
        /// What was asked for.
        cwd: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl EnvironmentError {
    /// Returns the stable name of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoneNamed | Self::NotFound { .. } => "environment_not_found",
            Self::CwdOutsideRoot { .. } | Self::Hidden { .. } => "cwd_outside_root",
            Self::RootNotFound { .. } | Self::CwdNotFound { .. } => "cwd_not_found",
        }
    }
}
