//! The daemon's directory, and files as they were.

use serde::{Deserialize, Serialize};

use crate::threads::RestoredFiles;

/// The answer of `GET /v1/workspace/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkspaceStatus {
    /// Absolute path of the working directory.
    pub workspace: String,
    /// Whether it is a git repository.
    pub git_repo: bool,
    /// Git branch, if the directory is in a repository.
    pub branch: Option<String>,
    /// Its commit, in short.
    pub head: Option<String>,
    /// Whether it has changes.
    pub dirty: bool,
    /// Files with staged changes.
    pub staged: u64,
    /// Files with other changes.
    pub unstaged: u64,
    /// Files that are not known to git.
    pub untracked: u64,
    /// Commits that the upstream does not have.
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    pub behind: Option<u64>,
    /// Why the state of git is not known; absent where it is. The other fields say nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_unknown: Option<String>,
}

/// Files as they were before a turn changed them, one of `GET /v1/snapshots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Snapshot {
    /// ID of the turn, `turn_…`.
    pub id: String,
    /// Beginning of the turn's prompt.
    pub label: String,
    /// When the turn began, in seconds since 1970.
    pub timestamp: i64,
    /// The thread of the turn.
    pub thread_id: String,
}

/// The answer of `POST /v1/snapshots/{id}/restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestoredSnapshot {
    /// The turn before which the files are as they were.
    pub restored: String,
    /// What became of the files.
    pub files: RestoredFiles,
}
