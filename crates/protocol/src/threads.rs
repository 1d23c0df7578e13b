//! Conversations.

use serde::{Deserialize, Serialize};

use crate::answers::{PendingApproval, PendingUserInput};
use crate::budgets::Budget;
use crate::environments::TurnEnvironmentParams;
use crate::items::Item;
use crate::mode::Mode;
use crate::tools::{DynamicToolSpec, PendingToolCall};
use crate::turn_policy::turn_policy;
use crate::turns::{Status, Turn};

/// What becomes of an open turn when the daemon starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// Its open turn resumes.
    Resume,
    /// It ends as interrupted.
    Interrupt,
}

turn_policy! {
    /// A conversation with its settings.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct Thread: record {
        /// The version of this record.
        pub schema_version: u32,
        /// Identifies the thread.
        pub id: String,
        /// When it was made.
        pub created_at: String,
        /// When it was last changed or worked.
        pub updated_at: String,
        ..model,
        /// Who serves the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model_provider: Option<String>,
        /// The configured name of who serves the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model_provider_id: Option<String>,
        /// The model with the provider that serves it, as `provider/model`; missing where an external agent answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub qualified_model: Option<String>,
        /// The directory that clients show.
        pub workspace: String,
        ..permissions,
        /// The newest turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latest_turn_id: Option<String>,
        /// Whether lists leave it out.
        pub archived: bool,
        /// System prompt of the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub system_prompt: Option<String>,
        /// The task that it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub task_id: Option<String>,
        /// The name to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        /// How much the model should think.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reasoning_effort: Option<String>,
        /// Tools that clients run in every turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Where its turns may work, the default first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// What becomes of an open turn when the daemon starts again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub on_restart: Option<OnRestart>,
        /// The agent whose token made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Whether a remembered decision approves all calls; forks ask again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub approvals_remembered: bool,
        /// External agent that executes its turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub backend: Option<String>,
        /// How much it and each of its turns may use, where that is less than the operator allows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub budget: Option<Budget>,
        /// Who began it, where that was a model that started an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<ThreadParent>,
    }
}

/// The thread and the turn that another thread works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadParent {
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
}

/// The answer of `GET /v1/threads/{id}`: one consistent cut at `latest_seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadDetail {
    /// The thread after the request.
    pub thread: Thread,
    /// Its turns, oldest first.
    pub turns: Vec<Turn>,
    /// Their items, turn by turn.
    pub items: Vec<Item>,
    /// The number of the newest record that this shows.
    pub latest_seq: u64,
    /// Calls that need an approval.
    #[serde(default)]
    pub pending_approvals: Vec<PendingApproval>,
    /// Questions that wait for an answer.
    #[serde(default)]
    pub pending_user_inputs: Vec<PendingUserInput>,
    /// Calls that a client must execute.
    #[serde(default)]
    pub pending_dynamic_tool_calls: Vec<PendingToolCall>,
}

/// One line of a list of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadSummary {
    /// Identifies the thread.
    pub id: String,
    /// The name to show; never empty.
    pub title: String,
    /// The beginning of the last message.
    pub preview: String,
    /// Model, without its provider.
    pub model: String,
    /// External agent that executes its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// How freely the agent works.
    pub mode: Mode,
    /// Absolute path of the working directory.
    pub workspace: String,
    /// The branch of the directory, where it is a repository.
    pub branch: Option<String>,
    /// The commit of the directory.
    pub head: Option<String>,
    /// Whether the directory has changes.
    pub dirty: bool,
    /// Why the state of git is not known, and so neither the branch nor changes; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_unknown: Option<String>,
    /// Whether lists leave the thread out.
    pub archived: bool,
    /// When it was last changed or worked.
    pub updated_at: String,
    /// The newest turn.
    pub latest_turn_id: Option<String>,
    /// How far that is.
    pub latest_turn_status: Option<Status>,
}

