//! Fleets: runs of many tasks over workers that are threads of the daemon.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tasks::JobHold;
use crate::turn_policy::turn_policy;
use crate::turns::UnapprovedCalls;

/// The body of `POST /v1/fleet/runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateFleetRun {
    /// Name for people. Default: the ID of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it runs; only `this_computer` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The roles that tasks name. Where there are any, a task may name no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<FleetRole>>,
    /// The tasks, under a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<FleetWorkflow>,
    /// The tasks, where there is no workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<FleetTaskSpec>>,
    /// Who does them, in place of `max_workers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<FleetWorkerRequest>>,
    /// Number of workers, 1 to 64. Default: the number of tasks, at most 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_workers: Option<usize>,
    /// Words of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it begins at once. Without it, it waits for `POST …/start`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<bool>,
    /// Refused: the task defines what its worker may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_policy: Option<Value>,
}

/// A role that tasks name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRole {
    /// Name, unique in its list.
    pub name: String,
    /// Refused: there are no profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_profile: Option<String>,
}

/// Tasks under a name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkflow {
    /// Name that threads and requests use.
    pub id: String,
    /// `parallel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Tasks with IDs that are unique in the run.
    #[serde(alias = "task_specs")]
    pub tasks: Vec<FleetTaskSpec>,
}

/// A worker that a client asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerRequest {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// External agent that executes its turns. Default: the daemon's own loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

turn_policy! {
    /// A task of a run, as it was asked for.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct FleetTaskSpec: request {
        /// Names it among those of its run.
        pub id: String,
        /// What people call it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub name: Option<String>,
        /// What it is for, in short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub objective: Option<String>,
        /// Prompt of the task.
        pub instructions: String,
        /// Who does it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub worker: Option<FleetTaskWorker>,
        /// Where it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub workspace: Option<FleetTaskWorkspace>,
        /// Paths of files that the agent should read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub input_files: Vec<String>,
        /// Texts that are appended to the instructions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub context: Vec<String>,
        /// How often it may be tried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub retry_policy: Option<FleetRetryPolicy>,
        ..backend,
        /// How freely the agent works.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub mode: Option<String>,
        ..unattended,
        /// Refused: use the budgets of the daemon or of the token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub budget: Option<Value>,
        /// Refused: nothing judges what a task did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scorer: Option<Value>,
        /// Refused: the daemon sends no alerts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub alert_policy: Option<Value>,
        /// Refused: a task ends with its turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub timeout_seconds: Option<u64>,
        /// Refused: nothing collects them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub expected_artifacts: Vec<Value>,
    }
}

/// Who does a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetTaskWorker {
    /// In which role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// By which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Refused: there are no profiles.
    #[serde(default, alias = "profile", skip_serializing_if = "Option::is_none")]
    pub agent_profile: Option<String>,
    /// Refused: there are no profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_profile: Option<String>,
    /// Refused: the task's `mode` and permissions limit the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Refused, as `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// Where a task is done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetTaskWorkspace {
    /// Absolute path of the working directory. Default: the daemon's workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Refused: nothing is looked for before a task begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_files: Vec<String>,
    /// Refused: the environment says what can be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable_paths: Vec<String>,
    /// Refused: the operator says which variables there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Value>,
}

/// How often a task may be tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRetryPolicy {
    /// How many attempts are made at most while it fails, from 1 to 10.
    pub max_attempts: u32,
}

/// What a run, or all runs of a list, are at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetStatus {
    /// How many runs there are; in a list, those on other pages too.
    pub runs: u64,
    /// Tasks that wait for a worker.
    pub queued: u64,
    /// Tasks that a worker has.
    pub running: u64,
    /// Tasks that were done.
    pub completed: u64,
    /// Always 0: tasks are completed or not.
    pub partial: u64,
    /// Tasks that were not done, as often as they were tried.
    pub failed: u64,
    /// Attempts that a client restarted.
    pub restarted: u64,
    /// Always 0: the daemon does not escalate.
    pub escalated: u64,
    /// Always 0: workers are threads of the daemon.
    pub transport_failed: u64,
    /// As `failed`.
    pub task_failed: u64,
    /// Always 0: the daemon does not verify results.
    pub verifier_failed: u64,
    /// Tasks that were called off.
    pub cancelled: u64,
    /// Workers that have a task and fell silent.
    pub stale: u64,
    /// Where each worker is.
    pub workers: BTreeMap<String, FleetWorkerStatus>,
}

