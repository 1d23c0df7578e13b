//! Automations: tasks on a schedule.

use windlass_macros::wire;

use crate::tasks::{JobHold, TaskStatus};
use crate::turn_policy::turn_policy;
use crate::turns::UnapprovedCalls;

/// Whether the schedule of an automation is active.
#[wire(Copy, Default, Eq, Hash, snake_case)]
pub enum AutomationStatus {
    /// The schedule is active.
    #[default]
    Active,
    /// The schedule is paused.
    Paused,
}

/// Handling of runs that were missed while the daemon was not running.
#[wire(Copy, Default, Eq, Hash, snake_case)]
pub enum MissedRuns {
    /// Missed runs are skipped.
    Skip,
    /// The newest missed run is executed.
    #[default]
    Once,
    /// All missed runs are executed, at most the newest thousand.
    All,
}

turn_policy! {
    /// The body of `POST /v1/automations`.
    #[wire(Default, Eq, omit_none)]
    pub struct CreateAutomation: request {
        /// Name for people.
        pub name: String,
        /// Prompt of each run.
        pub prompt: String,
        /// Schedule: a cron expression of five fields, or an RRULE with `FREQ` `HOURLY`, `DAILY`, `WEEKLY` or `MONTHLY`.
        pub rrule: String,
        /// Directories of the automation; a run works in the first one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cwds: Vec<String>,
        ..model,
        ..permissions,
        /// Whether the schedule is active from the start.
        #[serde(default)]
        pub status: AutomationStatus,
        /// Time zone of the schedule, such as `Europe/Berlin`. Default: the time zone of the daemon.
        pub time_zone: Option<String>,
        /// Handling of runs that were missed while the daemon was not running.
        pub missed: Option<MissedRuns>,
        ..backend,
        /// Attempts of a failing run, 1 to 10. Default: 1.
        pub max_attempts: Option<u32>,
    }
}

turn_policy! {
    /// The body of `PATCH /v1/automations/{id}`; absent fields are unchanged.
    #[wire(Default, Eq)]
    #[serde(default)]
    pub struct PatchAutomation: request {
        /// Name for people.
        pub name: Option<String>,
        /// Prompt of each run.
        pub prompt: Option<String>,
        /// Schedule. A new one applies immediately.
        pub rrule: Option<String>,
        /// Directories of the automation.
        pub cwds: Option<Vec<String>>,
        ..model,
        ..permissions,
        /// Whether the schedule is active.
        pub status: Option<AutomationStatus>,
        /// Time zone of the schedule.
        pub time_zone: Option<String>,
        /// Handling of runs that were missed while the daemon was not running.
        pub missed: Option<MissedRuns>,
        ..backend,
        /// Maximum number of attempts of a failing run.
        pub max_attempts: Option<u32>,
    }
}

turn_policy! {
    /// A prompt with a schedule.
    #[wire(Default, Eq, omit_none)]
    pub struct AutomationRecord: request {
        /// The version of this record.
        pub schema_version: u32,
        /// ID of the automation.
        pub id: String,
        /// Name for people.
        pub name: String,
        /// Prompt of each run.
        pub prompt: String,
        /// Schedule: a cron expression or an RRULE.
        pub rrule: String,
        /// Directories of the automation.
        pub cwds: Vec<String>,
        ..model,
        ..permissions,
        /// Whether the schedule is active.
        pub status: AutomationStatus,
        /// Creation time, RFC 3339.
        pub created_at: String,
        /// Time of the last change, RFC 3339.
        pub updated_at: String,
        /// Time of the next run.
        pub next_run_at: Option<String>,
        /// Time of the last run.
        pub last_run_at: Option<String>,
        /// Time zone of the schedule; absent if it is the time zone of the daemon.
        pub time_zone: Option<String>,
        /// Handling of runs that were missed while the daemon was not running.
        #[serde(default)]
        pub missed: MissedRuns,
        ..backend,
        /// Maximum number of attempts of a failing run.
        #[serde(default)]
        pub max_attempts: u32,
    }
}

/// A run of an automation.
#[wire(Eq, omit_none)]
pub struct AutomationRunRecord {
    /// The version of this record.
    pub schema_version: u32,
    /// ID of the run.
    pub id: String,
    /// ID of the automation.
    pub automation_id: String,
    /// Scheduled time of the run.
    pub scheduled_for: String,
    /// Status of the run's task.
    pub status: TaskStatus,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Start time of the task.
    pub started_at: Option<String>,
    /// End time of the task.
    pub ended_at: Option<String>,
    /// ID of the task that this run queued.
    pub task_id: Option<String>,
    /// Thread of the task; absent until the task starts.
    pub thread_id: Option<String>,
    /// Turn of the task's newest attempt.
    pub turn_id: Option<String>,
    /// Why the run failed.
    pub error: Option<String>,
    /// Why the job is held; absent if it is not held.
    pub held: Option<JobHold>,
    /// Calls of the last turn that did not run because they were not approved.
    pub unapproved_calls: Option<UnapprovedCalls>,
}
