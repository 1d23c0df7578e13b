//! One automation: what can happen to it, and what follows. Pure: time and ids come from outside.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::typed_id::{IdMarker, TypedId};

use crate::error::{JobError, check_name};
use crate::schedule::{Rule, RuleError, Schedule};
use crate::spec::JobSpec;
use crate::tasks::{RUN_VERSION, TaskId};

/// How late a run may begin and still count as on time.
const ON_TIME: TimeDelta = TimeDelta::seconds(60);
/// How many runs are made up for at most.
const MADE_UP: usize = 1000;
/// The longest name.
const NAME_BYTES: usize = 256;
/// The most directories, and the longest.
const DIRECTORIES: usize = 16;
const PATH_BYTES: usize = 4096;

/// Marks ids of automations.
#[derive(Debug)]
pub struct AutomationMarker;

impl IdMarker for AutomationMarker {
    const PREFIX: &'static str = "auto";
}

/// Identifies an automation.
pub type AutomationId = TypedId<AutomationMarker>;

/// Marks ids of runs of automations.
#[derive(Debug)]
pub struct RunMarker;

impl IdMarker for RunMarker {
    const PREFIX: &'static str = "autorun";
}

/// Identifies a run of an automation.
pub type RunId = TypedId<RunMarker>;

/// What is to be done, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What people call it.
    pub name: String,
    /// What each run does.
    pub spec: JobSpec,
    /// The directories that it is about. The first one is where a run works, unless the spec names one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// When.
    pub rrule: String,
    /// In which time zone; the host's own where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What becomes of runs whose time passed while nobody was there.
    #[serde(default)]
    pub missed: MissedRuns,
}

impl Plan {
    /// Returns about how many bytes a row with it has.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = [&self.name, &self.rrule].into_iter();
        let texts = texts.chain(&self.cwds).chain(&self.time_zone);
        self.spec.bytes() + texts.map(|text| text.len() as u64).sum::<u64>()
    }
}

/// What becomes of runs whose time passed while nobody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Whether an automation runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AutomationStatus {
    /// It does.
    Active,
    /// It waits to be resumed.
    Paused,
}

/// An automation, as its records fold to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Automation {
    /// Identifies it.
    pub id: AutomationId,
    /// Whose it is.
    pub owner: String,
    /// What is to be done, and when.
    pub plan: Plan,
    /// Where `INTERVAL` counts from: when the rule was given.
    pub start: DateTime<Utc>,
    /// Whether it runs by itself.
    pub status: AutomationStatus,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When somebody changed it.
    pub updated_at: DateTime<Utc>,
    /// The first time that was not dealt with yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run_at: Option<DateTime<Utc>>,
    /// The time of its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at: Option<DateTime<Utc>>,
}

/// Why a run was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Its time had come.
    Schedule,
    /// Somebody asked for it.
    Manual,
}

/// What happens to an automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum AutomationEvent {
    /// It was made.
    Created {
        /// Whose it is.
        owner: String,
        /// What and when.
        plan: Box<Plan>,
        /// Whether it runs by itself.
        status: AutomationStatus,
        /// When it runs first.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// What or when was changed.
    Updated {
        /// What and when from now on.
        plan: Box<Plan>,
        /// Where `INTERVAL` counts from.
        start: DateTime<Utc>,
        /// When it runs next.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// It does not run by itself any more.
    Paused,
    /// It runs by itself again.
    Resumed {
        /// When it runs next.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// Times were left out, or the clock was set back.
    Moved {
        /// When it runs next.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// A run is about to be queued.
    RunBegan {
        /// The run.
        run_id: RunId,
        /// Why.
        trigger: Trigger,
        /// The time that it is for.
        scheduled_for: DateTime<Utc>,
        /// When the automation runs next.
        next_run_at: Option<DateTime<Utc>>,
    },
    /// The task of a run is in the queue.
    RunQueued {
        /// The run.
        run_id: RunId,
    },
    /// The queue did not take the task of a run.
    RunRefused {
        /// The run.
        run_id: RunId,
        /// Why not.
        error: String,
    },
    /// It was removed.
    Removed,
}

impl AutomationEvent {
    /// Returns the name of its records.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "automation.created",
            Self::Updated { .. } => "automation.updated",
            Self::Paused => "automation.paused",
            Self::Resumed { .. } => "automation.resumed",
            Self::Moved { .. } => "automation.moved",
            Self::RunBegan { .. } => "automation.run_began",
            Self::RunQueued { .. } => "automation.run_queued",
            Self::RunRefused { .. } => "automation.run_refused",
            Self::Removed => "automation.removed",
        }
    }
}

impl Plan {
    /// Refuses what is over a bound or cannot be read; returns the schedule.
    pub fn check(&self, local_zone: &str, start: DateTime<Utc>) -> Result<Schedule, JobError> {
        self.check_bounds()?;
        Ok(self.schedule(local_zone, start)?)
    }

    /// Refuses what is over a bound.
    pub fn check_bounds(&self) -> Result<(), JobError> {
        check_name("name", &self.name, NAME_BYTES)?;
        self.spec.check()?;
        if self.cwds.len() > DIRECTORIES {
            let reason = format!("has more than {DIRECTORIES} directories");
            return Err(JobError::invalid("cwds", reason));
        }
        let mut directories = self.cwds.iter();
        directories.try_for_each(|directory| check_name("cwds", directory, PATH_BYTES))
    }

    /// Returns the schedule.
    pub fn schedule(&self, local_zone: &str, start: DateTime<Utc>) -> Result<Schedule, RuleError> {
        let zone = self.time_zone.as_deref().unwrap_or(local_zone);
        Schedule::new(Rule::parse(&self.rrule)?, zone, start)
    }
}

impl Automation {
    /// Makes an automation of its first record; `None` where it is another one.
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

    /// Takes in the next record.
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

    /// Returns the times that have come and get a run, in order, and when the next one comes.
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
            MissedRuns::All => MADE_UP,
            MissedRuns::Once | MissedRuns::Skip => 1,
        };
        let mut times = schedule.latest(first - TimeDelta::seconds(1), now, limit);
        if self.plan.missed == MissedRuns::Skip {
            times.retain(|time| now - *time <= ON_TIME);
        }
        (times, schedule.next(now))
    }

    /// Returns the id of the run for a time: the same time always has the same run.
    #[must_use]
    pub fn run_at(&self, due: DateTime<Utc>) -> RunId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.id.uuid().as_bytes());
        hasher.update(&due.timestamp().to_be_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        let random = u128::from_be_bytes(bytes);
        // Laid out as version 7 is, with the time that the run is for, so that runs and their tasks sort by it.
        let millis = u128::try_from(due.timestamp_millis()).unwrap_or_default();
        let uuid = (millis & 0xffff_ffff_ffff) << 80
            | u128::from(RUN_VERSION) << 76
            | (random >> 52 & 0xfff) << 64
            | 0b10 << 62
            | random & ((1 << 62) - 1);
        RunId::from_uuid(Uuid::from_u128(uuid))
    }

    /// Returns what a run does.
    #[must_use]
    pub fn spec(&self) -> JobSpec {
        let mut spec = self.plan.spec.clone();
        if spec.workspace.is_none() {
            spec.workspace = self.plan.cwds.first().cloned();
        }
        spec
    }
}

/// Returns the task of a run.
#[must_use]
pub fn task_of(run_id: RunId) -> TaskId {
    TaskId::from_uuid(run_id.uuid())
}