/// Where a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FleetWorkerStatus {
    /// It has no task.
    Online,
    /// It has one.
    Busy,
    /// It has one, and nothing was heard of it for long.
    Unhealthy,
    /// It has a task that is being interrupted.
    Draining,
    /// Its run has ended.
    Retired,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FleetRunStatus {
    /// The run was not started yet.
    Pending,
    /// No task has begun.
    Queued,
    /// At least one task has started.
    Running,
    /// All were done.
    Completed,
    /// Not all were done.
    Failed,
    /// It was stopped.
    Cancelled,
}

/// Where a task of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FleetTaskStatus {
    /// It waits for a worker.
    Enqueued,
    /// A worker has it.
    Leased,
    /// It was done.
    Completed,
    /// It was not done, as often as it was tried.
    Failed,
    /// It was called off.
    Cancelled,
}

/// The state of a task of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetTaskState {
    /// ID of the task in its run.
    pub task_id: String,
    /// Where it is.
    pub status: FleetTaskStatus,
    /// The worker that has it.
    pub leased_to: Option<String>,
    /// How often it was given to a worker.
    pub attempts: u32,
    /// Attempts that a client restarted.
    #[serde(default)]
    pub restarts: u32,
    /// The thread of its attempts, once there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// What came of it, in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why the last attempt came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it does not run now, although it is not at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<JobHold>,
    /// Calls of its last turn that did not run for want of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved_calls: Option<UnapprovedCalls>,
}

/// A run of the fleet with the state of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRun {
    /// Unique ID in the daemon.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub lifecycle_status: FleetRunStatus,
    /// Its tasks and workers, counted.
    pub status: FleetStatus,
    /// `this_computer`.
    pub target: String,
    /// The roles of its tasks.
    pub roles: Vec<String>,
    /// How many tasks it has.
    pub task_count: usize,
    /// How many workers it has.
    pub worker_count: usize,
    /// Tasks in the order of the request.
    pub tasks: Vec<FleetTaskState>,
    /// Words of the client.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: String,
    /// When something last happened.
    pub updated_at: Option<String>,
    /// When its last task ended.
    pub completed_at: Option<String>,
}

/// The answer of `GET /v1/fleet/runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRunList {
    /// The runs of this list, counted.
    pub status: FleetStatus,
    /// The runs, newest first.
    pub runs: Vec<FleetRun>,
}

/// A run with what it was asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRunDetail {
    /// The run after the request.
    #[serde(flatten)]
    pub run: FleetRun,
    /// What its tasks are.
    pub task_specs: Vec<FleetTaskSpec>,
    /// Who its workers are.
    pub worker_specs: Vec<FleetWorkerSpec>,
}

/// A worker of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerSpec {
    /// Unique ID in the daemon.
    pub id: String,
    /// Its name in the run.
    pub name: String,
    /// `{"kind": "local"}`.
    pub host: Value,
    /// Always 1: a worker executes one task at a time.
    pub max_concurrent_tasks: usize,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// External agent that executes its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

/// The answer of `POST /v1/fleet/runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedFleetRun {
    /// `awaiting_start`, or `scheduled` where it begins at once.
    pub execution: String,
    /// The run after the request.
    pub run: FleetRunDetail,
    /// What may be a mistake.
    pub warnings: Vec<String>,
}

/// The answer of `POST /v1/fleet/runs/{id}/start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartedFleetRun {
    /// `start`.
    pub action: String,
    /// `scheduled`.
    pub execution: String,
    /// ID of the run.
    pub run_id: String,
    /// `this_computer`.
    pub target: String,
    /// How many tasks workers have.
    pub leased: u64,
    /// How many wait for one.
    pub queued: u64,
    /// IDs of the workers.
    pub worker_ids: Vec<String>,
}

