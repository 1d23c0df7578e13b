//! The state of one automation and its transitions. Pure: the caller supplies time and IDs.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_macros::omit_none;

use crate::error::{JobError, check_name};
use crate::schedule::{RuleError, Schedule, ScheduleRule};
use crate::spec::JobSpec;
use crate::tasks::{RUN_VERSION, TaskId};

/// Maximum delay of a run that is still on time.
const ON_TIME: TimeDelta = TimeDelta::seconds(60);
/// Maximum number of missed runs that are started late.
const MAX_MISSED_RUNS: usize = 1000;
/// Maximum length of a name in bytes.
const NAME_BYTES: usize = 256;
/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 16;
/// Maximum length of a directory's path in bytes.
const PATH_BYTES: usize = 4096;

windlass_core::ids! {
    AutomationId, AutomationIdMarker, "auto", "an automation";
    RunId, RunIdMarker, "autorun", "a run of an automation";
}

/// The work of an automation and its schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name for display.
    pub name: String,
    /// The work of each run.
    pub spec: JobSpec,
    /// Working directories. A run works in the first one, unless the spec names another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// The schedule: an RRULE or a cron expression.
    pub rrule: String,
    /// Time zone of the schedule; default: the host's time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Policy for times that passed while the daemon was not running.
    #[serde(default)]
    pub missed: MissedRuns,
}

impl Plan {
    /// Returns the approximate size of a row that contains it, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = [&self.name, &self.rrule].into_iter();
        let texts = texts.chain(&self.cwds).chain(&self.time_zone);
        self.spec.bytes() + texts.map(|text| text.len() as u64).sum::<u64>()
    }
}

/// Policy for times that passed while the daemon was not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// Missed times are skipped.
    Skip,
    /// The latest missed time gets a run.
    #[default]
    Once,
    /// All missed times get a run, at most the latest thousand.
    All,
}

/// Whether an automation follows its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutomationStatus {
    /// Runs start at the scheduled times.
    Active,
    /// No run starts until the automation is resumed.
    Paused,
}

/// An automation: the fold of its records.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Automation {
    /// ID of the automation.
    pub id: AutomationId,
    /// The token or agent that the automation belongs to.
    pub owner: String,
    /// Its work and its schedule.
    pub plan: Plan,
    /// Start of the count of `INTERVAL`: the time at which the rule was set.
    pub start: DateTime<Utc>,
    /// Whether it follows its schedule.
    pub status: AutomationStatus,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time of the last change by a client.
    pub updated_at: DateTime<Utc>,
    /// The next scheduled time that has not been handled.
    pub next_run_at: Option<DateTime<Utc>>,
    /// Scheduled time of its last run.
    pub last_run_at: Option<DateTime<Utc>>,
}

/// Why a run was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The schedule was due.
    Schedule,
    /// A client requested it.
    Manual,
}