turn_policy! {
    /// The body of `POST /v1/threads`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[serde(default)]
    pub struct CreateThread: request {
        ..model,
        /// Who serves the model.
        pub model_provider: Option<String>,
        /// The configured name of who serves the model.
        pub model_provider_id: Option<String>,
        /// Absolute path of the working directory. Default: the daemon's workspace.
        pub workspace: Option<String>,
        ..permissions,
        /// Whether lists leave it out.
        pub archived: Option<bool>,
        /// System prompt of the agent.
        pub system_prompt: Option<String>,
        /// The task that it belongs to.
        pub task_id: Option<String>,
        /// The name to show.
        pub title: Option<String>,
        ..reasoning_effort,
        /// Tools that clients run in every turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Where its turns may work.
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// What becomes of an open turn when the daemon starts again.
        pub on_restart: Option<OnRestart>,
        ..backend,
        /// How much it and each of its turns may use.
        pub budget: Option<Budget>,
    }
}

turn_policy! {
    /// The body of `PATCH /v1/threads/{id}`; an empty title or prompt clears it.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[serde(default)]
    pub struct PatchThread: request {
        /// Whether lists leave it out.
        pub archived: Option<bool>,
        ..permissions,
        ..model,
        /// The name to show.
        pub title: Option<String>,
        /// System prompt of the agent.
        pub system_prompt: Option<String>,
        /// Absolute path of the working directory. Default: the daemon's workspace.
        pub workspace: Option<String>,
        ..reasoning_effort,
        /// Tools that clients run in every turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Where its turns may work.
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// What becomes of an open turn when the daemon starts again.
        pub on_restart: Option<OnRestart>,
        /// How much it and each of its turns may use, in place of what was set before; `{}` is as much as the operator allows.
        pub budget: Option<Budget>,
    }
}

/// The answer of `POST …/fork`.
pub type ForkedThread = Thread;

/// A thread and a turn of it that was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ThreadAndTurn {
    /// The thread after the request.
    pub thread: Thread,
    /// The turn after the request.
    pub turn: Turn,
    /// What became of files, where they were to be brought back first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<RestoredFiles>,
}

/// The body of `POST …/fork`. What it does not name is refused: a misspelt turn must not become another fork.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ForkThread {
    /// The last turn that the fork has; without it, the last one that is at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The model of the fork, if not that of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The body of `POST …/undo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UndoThread {
    /// How many user turns before the last one are dropped too.
    pub depth: u32,
    /// Whether the files are brought back that the dropped turns changed. If that is refused, no thread is made either.
    pub files: bool,
    /// Whether what calls may have changed that were cut off with a daemon is taken back too; without it, that is refused.
    pub cut_off: bool,
}

/// What became of the files that turns changed; paths are relative to the root of their environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestoredFiles {
    /// What is as it was before the turns.
    pub restored: Vec<String>,
    /// Paths that differ and were not restored: too large, ignored, or a directory that contains other files.
    pub left: Vec<String>,
}

/// The answer of `POST …/undo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UndoneThread {
    /// The new thread.
    pub thread: Thread,
    /// Prompt of the first dropped turn.
    pub original_user_text: String,
    /// What became of the files, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<RestoredFiles>,
}

/// What became of files, in the words of clients that ask for it by `patch-undo`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchResult {
    /// Whether any is as it was before.
    pub files_restored: bool,
    /// Which, for people.
    pub summary: Option<String>,
    /// What was gone back to.
    pub snapshot_label: Option<String>,
}

/// The answer of `POST …/patch-undo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchUndone {
    /// What became of the files.
    pub patch_result: PatchResult,
    /// The new thread, and the files by name.
    #[serde(flatten)]
    pub undone: UndoneThread,
}

/// The body of `POST …/replay`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplayThread {
    /// The last turn that is decided again; without it, all of them are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// The answer of `POST …/replay`: whether what was recorded follows from what was said, answered and returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayedThread {
    /// How many records came out as they stand.
    pub records: usize,
    /// How many turns began among them.
    pub turns: usize,
    /// The turns that would work with another prompt, model or tools today.
    pub reconfigured: Vec<String>,
    /// The first record that came out differently; none when all are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
}

/// A record that came out differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Divergence {
    /// Its place among the records, from 0.
    pub index: usize,
    /// The kind of the record; none where the record ends before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The kind of what came out; none where nothing follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_out: Option<String>,
    /// Which part of it differs, or why there is none.
    pub detail: String,
}
