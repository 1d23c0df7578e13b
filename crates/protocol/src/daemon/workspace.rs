//! The daemon's directory, and snapshots of files.

use windlass_macros::wire;

use crate::threads::RestoredFiles;

/// The answer of `GET /v1/workspace/status`.
#[wire(Default, Eq)]
pub struct WorkspaceStatus {
    /// Absolute path of the working directory.
    pub workspace: String,
    /// Whether the directory is in a git repository.
    pub git_repo: bool,
    /// Git branch, if the directory is in a repository.
    pub branch: Option<String>,
    /// Abbreviated commit ID.
    pub head: Option<String>,
    /// Whether there are uncommitted changes.
    pub dirty: bool,
    /// Files with staged changes.
    pub staged: u64,
    /// Files with unstaged changes.
    pub unstaged: u64,
    /// Number of untracked files.
    pub untracked: u64,
    /// Local commits that the upstream does not have.
    pub ahead: Option<u64>,
    /// Upstream commits that the local branch does not have.
    pub behind: Option<u64>,
    /// Why the git status is unknown; absent if it is known. The other fields then have no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_unknown: Option<String>,
}

/// The files before a turn changed them; an entry of `GET /v1/snapshots`.
#[wire(Eq)]
pub struct Snapshot {
    /// ID of the turn, `turn_…`.
    pub id: String,
    /// Beginning of the turn's prompt.
    pub label: String,
    /// Start of the turn in seconds since 1970.
    pub timestamp: i64,
    /// The thread of the turn.
    pub thread_id: String,
}

/// The answer of `POST /v1/snapshots/{id}/restore`.
#[wire(Eq)]
pub struct RestoredSnapshot {
    /// ID of the turn whose changes were reverted.
    pub restored: String,
    /// Result of restoring the files.
    pub files: RestoredFiles,
}
