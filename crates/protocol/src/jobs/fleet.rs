//! Fleet runs: many tasks, distributed over workers that are threads of the daemon.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_macros::wire;

use crate::tasks::JobHold;
use crate::turn_policy::turn_policy;
use crate::turns::UnapprovedCalls;

/// The body of `POST /v1/fleet/runs`.
#[wire(Default, omit_none)]
pub struct CreateFleetRun {
    /// Name for people. Default: the ID of the workflow.
    pub name: Option<String>,
    /// Target of the run; only `this_computer` is supported.
    pub target: Option<String>,
    /// Roles for tasks. If present, a task may name no other role.
    pub roles: Option<Vec<FleetRole>>,
    /// The tasks, as a named workflow.
    pub workflow: Option<FleetWorkflow>,
    /// The tasks, if there is no workflow.
    pub tasks: Option<Vec<FleetTaskSpec>>,
    /// The workers, instead of `max_workers`.
    pub workers: Option<Vec<FleetWorkerRequest>>,
    /// Number of workers, 1 to 64. Default: the number of tasks, at most 8.
    pub max_workers: Option<usize>,
    /// Labels of the client.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether the run starts immediately. Default: it waits for `POST …/start`.
    pub start: Option<bool>,
    /// Refused: the task defines what its worker may do.
    pub security_policy: Option<Value>,
}

/// A role that tasks name.
#[wire(Default, omit_none)]
pub struct FleetRole {
    /// Name, unique in its list.
    pub name: String,
    /// Refused: there are no profiles.
    pub agent_profile: Option<String>,
}

/// A named list of tasks.
#[wire(Default, omit_none)]
pub struct FleetWorkflow {
    /// Name that threads and requests use.
    pub id: String,
    /// `parallel`.
    pub kind: Option<String>,
    /// Tasks with IDs that are unique in the run.
    #[serde(alias = "task_specs")]
    pub tasks: Vec<FleetTaskSpec>,
}

/// A worker that a client requests.
#[wire(Default, omit_none)]
pub struct FleetWorkerRequest {
    /// Role of the worker.
    pub role: Option<String>,
    /// External agent that executes its turns. Default: the daemon's own loop.
    pub backend: Option<String>,
}

turn_policy! {
    /// A task of a run, as requested.
    #[wire(Default, omit_none)]
    pub struct FleetTaskSpec: request {
        /// ID of the task, unique in its run.
        pub id: String,
        /// Name for people.
        pub name: Option<String>,
        /// Short description of the goal.
        pub objective: Option<String>,
        /// Prompt of the task.
        pub instructions: String,
        /// Requirements for the worker.
        pub worker: Option<FleetTaskWorker>,
        /// Working directory of the task.
        pub workspace: Option<FleetTaskWorkspace>,
        /// Paths of files that the agent should read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub input_files: Vec<String>,
        /// Texts that are appended to the instructions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub context: Vec<String>,
        /// Retry policy of the task.
        pub retry_policy: Option<FleetRetryPolicy>,
        ..backend,
        /// How freely the agent works.
        pub mode: Option<String>,
        ..unattended,
        /// Refused: use the budgets of the daemon or of the token.
        pub budget: Option<Value>,
        /// Refused: the daemon does not judge results.
        pub scorer: Option<Value>,
        /// Refused: the daemon sends no alerts.
        pub alert_policy: Option<Value>,
        /// Refused: a task ends with its turn.
        pub timeout_seconds: Option<u64>,
        /// Refused: the daemon collects no artifacts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub expected_artifacts: Vec<Value>,
    }
}

