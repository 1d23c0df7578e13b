//! Automations: tasks by a schedule, one for each time that the rule names.

mod automation;
mod core;
mod declared;
mod tick;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use self::core::{AllAutomations, RequestRow};
use crate::error::{JobError, check_name, check_share};
use crate::ledger::{Change, Ledger, Machine, Writer};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::{JobStore, PAGE, readable};
use crate::schedule::check_zone;
use crate::tasks::{LIST_BYTES, Task, TaskId, Tasks};
use windlass_core::Clock;

pub use automation::{
    Automation, AutomationEvent, AutomationId, AutomationMarker, AutomationStatus, MissedRuns,
    Plan, RunId, RunMarker, Trigger, task_of,
};
pub use declared::{CONFIGURATION, Declared};

/// Rows of automations.
const AUTOMATION: &str = "work.automation";
/// Rows of runs, by automation.
const RUN: &str = "work.automation.run";
/// The index of runs by owner.
const KEPT: &str = "work.automation.kept";
/// Rows of runs that have begun and whose tasks may not be in the queue yet.
const PENDING: &str = "work.automation.pending";

/// Rows of runs and their index, which a store may remove where there is no room for histories.
pub(crate) const EXPENDABLE: [&str; 2] = [RUN, KEPT];

/// The longest name of an owner.
const OWNER_BYTES: usize = 256;
const OF_OWNER: &str = "automations of this owner";
/// The longest page of a list.
const LIST: usize = 500;

/// What an operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomationSettings {
    /// The time zone of rules that name none.
    pub local_zone: String,
    /// How many automations there may be; half of them may be one owner's.
    pub automations: usize,
    /// How many runs of each owner are kept; the oldest go first.
    pub runs_of_owner: usize,
    /// How many bytes the automations of one owner may have, and how many its runs.
    pub bytes_of_owner: u64,
}

impl Default for AutomationSettings {
    fn default() -> Self {
        Self {
            local_zone: "UTC".to_owned(),
            automations: 10_000,
            runs_of_owner: 100_000,
            bytes_of_owner: BYTES_OF_OWNER,
        }
    }
}

/// A run of an automation, as it is kept. How far it is, its task says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutomationRun {
    /// Identifies it.
    pub id: RunId,
    /// Whose run it is.
    pub automation_id: AutomationId,
    /// The time that it is for.
    pub scheduled_for: DateTime<Utc>,
    /// Why it was made.
    pub trigger: Trigger,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Why the queue did not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl AutomationRun {
    /// Returns its task.
    #[must_use]
    pub fn task_id(&self) -> TaskId {
        task_of(self.id)
    }
}

/// A run with its task.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWithTask {
    /// The run.
    pub run: AutomationRun,
    /// Its task; `None` where the queue did not take it, or it was forgotten.
    pub task: Option<Task>,
    /// Whether it is about to be queued.
    pub is_pending: bool,
}

/// The automations; clones share them.
#[derive(Debug, Clone)]
pub struct Automations {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Ledger<AllAutomations>,
    settings: AutomationSettings,
    tasks: Tasks,
}

