//! Tasks: queued, unattended work, each in a thread of its own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mode::Mode;
use crate::turn_policy::turn_policy;
use crate::turns::{UnapprovedCalls, WaitKind};

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It waits for a worker.
    #[default]
    Queued,
    /// A worker has it.
    Running,
    /// It was done.
    Completed,
    /// It was not done.
    Failed,
    /// It was called off.
    Canceled,
}

/// What a held job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// Fewer threads: the limit is reached.
    NoRoom,
    /// A budget to renew or to be raised.
    Budget,
    /// A model, a backend or another part of the configuration.
    Configuration,
    /// Its environment or directory.
    Environment,
    /// A readable token file.
    Token,
    /// The store, which cannot write now.
    Store,
    /// The next start of the daemon.
    Shutdown,
    /// The removal of an internal fault; the daemon's log names it.
    Fault,
}

/// Why a job does not run now. It is not at its end, and resumes when the cause is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobHold {
    /// What it waits for.
    pub cause: HoldCause,
    /// Details for people.
    pub reason: String,
    /// When it was last tried.
    pub tried_at: String,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
}

turn_policy! {
    /// The body of `POST /v1/tasks`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct CreateTask: request {
        /// Prompt of the task.
        pub prompt: String,
        ..model,
        /// The directory to work in, inside of the daemon's workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub workspace: Option<String>,
        ..permissions,
        ..backend,
        /// Attempts while it fails, 1 to 10. Default: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_attempts: Option<u32>,
    }
}

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskSummary {
    /// Identifies the task.
    pub id: String,
    /// Where it is.
    pub status: TaskStatus,
    /// What its turn waits for; null if it does not wait.
    #[serde(default)]
    pub waiting_for: Option<Vec<WaitKind>>,
    /// The beginning of the prompt.
    pub prompt_summary: String,
    /// Model, without its provider.
    pub model: String,
    /// How freely the agent works.
    pub mode: Mode,
    /// When it was asked for.
    pub created_at: String,
    /// When its first attempt began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took from its first attempt to its end.
    pub duration_ms: Option<u64>,
    /// Why it was not done, why its last attempt failed, or why it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The thread that it runs on, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The turn of its newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Why it does not run now, although it is not at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<JobHold>,
    /// Calls of its last turn that did not run for want of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// Number of tasks by status. Ended tasks count from the creation of the store, including removed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskCounts {
    /// Queued or held tasks.
    pub queued: u64,
    /// Tasks with an open turn.
    pub running: u64,
    /// Tasks that ended with an answer.
    pub completed: u64,
    /// Tasks that failed after their last attempt.
    pub failed: u64,
    /// Tasks that a client cancelled.
    pub canceled: u64,
}

/// The answer of `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskList {
    /// The tasks, the newest first.
    pub tasks: Vec<TaskSummary>,
    /// How many there are of all owners.
    pub counts: TaskCounts,
    /// The `cursor` of the next page; over HTTP it is the header `x-windlass-next-cursor`.
    #[serde(skip)]
    pub next: Option<String>,
}

turn_policy! {
    /// A whole task.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct TaskRecord: record {
        /// The version of this record.
        pub schema_version: u32,
        /// Identifies the task.
        pub id: String,
        /// Prompt of the task.
        pub prompt: String,
        ..model,
        /// The directory to work in.
        pub workspace: String,
        ..permissions,
        /// Where it is.
        pub status: TaskStatus,
        /// What its turn waits for; null if it does not wait.
        #[serde(default)]
        pub waiting_for: Option<Vec<WaitKind>>,
        /// When it was asked for.
        pub created_at: String,
        /// When its first attempt began.
        pub started_at: Option<String>,
        /// When it ended.
        pub ended_at: Option<String>,
        /// How long it took from its first attempt to its end.
        pub duration_ms: Option<u64>,
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub result_summary: Option<String>,
        /// Never there: the whole result is in the thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub result_detail_path: Option<String>,
        /// Why it was not done, why its last attempt failed, or why it is held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        /// The thread that it runs on, once it has begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub thread_id: Option<String>,
        /// The turn of its newest attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub turn_id: Option<String>,
        /// How many records its thread has.
        pub runtime_event_count: u64,
        /// How many records the task itself has.
        pub lifecycle_seq: u64,
        /// What is to be ticked off; the daemon keeps no such list.
        pub checklist: TaskChecklist,
        /// Checks that were run; the daemon runs none.
        pub gates: Vec<Value>,
        /// Proposed changes to choose from; the daemon makes none.
        pub attempts: Vec<Value>,
        /// Files beside the thread; there are none.
        pub artifacts: Vec<Value>,
        /// What was done at GitHub; nothing is.
        pub github_events: Vec<Value>,
        /// The calls of its newest attempt, in their order.
        pub tool_calls: Vec<TaskToolCall>,
        /// What happened to it, in order.
        pub timeline: Vec<TimelineEntry>,
        /// How often it was begun.
        #[serde(default)]
        pub attempt_count: u32,
        /// How often it is begun at most.
        #[serde(default)]
        pub max_attempts: u32,
        /// External agent that executes its turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub backend: Option<String>,
        /// Why it does not run now, although it is not at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub held: Option<JobHold>,
        /// Calls of its last turn that did not run for want of an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub unapproved_calls: Option<UnapprovedCalls>,
    }
}

/// What is to be ticked off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskChecklist {
    /// Always empty: the daemon creates no checklist.
    pub items: Vec<Value>,
    /// How much of it is done, in percent.
    pub completion_pct: u8,
    /// The entry that is worked on.
    pub in_progress_id: Option<u32>,
    /// When it was changed.
    pub updated_at: Option<String>,
}

/// Status of a call of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskToolStatus {
    /// The call is running or parked.
    Running,
    /// It was done.
    Success,
    /// Ended with an error.
    Failed,
    /// It was cut short.
    Canceled,
}

/// A call of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskToolCall {
    /// Identifies the call: the item of the thread.
    pub id: String,
    /// Name of the tool, with its namespace.
    pub name: String,
    /// Status of the call.
    pub status: TaskToolStatus,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// What it was called with, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_summary: Option<String>,
}

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimelineEntry {
    /// Time of the entry, RFC 3339.
    pub timestamp: String,
    /// What, in one word.
    pub kind: String,
    /// Short description for people.
    pub summary: String,
    /// Never there: the thread has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail_path: Option<String>,
}