/// The worker that a task requires.
#[wire(Default, omit_none)]
pub struct FleetTaskWorker {
    /// Role of the worker.
    pub role: Option<String>,
    /// Model of the worker.
    pub model: Option<String>,
    /// Refused: there are no profiles.
    #[serde(default, alias = "profile", skip_serializing_if = "Option::is_none")]
    pub agent_profile: Option<String>,
    /// Refused: there are no profiles.
    pub tool_profile: Option<String>,
    /// Refused: the task's `mode` and permissions limit the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Refused, as `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// The working directory of a task.
#[wire(Default, omit_none)]
pub struct FleetTaskWorkspace {
    /// Absolute path of the working directory. Default: the daemon's workspace.
    pub root: Option<String>,
    /// Refused: the daemon does not check files before a task starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_files: Vec<String>,
    /// Refused: the environment defines the writable paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable_paths: Vec<String>,
    /// Refused: the operator defines the variables.
    pub environment: Option<Value>,
}

/// Retry policy of a task.
#[wire(Default)]
pub struct FleetRetryPolicy {
    /// Maximum number of attempts, 1 to 10.
    pub max_attempts: u32,
}

/// Counts of a run, or of all runs of a list.
#[wire(Default, Eq)]
pub struct FleetStatus {
    /// Number of runs; in a list, including other pages.
    pub runs: u64,
    /// Tasks that wait for a worker.
    pub queued: u64,
    /// Tasks that a worker executes.
    pub running: u64,
    /// Number of completed tasks.
    pub completed: u64,
    /// Always 0: a task is completed or not.
    pub partial: u64,
    /// Tasks that failed after their last attempt.
    pub failed: u64,
    /// Attempts that a client restarted.
    pub restarted: u64,
    /// Always 0: the daemon does not escalate.
    pub escalated: u64,
    /// Always 0: workers are threads of the daemon.
    pub transport_failed: u64,
    /// Same as `failed`.
    pub task_failed: u64,
    /// Always 0: the daemon does not verify results.
    pub verifier_failed: u64,
    /// Number of cancelled tasks.
    pub cancelled: u64,
    /// Workers with a task and without a recent event.
    pub stale: u64,
    /// Status of each worker.
    pub workers: BTreeMap<String, FleetWorkerStatus>,
}

/// Status of a worker.
#[wire(Copy, Eq, snake_case)]
pub enum FleetWorkerStatus {
    /// The worker has no task.
    Online,
    /// The call has a result.
    Busy,
    /// The worker has a task, but its thread has no recent event.
    Unhealthy,
    /// The worker's task is being interrupted.
    Draining,
    /// The run has ended.
    Retired,
}

/// Status of a run.
#[wire(Copy, Eq, snake_case)]
pub enum FleetRunStatus {
    /// The run has not been started.
    Pending,
    /// No task has started.
    Queued,
    /// At least one task has started.
    Running,
    /// All tasks completed.
    Completed,
    /// At least one task did not complete.
    Failed,
    /// The run was stopped.
    Cancelled,
}

/// Status of a task of a run.
#[wire(Copy, Eq, snake_case)]
pub enum FleetTaskStatus {
    /// The task waits for a worker.
    Enqueued,
    /// A worker executes the task.
    Leased,
    /// The task completed.
    Completed,
    /// The task failed after its last attempt.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

/// The state of a task of a run.
#[wire(Eq, omit_none)]
pub struct FleetTaskState {
    /// ID of the task in its run.
    pub task_id: String,
    /// Status at the time of the response.
    pub status: FleetTaskStatus,
    /// Worker that executes the task.
    #[null]
    pub leased_to: Option<String>,
    /// Number of attempts that were started.
    pub attempts: u32,
    /// Attempts that a client restarted.
    #[serde(default)]
    pub restarts: u32,
    /// Thread of the attempts; absent until the first one starts.
    pub thread_id: Option<String>,
    /// Short form of the result.
    pub summary: Option<String>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Why the job is held; absent if it is not held.
    pub held: Option<JobHold>,
    /// Calls of the last turn that did not run because they were not approved.
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// A run of the fleet with the state of its tasks.
#[wire(Eq)]
pub struct FleetRun {
    /// Unique ID in the daemon.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Status at the time of the response.
    pub lifecycle_status: FleetRunStatus,
    /// Counts of tasks and workers.
    pub status: FleetStatus,
    /// `this_computer`.
    pub target: String,
    /// Roles of the tasks.
    pub roles: Vec<String>,
    /// Number of tasks.
    pub task_count: usize,
    /// Number of workers.
    pub worker_count: usize,
    /// Tasks in the order of the request.
    pub tasks: Vec<FleetTaskState>,
    /// Labels of the client.
    pub labels: BTreeMap<String, String>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Time of the last change.
    pub updated_at: Option<String>,
    /// End of the last task.
    pub completed_at: Option<String>,
}

/// The answer of `GET /v1/fleet/runs`.
#[wire(Eq)]
pub struct FleetRunList {
    /// Counts of all runs.
    pub status: FleetStatus,
    /// The runs, newest first.
    pub runs: Vec<FleetRun>,
}

/// A run with its request.
#[wire]
pub struct FleetRunDetail {
    /// The run after the request.
    #[serde(flatten)]
    pub run: FleetRun,
    /// The requested tasks.
    pub task_specs: Vec<FleetTaskSpec>,
    /// The workers of the run.
    pub worker_specs: Vec<FleetWorkerSpec>,
}

/// A worker of a run.
#[wire(omit_none)]
pub struct FleetWorkerSpec {
    /// Unique ID in the daemon.
    pub id: String,
    /// Name of the worker in the run.
    pub name: String,
    /// `{"kind": "local"}`.
    pub host: Value,
    /// Always 1: a worker executes one task at a time.
    pub max_concurrent_tasks: usize,
    /// Role of the worker.
    pub role: Option<String>,
    /// External agent that executes its turns.
    pub backend: Option<String>,
}

/// The answer of `POST /v1/fleet/runs`.
#[wire]
pub struct CreatedFleetRun {
    /// `awaiting_start`, or `scheduled` if the run starts immediately.
    pub execution: String,
    /// The run after the request.
    pub run: FleetRunDetail,
    /// Warnings about the request.
    pub warnings: Vec<String>,
}

/// The answer of `POST /v1/fleet/runs/{id}/start`.
#[wire(Eq)]
pub struct StartedFleetRun {
    /// `start`.
    pub action: String,
    /// `scheduled`.
    pub execution: String,
    /// ID of the run.
    pub run_id: String,
    /// `this_computer`.
    pub target: String,
    /// Number of tasks that workers execute.
    pub leased: u64,
    /// Number of tasks that wait for a worker.
    pub queued: u64,
    /// IDs of the workers.
    pub worker_ids: Vec<String>,
}

/// The answer of `POST /v1/fleet/runs/{id}/stop`.
#[wire(Eq)]
pub struct StoppedFleetRun {
    /// `stop`.
    pub action: String,
    /// ID of the run.
    pub run_id: String,
    /// Number of tasks that had not ended.
    pub stopped: u64,
    /// Counts of tasks and workers.
    pub status: FleetStatus,
}

/// The answer of `GET /v1/fleet/runs/{id}/workers`.
#[wire]
pub struct FleetWorkerList {
    /// ID of the run.
    pub run_id: String,
    /// Workers in the order of the request.
    pub workers: Vec<FleetWorker>,
}

/// The state of a worker.
#[wire]
pub struct FleetWorker {
    /// ID of the worker, unique in the daemon.
    pub worker_id: String,
    /// Status at the time of the response.
    pub status: FleetWorkerStatus,
    /// ID of the run.
    pub run_id: Option<String>,
    /// ID of the worker's task.
    pub task_id: Option<String>,
    /// Goal of the task.
    pub objective: Option<String>,
    /// Role of the worker.
    pub role: Option<String>,
    /// `local`.
    pub host: Option<String>,
    /// Time of the newest event of the task's thread.
    pub latest_heartbeat_at: Option<String>,
    /// Newest event of the worker's thread.
    pub latest_event: Option<FleetWorkerEvent>,
    /// Always empty; the thread contains the files.
    pub artifacts: Vec<Value>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// Always `null`.
    pub alert_state: Option<Value>,
    /// State of the worker's thread.
    pub runtime_state: Option<FleetWorkerRuntime>,
    /// Thread of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// External agent that executes its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

/// The newest event of a worker's thread.
#[wire]
pub struct FleetWorkerEvent {
    /// Sequence number in the thread.
    pub seq: u64,
    /// ID of the run.
    pub run_id: String,
    /// ID of the worker.
    pub worker_id: String,
    /// ID of the task in its run.
    pub task_id: String,
    /// Time of the record.
    pub timestamp: String,
    /// `running` or `stale`.
    pub label: String,
    /// Object with the label as `state`.
    pub payload: Value,
}

/// State of a worker's thread.
#[wire(Eq)]
pub struct FleetWorkerRuntime {
    /// `starting`, `running`, `waiting_for_user`, `completed`, `failed` or `interrupted`.
    pub agent_status: String,
    /// Number of model calls and tool calls that the turn has started.
    pub steps_taken: u64,
    /// Beginning of the newest message.
    pub latest_message: Option<String>,
    /// Why the turn failed.
    pub error: Option<String>,
    /// Result of the job.
    pub result_summary: Option<String>,
    /// Whether the thread exists.
    pub has_session: bool,
}

/// The answer of `POST /v1/fleet/workers/{id}/interrupt`, `restart` and `stop`.
#[wire(omit_none)]
pub struct FleetWorkerCommandResult {
    /// The command that was sent: `interrupt`, `restart` or `stop`.
    pub action: String,
    /// `scheduled`, of a restart.
    pub execution: Option<String>,
    /// ID of the run.
    pub run_id: String,
    /// The worker after the command.
    pub worker: FleetWorker,
}

/// An event of a fleet run.
#[wire(omit_none)]
pub struct FleetRunEvent {
    /// Cursor of the position after this event.
    pub cursor: String,
    /// Name: `fleet.run.created`, `fleet.run.status_changed`, `fleet.task.leased`, `fleet.task.enqueued`,
    /// `fleet.task.terminal`, `fleet.worker.interrupted` or `fleet.worker.restarted`.
    pub event: String,
    /// ID of the run.
    pub run_id: String,
    /// ID of the worker.
    pub worker_id: Option<String>,
    /// ID of the task in its run.
    pub task_id: Option<String>,
    /// Time of the event, RFC 3339.
    pub timestamp: String,
    /// Details, depending on the event.
    pub payload: Value,
}

/// The answer of `GET /v1/fleet/runs/{id}/events/replay`.
#[wire]
pub struct FleetEventReplay {
    /// ID of the run.
    pub run_id: String,
    /// Events in the order of their cursors.
    pub events: Vec<FleetRunEvent>,
    /// Whether more events are available now.
    pub has_more: bool,
    /// Whether older events were removed.
    pub history_truncated: bool,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
}
