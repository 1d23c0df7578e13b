//! Automations: tasks by a schedule.

use serde::{Deserialize, Serialize};

use crate::tasks::{JobHold, TaskStatus};
use crate::turn_policy::turn_policy;
use crate::turns::UnapprovedCalls;

/// Whether an automation fires by its schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AutomationStatus {
    /// It fires by its schedule.
    #[default]
    Active,
    /// It waits to be resumed.
    Paused,
}

/// What becomes of runs whose time passed while the daemon was not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// They are left out.
    Skip,
    /// The last one is made up for.
    #[default]
    Once,
    /// All are made up for, the last thousand at most.
    All,
}

turn_policy! {
    /// The body of `POST /v1/automations`.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct CreateAutomation: request {
        /// What people call it.
        pub name: String,
        /// Prompt of each run.
        pub prompt: String,
        /// When: a cron expression of five fields, or an RRULE with `FREQ` `HOURLY`, `DAILY`, `WEEKLY` or `MONTHLY`.
        pub rrule: String,
        /// The directories that it is about; a run works in the first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub cwds: Vec<String>,
        ..model,
        ..permissions,
        /// Whether its schedule is active from now on.
        #[serde(default)]
        pub status: AutomationStatus,
        /// The time zone of the rule, such as `Europe/Berlin`; the daemon's own where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub time_zone: Option<String>,
        /// What becomes of runs whose time passed while the daemon was not there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub missed: Option<MissedRuns>,
        ..backend,
        /// Attempts of a failing run, 1 to 10. Default: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub max_attempts: Option<u32>,
    }
}

turn_policy! {
    /// The body of `PATCH /v1/automations/{id}`; what is not there stays as it is.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    #[serde(default)]
    pub struct PatchAutomation: request {
        /// What people call it.
        pub name: Option<String>,
        /// Prompt of each run.
        pub prompt: Option<String>,
        /// When. A new rule counts from now.
        pub rrule: Option<String>,
        /// The directories that it is about.
        pub cwds: Option<Vec<String>>,
        ..model,
        ..permissions,
        /// Whether its schedule is active.
        pub status: Option<AutomationStatus>,
        /// The time zone of the rule.
        pub time_zone: Option<String>,
        /// What becomes of runs whose time passed while the daemon was not there.
        pub missed: Option<MissedRuns>,
        ..backend,
        /// How often a run is tried while it fails.
        pub max_attempts: Option<u32>,
    }
}

turn_policy! {
    /// A prompt with a schedule.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub struct AutomationRecord: request {
        /// The version of this record.
        pub schema_version: u32,
        /// Identifies the automation.
        pub id: String,
        /// What people call it.
        pub name: String,
        /// Prompt of each run.
        pub prompt: String,
        /// Schedule: a cron expression or an RRULE.
        pub rrule: String,
        /// The directories that it is about.
        pub cwds: Vec<String>,
        ..model,
        ..permissions,
        /// Whether its schedule is active.
        pub status: AutomationStatus,
        /// When it was made.
        pub created_at: String,
        /// Time of the last change, RFC 3339.
        pub updated_at: String,
        /// When it runs next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub next_run_at: Option<String>,
        /// The time of its last run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub last_run_at: Option<String>,
        /// The time zone of the rule, where it is not the daemon's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub time_zone: Option<String>,
        /// What becomes of runs whose time passed while the daemon was not there.
        #[serde(default)]
        pub missed: MissedRuns,
        ..backend,
        /// How often a run is tried while it fails.
        #[serde(default)]
        pub max_attempts: u32,
    }
}

/// A run of an automation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AutomationRunRecord {
    /// The version of this record.
    pub schema_version: u32,
    /// Identifies the run.
    pub id: String,
    /// Whose run it is.
    pub automation_id: String,
    /// The time that it is for.
    pub scheduled_for: String,
    /// Where its task is.
    pub status: TaskStatus,
    /// When it was made.
    pub created_at: String,
    /// When its task began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// ID of the task that this run queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The thread that its task runs on, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The turn of its task's newest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it does not run now, although it is not at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<JobHold>,
    /// Calls of its last turn that did not run for want of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unapproved_calls: Option<UnapprovedCalls>,
}
