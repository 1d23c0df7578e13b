//! Runs: turns of this daemon's threads and runs that other programs reported, in one list.

use serde::{Deserialize, Serialize};

use crate::turns::{TokenUsage, WaitKind};

/// Origin of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A turn of a thread.
    Turn,
    /// A run that another program reported.
    Reported,
}

/// Status of a run: its outcome, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It has not ended.
    InProgress,
    /// It reached its goal.
    Success,
    /// It reached a part of its goal.
    PartialSuccess,
    /// It ended without a judgement.
    Done,
    /// The agent reported a failure, or the turn failed.
    Failure,
    /// Its time was over.
    Timeout,
    /// Its model calls were exhausted, or the agent gave up.
    GiveUp,
    /// Its agent disappeared without an outcome.
    Incomplete,
    /// It was cancelled or interrupted.
    Cancelled,
}

/// A line of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunLine {
    /// ID of the run. The ID of a turn's run is that of the turn.
    pub id: String,
    /// Origin of the run.
    pub kind: RunKind,
    /// The agent that owns the run; `windlass:main` for threads of clients.
    pub agent: String,
    /// Goal of the run.
    pub intent: String,
    /// Status at the time of the response.
    pub status: RunState,
    /// Number of its records between start and end.
    pub steps: u64,
    /// Start time, RFC 3339.
    pub started_at: String,
    /// End time, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The thread of a turn, `thr_…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Model of a turn; absent before its first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Usage of a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Kinds of input that the turn waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_for: Vec<WaitKind>,
}