/// The answer of `POST /v1/fleet/runs/{id}/stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoppedFleetRun {
    /// `stop`.
    pub action: String,
    /// ID of the run.
    pub run_id: String,
    /// How many tasks had not ended.
    pub stopped: u64,
    /// Its tasks and workers, counted.
    pub status: FleetStatus,
}

/// The answer of `GET /v1/fleet/runs/{id}/workers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerList {
    /// ID of the run.
    pub run_id: String,
    /// Workers in the order of the request.
    pub workers: Vec<FleetWorker>,
}

/// The state of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorker {
    /// ID of the worker, unique in the daemon.
    pub worker_id: String,
    /// Where it is.
    pub status: FleetWorkerStatus,
    /// ID of the run.
    pub run_id: Option<String>,
    /// The task that it has.
    pub task_id: Option<String>,
    /// What that is for.
    pub objective: Option<String>,
    /// In which role it works.
    pub role: Option<String>,
    /// `local`.
    pub host: Option<String>,
    /// When the newest event of the task's thread was recorded.
    pub latest_heartbeat_at: Option<String>,
    /// Newest event of the worker's thread.
    pub latest_event: Option<FleetWorkerEvent>,
    /// Always empty: the thread has the files.
    pub artifacts: Vec<Value>,
    /// Why its last attempt came to nothing.
    pub last_error: Option<String>,
    /// Always `null`.
    pub alert_state: Option<Value>,
    /// What its thread does.
    pub runtime_state: Option<FleetWorkerRuntime>,
    /// The thread of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// External agent that executes its turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

/// The newest event of a worker's thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerEvent {
    /// Its number in the thread.
    pub seq: u64,
    /// ID of the run.
    pub run_id: String,
    /// ID of the worker.
    pub worker_id: String,
    /// ID of the task in its run.
    pub task_id: String,
    /// When it was recorded.
    pub timestamp: String,
    /// `running` or `stale`.
    pub label: String,
    /// The same as `state`.
    pub payload: Value,
}

/// What the thread of a worker does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerRuntime {
    /// `starting`, `running`, `waiting_for_user`, `completed`, `failed` or `interrupted`.
    pub agent_status: String,
    /// How many model calls and tool calls its turn has begun.
    pub steps_taken: u64,
    /// The beginning of what was said last.
    pub latest_message: Option<String>,
    /// Why its turn failed.
    pub error: Option<String>,
    /// What came of it.
    pub result_summary: Option<String>,
    /// Whether there is a thread.
    pub has_session: bool,
}

/// The answer of `POST /v1/fleet/workers/{id}/interrupt`, `restart` and `stop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetWorkerCommandResult {
    /// The command that was sent: `interrupt`, `restart` or `stop`.
    pub action: String,
    /// `scheduled`, of a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// ID of the run.
    pub run_id: String,
    /// The worker after the command.
    pub worker: FleetWorker,
}

/// What happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetRunEvent {
    /// Cursor of the position after this event.
    pub cursor: String,
    /// Its name: `fleet.run.created`, `fleet.run.status_changed`, `fleet.task.leased`, `fleet.task.enqueued`,
    /// `fleet.task.terminal`, `fleet.worker.interrupted` or `fleet.worker.restarted`.
    pub event: String,
    /// ID of the run.
    pub run_id: String,
    /// ID of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// ID of the task in its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When it happened.
    pub timestamp: String,
    /// What there is to say of it.
    pub payload: Value,
}

/// The answer of `GET /v1/fleet/runs/{id}/events/replay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetEventReplay {
    /// ID of the run.
    pub run_id: String,
    /// Its events, in order.
    pub events: Vec<FleetRunEvent>,
    /// Whether there are further ones now.
    pub has_more: bool,
    /// Whether older events were removed.
    pub history_truncated: bool,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
}