impl Automations {
    /// Takes up the automations of a store. Nothing runs before [`run`](Self::run).
    pub async fn open(
        store: JobStore,
        clock: Arc<dyn Clock>,
        tasks: Tasks,
        settings: AutomationSettings,
    ) -> Result<Self, JobError> {
        check_zone(&settings.local_zone)?;
        let keep = KeepNewest {
            ended: RUN,
            by_owner: None,
            index: KEPT,
            newest: settings.runs_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                tasks,
            }),
        })
    }

    fn now(&self) -> DateTime<Utc> {
        // Schedules know whole seconds.
        let now = self.inner.ledger.now();
        now - TimeDelta::nanoseconds(i64::from(now.timestamp_subsec_nanos()))
    }

    /// Makes an automation. When this returns it is durable.
    pub async fn create(
        &self,
        owner: &str,
        plan: Plan,
        status: AutomationStatus,
    ) -> Result<Automation, JobError> {
        let id = self.inner.ledger.clock().uuid().into();
        self.create_once(id, owner, plan, status).await
    }

    /// Makes an automation under an id, for a request that may come again: where one of that id is there, it is answered.
    pub async fn create_once(
        &self,
        id: AutomationId,
        owner: &str,
        plan: Plan,
        status: AutomationStatus,
    ) -> Result<Automation, JobError> {
        check_name("owner", owner, OWNER_BYTES)?;
        let now = self.now();
        let schedule = plan.check(&self.inner.settings.local_zone, now)?;
        let first = schedule.check(now)?;
        let mut writer = self.inner.ledger.lock().await?;
        match self.get(id).await {
            Err(JobError::NotFound { .. }) => {}
            made => return made,
        }
        let limit = self.inner.settings.automations;
        if writer.open.count() >= limit {
            let what = "automations";
            return Err(JobError::TooMany { what, limit });
        }
        check_share(OF_OWNER, writer.open.count_of(owner), limit)?;
        self.check_bytes(writer.open.bytes_of(owner) + plan.bytes())?;
        let event = AutomationEvent::Created {
            owner: owner.to_owned(),
            plan: Box::new(plan),
            status,
            next_run_at: (status == AutomationStatus::Active).then_some(first),
        };
        let change = Change::begin(id, event, None, now)?;
        self.write(&mut writer, now, change).await
    }

    fn check_bytes(&self, bytes: u64) -> Result<(), JobError> {
        let limit = self.inner.settings.bytes_of_owner;
        if bytes > limit {
            let what = OF_OWNER;
            return Err(JobError::TooManyBytes { what, limit });
        }
        Ok(())
    }

    async fn write(
        &self,
        writer: &mut Writer<AllAutomations>,
        now: DateTime<Utc>,
        change: Change<AllAutomations>,
    ) -> Result<Automation, JobError> {
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        self.inner.ledger.wake();
        Ok(after)
    }

    /// Decides and writes a change of an automation; it is returned as it is if nothing follows.
    async fn change(
        &self,
        id: AutomationId,
        decide: impl FnOnce(&Automation, DateTime<Utc>) -> Result<Option<AutomationEvent>, JobError>
        + Send,
    ) -> Result<Automation, JobError> {
        let now = self.now();
        let mut writer = self.inner.ledger.lock().await?;
        let before = self.get(id).await?;
        let Some(event) = decide(&before, now)? else {
            return Ok(before);
        };
        let change = Change::of(before, vec![event], now);
        self.write(&mut writer, now, change).await
    }

    /// Finds an automation.
    pub async fn get(&self, id: AutomationId) -> Result<Automation, JobError> {
        let found = self
            .inner
            .ledger
            .store
            .row(AUTOMATION, &id.to_string())
            .await?;
        found.ok_or_else(|| JobError::not_found("automation", id))
    }

    /// Lists automations, the newest first, from behind one on.
    pub async fn list(
        &self,
        before: Option<AutomationId>,
        limit: usize,
    ) -> Result<Vec<Automation>, JobError> {
        let limit = limit.clamp(1, LIST);
        let records = &self.inner.ledger.store.records;
        let mut before = before.map(|id| id.to_string());
        let mut listed = Vec::new();
        // Until there are enough that can be read: whoever gets fewer than were asked for has seen all.
        while listed.len() < limit {
            let left = (limit - listed.len()).min(PAGE);
            let page = records.page(AUTOMATION, before.as_deref(), left).await?;
            listed.extend(page.iter().filter_map(|row| readable(AUTOMATION, row)));
            match page.last() {
                Some(last) if page.len() == left => before = Some(last.name.clone()),
                _ => break,
            }
        }
        Ok(listed)
    }

    /// Changes what is done, or when. A rule that is given anew counts from now.
    pub async fn update(
        &self,
        id: AutomationId,
        change: impl FnOnce(&mut Plan) + Send,
    ) -> Result<Automation, JobError> {
        let now = self.now();
        let mut writer = self.inner.ledger.lock().await?;
        let before = self.get(id).await?;
        let mut plan = before.plan.clone();
        change(&mut plan);
        if plan.bytes() > before.plan.bytes() {
            let others = writer.open.bytes_of(&before.owner) - before.plan.bytes();
            self.check_bytes(others + plan.bytes())?;
        }
        let is_new_rule =
            (&plan.rrule, &plan.time_zone) != (&before.plan.rrule, &before.plan.time_zone);
        let start = if is_new_rule { now } else { before.start };
        let schedule = plan.check(&self.inner.settings.local_zone, start)?;
        let next_run_at = match (before.status, is_new_rule) {
            (AutomationStatus::Paused, _) => {
                schedule.check(now)?;
                None
            }
            (AutomationStatus::Active, true) => Some(schedule.check(now)?),
            (AutomationStatus::Active, false) => before.next_run_at,
        };
        let event = AutomationEvent::Updated {
            plan: Box::new(plan),
            start,
            next_run_at,
        };
        let change = Change::of(before, vec![event], now);
        self.write(&mut writer, now, change).await
    }

    /// Stops the automation from running by its schedule until it is resumed. What is queued runs.
    pub async fn pause(&self, id: AutomationId) -> Result<Automation, JobError> {
        self.change(id, |before, _| {
            let is_active = before.status == AutomationStatus::Active;
            Ok(is_active.then_some(AutomationEvent::Paused))
        })
        .await
    }

    /// Lets an automation run by its schedule again. Times that passed in between are not made up for.
    pub async fn resume(&self, id: AutomationId) -> Result<Automation, JobError> {
        self.change(id, |before, now| {
            if before.status == AutomationStatus::Active {
                return Ok(None);
            }
            let zone = &self.inner.settings.local_zone;
            let schedule = before.plan.schedule(zone, before.start)?;
            Ok(Some(AutomationEvent::Resumed {
                next_run_at: Some(schedule.check(now)?),
            }))
        })
        .await
    }

    /// Removes an automation. What is queued runs.
    pub async fn remove(&self, id: AutomationId) -> Result<(), JobError> {
        let removed = self.change(id, |_, _| Ok(Some(AutomationEvent::Removed)));
        removed.await.map(drop)
    }

    /// Runs an automation now, whatever its schedule says, also while it is paused. A `request` that made a run of it already is answered
    /// with that one.
    pub async fn run_now(
        &self,
        id: AutomationId,
        request: Option<&str>,
    ) -> Result<RunWithTask, JobError> {
        let now = self.now();
        let mut writer = self.inner.ledger.lock().await?;
        let before = self.get(id).await?;
        if let Some(made) = self.made_by(id, request).await? {
            return self.with_task(made).await;
        }
        let run_id: RunId = self.inner.ledger.clock().uuid().into();
        let began = AutomationEvent::RunBegan {
            run_id,
            trigger: Trigger::Manual,
            scheduled_for: now,
            next_run_at: before.next_run_at,
        };
        let mut change = Change::of(before, vec![began], now);
        change.request = request.map(str::to_owned);
        self.write(&mut writer, now, change).await?;
        let runs = writer.open.pending.iter().filter(|run| run.id == run_id);
        let runs = runs.cloned().collect();
        self.queue_runs(&mut writer, runs, now, &mut HashSet::new())
            .await?;
        drop(writer);
        let name = run_name(id, run_id);
        let run = self.inner.ledger.store.row(RUN, &name).await?;
        let run = run.ok_or_else(|| JobError::not_found("run", run_id))?;
        self.with_task(run).await
    }

    /// Finds the run of an automation that a request made before.
    async fn made_by(
        &self,
        id: AutomationId,
        request: Option<&str>,
    ) -> Result<Option<AutomationRun>, JobError> {
        let Some(request) = request else {
            return Ok(None);
        };
        let store = &self.inner.ledger.store;
        let row: Option<RequestRow> = store.row(AllAutomations::REQUEST_ROWS, request).await?;
        match row.filter(|row| row.automation_id == id) {
            Some(row) => store.row(RUN, &run_name(id, row.run_id)).await,
            None => Ok(None),
        }
    }

    /// Lists the runs of an automation, the newest first, from behind one on. There may be fewer than `limit` where their tasks are
    /// big; there are no more when there is none.
    pub async fn runs(
        &self,
        id: AutomationId,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunWithTask>, JobError> {
        self.get(id).await?;
        // All names of runs of this automation lie before this one, and those of a greater id behind it.
        let end = format!("{id}0");
        let before = before.map_or(end, |run| run_name(id, run));
        let records = &self.inner.ledger.store.records;
        let page = records.page(RUN, Some(&before), limit.clamp(1, LIST));
        let mut runs = Vec::new();
        let mut bytes = 0;
        for row in page.await? {
            if !row.name.starts_with(&format!("{id}/")) {
                break;
            }
            let Some(run) = readable(RUN, &row) else {
                continue;
            };
            match self.with_task(run).await {
                Err(error @ JobError::Corrupt { .. }) => {
                    tracing::error!(%error, "a run is left out");
                }
                found => {
                    let found = found?;
                    let prompt = found.task.as_ref().map(|task| task.spec.prompt.len());
                    bytes += prompt.unwrap_or_default();
                    runs.push(found);
                }
            }
            if bytes >= LIST_BYTES {
                break;
            }
        }
        Ok(runs)
    }

    async fn with_task(&self, run: AutomationRun) -> Result<RunWithTask, JobError> {
        let task = match self.inner.tasks.get(run.task_id()).await {
            Ok(task) => Some(task),
            Err(JobError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let pending = &self.inner.ledger.store.records;
        let is_pending = task.is_none()
            && run.error.is_none()
            && pending.get(PENDING, &run.id.to_string()).await?.is_some();
        Ok(RunWithTask {
            run,
            task,
            is_pending,
        })
    }

    /// Forgets runs that are older than this; returns how many.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget(age).await
    }

    /// Forgets which requests made a run, of those that are older than this.
    pub async fn forget_requests(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget_requests(age).await
    }
}

/// Returns the name of the row of a run. Runs of one automation lie together, in the order of their times.
fn run_name(id: AutomationId, run: RunId) -> String {
    format!("{id}/{run}")
}
