//! Tasks: queued, unattended work, each in a thread of its own.

use serde_json::Value;
use windlass_macros::wire;

use crate::mode::Mode;
use crate::turn_policy::turn_policy;
use crate::turns::{UnapprovedCalls, WaitKind};

/// Status of a task.
#[wire(Copy, Eq, Hash, Default, snake_case)]
pub enum TaskStatus {
    /// The task waits for a worker.
    #[default]
    Queued,
    /// A worker executes the task.
    Running,
    /// The task completed.
    Completed,
    /// The task failed.
    Failed,
    /// The task was cancelled.
    Canceled,
}

/// Cause for which a job is held.
#[wire(Copy, Eq, Hash, snake_case)]
pub enum HoldCause {
    /// The limit on threads is reached.
    NoRoom,
    /// A budget is used up.
    Budget,
    /// A model, a backend or another part of the configuration is missing.
    Configuration,
    /// The environment or directory is missing.
    Environment,
    /// The token file cannot be read.
    Token,
    /// The store cannot write.
    Store,
    /// The daemon is shutting down.
    Shutdown,
    /// An internal error, which is in the daemon's log.
    Fault,
}

/// Why a job is held. It resumes when the cause is gone.
#[wire(Eq, omit_none)]
pub struct JobHold {
    /// What the job or turn waits for.
    pub cause: HoldCause,
    /// Details for people.
    pub reason: String,
    /// Time of the last attempt to start.
    pub tried_at: String,
    /// Time of the next attempt to start.
    pub retry_at: Option<String>,
}

turn_policy! {
    /// The body of `POST /v1/tasks`.
    #[wire(Default, Eq, omit_none)]
    pub struct CreateTask: request {
        /// Prompt of the task.
        pub prompt: String,
        ..model,
        /// Working directory, inside the daemon's workspace.
        pub workspace: Option<String>,
        ..permissions,
        ..backend,
        /// Attempts while it fails, 1 to 10. Default: 1.
        pub max_attempts: Option<u32>,
    }
}

/// A task in a list.
#[wire(Eq)]
pub struct TaskSummary {
    /// ID of the task.
    pub id: String,
    /// Status at the time of the response.
    pub status: TaskStatus,
    /// Kinds of input that the turn waits for; null if it is not parked.
    #[serde(default)]
    pub waiting_for: Option<Vec<WaitKind>>,
    /// The beginning of the prompt.
    pub prompt_summary: String,
    /// Model, without its provider.
    pub model: String,
    /// How freely the agent works.
    pub mode: Mode,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Start of the first attempt, RFC 3339.
    pub started_at: Option<String>,
    /// End time, RFC 3339.
    pub ended_at: Option<String>,
    /// Time from the first attempt to the end, in milliseconds.
    pub duration_ms: Option<u64>,
    /// Why the task or its last attempt failed, or why the task is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Thread of the task; absent until the task starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Turn of the newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Why the job is held; absent if it is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<JobHold>,
    /// Calls of the last turn that did not run because they were not approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// Number of tasks by status. Ended tasks count from the creation of the store, including removed ones.
#[wire(Copy, Default, Eq)]
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
#[wire(Default, Eq)]
pub struct TaskList {
    /// The tasks, the newest first.
    pub tasks: Vec<TaskSummary>,
    /// Counts of the tasks of all owners; for an agent, of the listed ones.
    pub counts: TaskCounts,
    /// The `cursor` of the next page; over HTTP it is the header `x-windlass-next-cursor`.
    #[serde(skip)]
    pub next: Option<String>,
}

turn_policy! {
    /// A task with its timeline.
    #[wire(Default, omit_none)]
    pub struct TaskRecord: record {
        /// The version of this record.
        pub schema_version: u32,
        /// ID of the task.
        pub id: String,
        /// Prompt of the task.
        pub prompt: String,
        ..model,
        /// Absolute path of the working directory.
        pub workspace: String,
        ..permissions,
        /// Status at the time of the response.
        pub status: TaskStatus,
        /// Kinds of input that the turn waits for; null if it is not parked.
        #[serde(default)]
        #[null]
        pub waiting_for: Option<Vec<WaitKind>>,
        /// Creation time, RFC 3339.
        pub created_at: String,
        /// Start of the first attempt, RFC 3339.
        #[null]
        pub started_at: Option<String>,
        /// End time, RFC 3339.
        #[null]
        pub ended_at: Option<String>,
        /// Time from the first attempt to the end, in milliseconds.
        #[null]
        pub duration_ms: Option<u64>,
        /// Result of the job.
        pub result_summary: Option<String>,
        /// Never present; the thread contains the complete result.
        pub result_detail_path: Option<String>,
        /// Why the task or its last attempt failed, or why the task is held.
        pub error: Option<String>,
        /// Thread of the task; absent until the task starts.
        pub thread_id: Option<String>,
        /// Turn of the newest attempt.
        pub turn_id: Option<String>,
        /// Number of records of the thread.
        pub runtime_event_count: u64,
        /// Number of records of the task itself.
        pub lifecycle_seq: u64,
        /// Checklist; always empty.
        pub checklist: TaskChecklist,
        /// Checks; always empty.
        pub gates: Vec<Value>,
        /// Proposed changes; always empty.
        pub attempts: Vec<Value>,
        /// Files outside the thread; always empty.
        pub artifacts: Vec<Value>,
        /// Events at GitHub; always empty.
        pub github_events: Vec<Value>,
        /// Tool calls of the newest attempt, in their order.
        pub tool_calls: Vec<TaskToolCall>,
        /// Timeline of the task, oldest first.
        pub timeline: Vec<TimelineEntry>,
        /// Number of attempts that were started.
        #[serde(default)]
        pub attempt_count: u32,
        /// Maximum number of attempts.
        #[serde(default)]
        pub max_attempts: u32,
        /// External agent that executes its turns.
        pub backend: Option<String>,
        /// Why the job is held; absent if it is not held.
        pub held: Option<JobHold>,
        /// Calls of the last turn that did not run because they were not approved.
        pub unapproved_calls: Option<UnapprovedCalls>,
    }
}

/// The checklist of a task.
#[wire(Default)]
pub struct TaskChecklist {
    /// Always empty: the daemon creates no checklist.
    pub items: Vec<Value>,
    /// Completed share in percent.
    pub completion_pct: u8,
    /// ID of the current entry.
    pub in_progress_id: Option<u32>,
    /// Time of the last change.
    pub updated_at: Option<String>,
}

/// Status of a call of a task.
#[wire(Copy, Eq, Hash, snake_case)]
pub enum TaskToolStatus {
    /// The call is running or parked.
    Running,
    /// The call completed.
    Success,
    /// Ended with an error.
    Failed,
    /// The call was interrupted.
    Canceled,
}

/// A call of a task.
#[wire(Eq)]
pub struct TaskToolCall {
    /// ID of the call's item.
    pub id: String,
    /// Name of the tool, with its namespace.
    pub name: String,
    /// Status of the call.
    pub status: TaskToolStatus,
    /// Start time, RFC 3339.
    pub started_at: String,
    /// End time, RFC 3339.
    pub ended_at: Option<String>,
    /// Duration in milliseconds.
    pub duration_ms: Option<u64>,
    /// Short form of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_summary: Option<String>,
}

/// An entry of a task's timeline.
#[wire(Eq, omit_none)]
pub struct TimelineEntry {
    /// Time of the entry, RFC 3339.
    pub timestamp: String,
    /// Kind of the entry.
    pub kind: String,
    /// Short description for people.
    pub summary: String,
    /// Never present; the thread contains the details.
    pub detail_path: Option<String>,
}
