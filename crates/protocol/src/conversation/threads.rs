//! Threads: conversations with their settings.

use windlass_macros::wire;

use crate::answers::{PendingApproval, PendingUserInput};
use crate::budgets::Budget;
use crate::environments::TurnEnvironmentParams;
use crate::items::Item;
use crate::mode::Mode;
use crate::tools::{DynamicToolSpec, PendingToolCall};
use crate::turn_policy::turn_policy;
use crate::turns::{Status, Turn};

/// Handling of an open turn at a restart of the daemon.
#[wire(Copy, Eq, snake_case)]
pub enum OnRestart {
    /// The open turn resumes.
    Resume,
    /// The open turn ends as interrupted.
    Interrupt,
}

turn_policy! {
    /// A conversation with its settings.
    #[wire(omit_none)]
    pub struct Thread: record {
        /// The version of this record.
        pub schema_version: u32,
        /// ID of the thread, `thr_…`.
        pub id: String,
        /// Creation time, RFC 3339.
        pub created_at: String,
        /// Time of the last change or turn, RFC 3339.
        pub updated_at: String,
        ..model,
        /// Provider of the model.
        pub model_provider: Option<String>,
        /// Configured name of the provider.
        pub model_provider_id: Option<String>,
        /// Model with its provider, as `provider/model`; absent if an external agent executes the turns.
        pub qualified_model: Option<String>,
        /// Absolute path of the working directory.
        pub workspace: String,
        ..permissions,
        /// ID of the newest turn.
        pub latest_turn_id: Option<String>,
        /// Whether it is archived, so that lists omit it by default.
        pub archived: bool,
        /// System prompt of the agent.
        pub system_prompt: Option<String>,
        /// Task of the thread.
        pub task_id: Option<String>,
        /// Title for display.
        pub title: Option<String>,
        /// Reasoning effort of the model.
        pub reasoning_effort: Option<String>,
        /// Client tools of every turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Environments of the turns, the default one first.
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// Handling of an open turn at a restart of the daemon.
        pub on_restart: Option<OnRestart>,
        /// Agent whose token created the thread.
        pub agent: Option<String>,
        /// Whether a remembered decision approves all calls. A fork does not inherit it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub approvals_remembered: bool,
        /// External agent that executes its turns.
        pub backend: Option<String>,
        /// Budget of the thread and its turns, in addition to the operator's limits.
        pub budget: Option<Budget>,
        /// Parent of the thread, if a model started it as an agent.
        pub parent: Option<ThreadParent>,
    }
}

/// The thread and the turn that started an agent's thread.
#[wire(Eq)]
pub struct ThreadParent {
    /// ID of the thread, `thr_…`.
    pub thread_id: String,
    /// ID of the turn, `turn_…`.
    pub turn_id: String,
}