/// A change of an automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AutomationEvent {
    /// The automation was created.
    Created {
        /// The token or agent that the automation belongs to.
        owner: String,
        /// Its work and its schedule.
        plan: Box<Plan>,
        /// Whether it follows its schedule.
        status: AutomationStatus,
        /// Time of the first run.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// The work or the schedule was changed.
    Updated {
        /// The new work and schedule.
        plan: Box<Plan>,
        /// Start of the count of `INTERVAL`.
        start: DateTime<Utc>,
        /// Time of the next run.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// The schedule was suspended.
    Paused,
    /// The schedule was resumed.
    Resumed {
        /// Time of the next run.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// The next time changed, because times were skipped or the clock was set back.
    Moved {
        /// Time of the next run.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// A run was created and will be queued.
    RunBegan {
        /// ID of the run.
        run_id: RunId,
        /// Why it was created.
        trigger: Trigger,
        /// Its scheduled time.
        scheduled_for: DateTime<Utc>,
        /// Time of the automation's next run.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// The task of a run was queued.
    RunQueued {
        /// ID of the run.
        run_id: RunId,
    },
    /// The queue rejected the task of a run.
    RunRefused {
        /// ID of the run.
        run_id: RunId,
        /// Why the queue rejected it.
        error: String,
    },
    /// The automation was removed.
    Removed,
}

impl Plan {
    /// Checks limits and parses the schedule.
    pub fn check(&self, local_zone: &str, start: DateTime<Utc>) -> Result<Schedule, JobError> {
        self.check_bounds()?;
        Ok(self.schedule(local_zone, start)?)
    }

    /// Checks limits without parsing the schedule.
    pub fn check_bounds(&self) -> Result<(), JobError> {
        check_name("name", &self.name, NAME_BYTES)?;
        self.spec.check()?;
        if self.cwds.len() > MAX_DIRECTORIES {
            let reason = format!("has more than {MAX_DIRECTORIES} directories");
            return Err(JobError::invalid("cwds", reason));
        }
        let mut directories = self.cwds.iter();
        directories.try_for_each(|directory| check_name("cwds", directory, PATH_BYTES))
    }

    /// Parses the schedule.
    pub fn schedule(&self, local_zone: &str, start: DateTime<Utc>) -> Result<Schedule, RuleError> {
        let zone = self.time_zone.as_deref().unwrap_or(local_zone);
        Schedule::new(ScheduleRule::parse(&self.rrule)?, zone, start)
    }
}

impl Automation {
    /// Creates an automation from its first record; `None` from any other record.
    #[must_use]
    pub fn begin(id: AutomationId, at: DateTime<Utc>, event: &AutomationEvent) -> Option<Self> {
        let AutomationEvent::Created {
            owner,
            plan,
            status,
            next_run_at,
        } = event
        else {
            return None;
        };
        Some(Self {
            id,
            owner: owner.clone(),
            plan: (**plan).clone(),
            start: at,
            status: *status,
            created_at: at,
            updated_at: at,
            next_run_at: *next_run_at,
            last_run_at: None,
        })
    }

    /// Applies the next record.
    pub fn evolve(&mut self, at: DateTime<Utc>, event: &AutomationEvent) {
        match event {
            AutomationEvent::Updated {
                plan,
                start,
                next_run_at,
            } => {
                self.plan = (**plan).clone();
                self.start = *start;
                self.next_run_at = *next_run_at;
                self.updated_at = at;
            }
            AutomationEvent::Paused => {
                self.status = AutomationStatus::Paused;
                self.next_run_at = None;
                self.updated_at = at;
            }
            AutomationEvent::Resumed { next_run_at } => {
                self.status = AutomationStatus::Active;
                self.next_run_at = *next_run_at;
                self.updated_at = at;
            }
            AutomationEvent::Moved { next_run_at } => self.next_run_at = *next_run_at,
            AutomationEvent::RunBegan {
                scheduled_for,
                next_run_at,
                ..
            } => {
                self.last_run_at = Some(*scheduled_for);
                self.next_run_at = *next_run_at;
            }
            AutomationEvent::Created { .. }
            | AutomationEvent::RunQueued { .. }
            | AutomationEvent::RunRefused { .. }
            | AutomationEvent::Removed => {}
        }
    }

    /// Returns the due times that get a run, in order, and the next time.
    #[must_use]
    pub fn due(
        &self,
        schedule: &Schedule,
        now: DateTime<Utc>,
    ) -> (Vec<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let Some(first) = self.next_run_at.filter(|first| *first <= now) else {
            return (Vec::new(), self.next_run_at);
        };
        let limit = match self.plan.missed {
            MissedRuns::All => MAX_MISSED_RUNS,
            MissedRuns::Once | MissedRuns::Skip => 1,
        };
        let mut times = schedule.latest(first - TimeDelta::seconds(1), now, limit);
        if self.plan.missed == MissedRuns::Skip {
            times.retain(|time| now - *time <= ON_TIME);
        }
        (times, schedule.next(now))
    }

    /// Returns the ID of the run for a time. It depends only on the automation and the time.
    #[must_use]
    pub fn run_id_at(&self, due: DateTime<Utc>) -> RunId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.id.uuid().as_bytes());
        hasher.update(&due.timestamp().to_be_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        let random = u128::from_be_bytes(bytes);
        // Laid out like version 7 with the scheduled time, so that runs and their tasks are sorted by it.
        let millis = u128::try_from(due.timestamp_millis()).unwrap_or_default();
        let uuid = (millis & 0xffff_ffff_ffff) << 80
            | u128::from(RUN_VERSION) << 76
            | (random >> 52 & 0xfff) << 64
            | 0b10 << 62
            | random & ((1 << 62) - 1);
        RunId::from_uuid(Uuid::from_u128(uuid))
    }

    /// Returns the spec of a run, with the default workspace filled in.
    #[must_use]
    pub fn spec(&self) -> JobSpec {
        let mut spec = self.plan.spec.clone();
        if spec.workspace.is_none() {
            spec.workspace = self.plan.cwds.first().cloned();
        }
        spec
    }
}

/// Returns the ID of a run's task.
#[must_use]
pub fn task_of(run_id: RunId) -> TaskId {
    TaskId::from_uuid(run_id.uuid())
}
