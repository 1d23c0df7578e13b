//! Errors of the disk.

use std::io::{self, ErrorKind};

use thiserror::Error;
use windlass_core::error::AgentLoopError;

pub(super) type DiskResult<T> = Result<T, DiskError>;

/// Why the disk refused an operation on a path.
#[derive(Debug, Error)]
pub(super) enum DiskError {
    #[error("symbolic links are not followed: {0}")]
    Symlink(String),
    #[error("neither a regular file nor a directory: {0}")]
    NotRegular(String),
    #[error("directories are nested too deep below: {0}")]
    TooDeep(String),
    #[error("cannot {doing} {path}: {source}")]
    Io {
        doing: &'static str,
        path: String,
        source: io::Error,
    },
}

impl DiskError {
    /// Whether a search may omit the path: the entry no longer exists, was replaced by another kind of entry, or is unreadable for this
    /// user. Any other error, such as a lack of file descriptors, must fail the search, because its result would be silently incomplete.
    pub(super) fn is_unsearchable(&self) -> bool {
        match self {
            Self::Symlink(_) | Self::NotRegular(_) => true,
            Self::TooDeep(_) => false,
            Self::Io { source, .. } => matches!(
                source.kind(),
                ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory
            ),
        }
    }
}

impl From<DiskError> for AgentLoopError {
    fn from(error: DiskError) -> Self {
        Self::tool(error.to_string())
    }
}

/// Returns a function that adds the operation and its path to an I/O error.
pub(super) fn io(doing: &'static str, path: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |source| DiskError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}