/// The answer of `GET /v1/threads/{id}`: one consistent cut at `latest_seq`.
#[wire]
pub struct ThreadDetail {
    /// The thread after the request.
    pub thread: Thread,
    /// Turns, oldest first.
    pub turns: Vec<Turn>,
    /// Items of the turns, turn by turn.
    pub items: Vec<Item>,
    /// Sequence number of the newest record in this snapshot.
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
#[wire]
pub struct ThreadSummary {
    /// ID of the thread, `thr_…`.
    pub id: String,
    /// Title; never empty.
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
    /// Git branch of the directory, if it is in a repository.
    pub branch: Option<String>,
    /// Short commit of the directory.
    pub head: Option<String>,
    /// Whether the directory has uncommitted changes.
    pub dirty: bool,
    /// Why the git status is unknown; absent if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_unknown: Option<String>,
    /// Whether the thread is archived, so that lists omit it by default.
    pub archived: bool,
    /// Time of the last change or turn, RFC 3339.
    pub updated_at: String,
    /// ID of the newest turn.
    pub latest_turn_id: Option<String>,
    /// Status of the newest turn.
    pub latest_turn_status: Option<Status>,
}

turn_policy! {
    /// The body of `POST /v1/threads`.
    #[wire(Default)]
    #[serde(default)]
    pub struct CreateThread: request {
        ..model,
        /// Provider of the model.
        pub model_provider: Option<String>,
        /// Configured name of the provider.
        pub model_provider_id: Option<String>,
        /// Absolute path of the working directory. Default: the daemon's workspace.
        pub workspace: Option<String>,
        ..permissions,
        /// Whether it is archived, so that lists omit it by default.
        pub archived: Option<bool>,
        /// System prompt of the agent.
        pub system_prompt: Option<String>,
        /// Task of the thread.
        pub task_id: Option<String>,
        /// Title for display.
        pub title: Option<String>,
        ..reasoning_effort,
        /// Client tools of every turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Environments of the turns.
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// Handling of an open turn at a restart of the daemon.
        pub on_restart: Option<OnRestart>,
        ..backend,
        /// Budget of the thread and its turns.
        pub budget: Option<Budget>,
    }
}

turn_policy! {
    /// The body of `PATCH /v1/threads/{id}`; an empty title or prompt clears it.
    #[wire(Default)]
    #[serde(default)]
    pub struct PatchThread: request {
        /// Whether it is archived, so that lists omit it by default.
        pub archived: Option<bool>,
        ..permissions,
        ..model,
        /// Title for display.
        pub title: Option<String>,
        /// System prompt of the agent.
        pub system_prompt: Option<String>,
        /// Absolute path of the working directory. Default: the daemon's workspace.
        pub workspace: Option<String>,
        ..reasoning_effort,
        /// Client tools of every turn.
        pub dynamic_tools: Option<Vec<DynamicToolSpec>>,
        /// Environments of the turns.
        pub environments: Option<Vec<TurnEnvironmentParams>>,
        /// Handling of an open turn at a restart of the daemon.
        pub on_restart: Option<OnRestart>,
        /// Budget that replaces the previous one; `{}` leaves only the operator's limits.
        pub budget: Option<Budget>,
    }
}

/// The answer of `POST …/fork`.
pub type ForkedThread = Thread;

/// A thread and its started turn.
#[wire(omit_none)]
pub struct ThreadAndTurn {
    /// The thread after the request.
    pub thread: Thread,
    /// The turn after the request.
    pub turn: Turn,
    /// Restored files, if the request includes files.
    pub files: Option<RestoredFiles>,
}

/// The body of `POST …/fork`. An unknown field is refused, because a misspelt turn would create a different fork.
#[wire(Default, Eq, omit_none)]
#[serde(deny_unknown_fields)]
pub struct ForkThread {
    /// Last turn of the fork. Default: the last one that has ended.
    pub turn_id: Option<String>,
    /// Model of the fork. Default: the model of the thread.
    pub model: Option<String>,
}

/// The body of `POST …/undo`.
#[wire(Default, Eq)]
#[serde(default)]
pub struct UndoThread {
    /// Number of user turns to drop in addition to the last one.
    pub depth: u32,
    /// Whether to restore the files that the dropped turns changed. If that fails, no thread is created.
    pub files: bool,
    /// Whether to also revert possible changes of calls that were cut off by a crash; otherwise such files are refused.
    pub cut_off: bool,
}

/// Result of restoring the files of turns. Paths are relative to the root of their environment.
#[wire(Default, Eq)]
pub struct RestoredFiles {
    /// Paths that were restored.
    pub restored: Vec<String>,
    /// Paths that differ and were not restored: too large, ignored, or a directory that contains other files.
    pub left: Vec<String>,
}

/// The answer of `POST …/undo`.
#[wire(omit_none)]
pub struct UndoneThread {
    /// The new thread.
    pub thread: Thread,
    /// Prompt of the first dropped turn.
    pub original_user_text: String,
    /// Restored files, if the request includes files.
    pub files: Option<RestoredFiles>,
}

/// Result of restoring files, in the format of `patch-undo`.
#[wire(Default, Eq)]
pub struct PatchResult {
    /// Whether any file was restored.
    pub files_restored: bool,
    /// Summary for people.
    pub summary: Option<String>,
    /// Label of the restored snapshot.
    pub snapshot_label: Option<String>,
}

/// The answer of `POST …/patch-undo`.
#[wire]
pub struct PatchUndone {
    /// Result of restoring the files.
    pub patch_result: PatchResult,
    /// The new thread and the restored files.
    #[serde(flatten)]
    pub undone: UndoneThread,
}

/// The body of `POST …/replay`.
#[wire(Default, Eq, omit_none)]
#[serde(deny_unknown_fields)]
pub struct ReplayThread {
    /// Last turn to replay. Default: all turns.
    pub turn_id: Option<String>,
}

/// The answer of `POST …/replay`: whether the recorded decisions follow from the recorded inputs.
#[wire(Eq, omit_none)]
pub struct ReplayedThread {
    /// Number of reproduced records.
    pub records: usize,
    /// Number of turns among them.
    pub turns: usize,
    /// Turns that would use another prompt, model or other tools today.
    pub reconfigured: Vec<String>,
    /// First difference; absent if all records are reproduced.
    pub divergence: Option<Divergence>,
}

/// A difference between a record and its replay.
#[wire(Eq, omit_none)]
pub struct Divergence {
    /// Index of the record, from 0.
    pub index: usize,
    /// Kind of the record; absent if the record ends before.
    pub recorded: Option<String>,
    /// Kind of the replayed event; absent if the replay ends before.
    pub came_out: Option<String>,
    /// The difference, or why an event is missing.
    pub detail: String,
}
