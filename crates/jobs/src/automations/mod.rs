//! Automations: scheduled tasks, one for each time of a rule.

mod automation;
mod core;
mod declared;
mod tick;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use self::core::{AllAutomations, AutomationRequestRow};
use crate::error::{JobError, check_name, check_owner_share, skip_corrupt};
use crate::ledger::{Change, JobKind, Ledger, LedgerWriter};
use crate::retention::{BYTES_OF_OWNER, KeepNewest};
use crate::rows::{JobStore, PAGE, readable};
use crate::schedule::check_zone;
use crate::tasks::{LIST_BYTES, Task, TaskId, Tasks};
use windlass_core::Clock;
use windlass_macros::Defaults;

pub use automation::{
    Automation, AutomationEvent, AutomationId, AutomationIdMarker, AutomationStatus, MissedRuns,
    Plan, RunId, RunIdMarker, Trigger, task_of,
};
pub use declared::{CONFIGURATION, DeclaredAutomation};

/// Rows of automations.
const AUTOMATION: &str = "work.automation";
/// Rows of runs, by automation.
const RUN: &str = "work.automation.run";
/// The index of runs by owner.
const RETAINED: &str = "work.automation.kept";
/// Rows of created runs whose tasks may not be queued yet.
const PENDING: &str = "work.automation.pending";

/// Rows of runs and their index, which a store may prune when history exceeds its limit.
pub(crate) const EXPENDABLE: [&str; 2] = [RUN, RETAINED];

/// Maximum length of an owner's name in bytes.
const OWNER_BYTES: usize = 256;
const OF_OWNER: &str = "automations of this owner";
/// Maximum page size of a list.
const MAX_PAGE: usize = 500;

/// Settings of automations.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct AutomationSettings {
    /// Default time zone of rules.
    #[default("UTC".to_owned())]
    pub local_zone: String,
    /// Maximum number of automations; one owner may have half of them.
    #[default(10_000)]
    pub automations: usize,
    /// Maximum number of stored runs of each owner; the oldest are removed first.
    #[default(100_000)]
    pub runs_of_owner: usize,
    /// Maximum bytes of one owner's automations, and of its runs.
    #[default(BYTES_OF_OWNER)]
    pub bytes_of_owner: u64,
}

/// A stored run of an automation. Its task has the progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutomationRun {
    /// ID of the run.
    pub id: RunId,
    /// The automation that it belongs to.
    pub automation_id: AutomationId,
    /// Its scheduled time.
    pub scheduled_for: DateTime<Utc>,
    /// Why it was created.
    pub trigger: Trigger,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Why the queue rejected it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl AutomationRun {
    /// Returns the ID of its task.
    #[must_use]
    pub fn task_id(&self) -> TaskId {
        task_of(self.id)
    }
}

/// A run with its task.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWithTask {
    /// The stored run.
    pub run: AutomationRun,
    /// Its task; `None` if the queue rejected it or it was pruned.
    pub task: Option<Task>,
    /// Whether its task will still be queued.
    pub is_pending: bool,
}

/// All automations; clones share state.
#[derive(Clone)]
pub struct Automations {
    inner: Arc<SharedAutomations>,
}

struct SharedAutomations {
    ledger: Ledger<AllAutomations>,
    settings: AutomationSettings,
    tasks: Tasks,
}

impl Automations {
    /// Opens the automations of a store. Nothing runs before [`run`](Self::run).
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
            index: RETAINED,
            newest: settings.runs_of_owner,
            bytes: settings.bytes_of_owner,
        };
        Ok(Self {
            inner: Arc::new(SharedAutomations {
                ledger: Ledger::open(store, clock, keep).await?,
                settings,
                tasks,
            }),
        })
    }

    fn now(&self) -> DateTime<Utc> {
        // Schedules have a resolution of one second.
        let now = self.inner.ledger.now();
        now - TimeDelta::nanoseconds(i64::from(now.timestamp_subsec_nanos()))
    }

    /// Creates an automation. It is durable when this returns.
    pub async fn create(
        &self,
        owner: &str,
        plan: Plan,
        status: AutomationStatus,
    ) -> Result<Automation, JobError> {
        let id = self.inner.ledger.clock().uuid().into();
        self.create_once(id, owner, plan, status).await
    }

    /// Creates an automation with a given ID, so that a repeated request returns the existing one.
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
            existing => return existing,
        }
        let limit = self.inner.settings.automations;
        if writer.open.count() >= limit {
            let object = "automations";
            return Err(JobError::TooMany { object, limit });
        }
        check_owner_share(OF_OWNER, writer.open.count_of(owner), limit)?;
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
            let object = OF_OWNER;
            return Err(JobError::TooManyBytes { object, limit });
        }
        Ok(())
    }

    async fn write(
        &self,
        writer: &mut LedgerWriter<AllAutomations>,
        now: DateTime<Utc>,
        change: Change<AllAutomations>,
    ) -> Result<Automation, JobError> {
        let after = change.after.clone();
        writer.write(now, vec![change]).await?;
        self.inner.ledger.wake();
        Ok(after)
    }

    /// Decides and writes a change of an automation. Without an event, returns it unchanged.
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
        let change = Change::apply(before, vec![event], now);
        self.write(&mut writer, now, change).await
    }

    /// Finds an automation.
    pub async fn get(&self, id: AutomationId) -> Result<Automation, JobError> {
        let store = &self.inner.ledger.store;
        let found = store.row(AUTOMATION, &id.to_string()).await?;
        found.ok_or_else(|| JobError::not_found("automation", id))
    }

    /// Lists automations, the newest first, after the one with the ID `before`.
    pub async fn list(
        &self,
        before: Option<AutomationId>,
        limit: usize,
    ) -> Result<Vec<Automation>, JobError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let records = &self.inner.ledger.store.records;
        let mut before = before.map(|id| id.to_string());
        let mut listed = Vec::new();
        // Unreadable rows are skipped and replaced by further ones: a page below the limit is the last one.
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

    /// Changes the work or the schedule. A new rule starts now.
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
        let change = Change::apply(before, vec![event], now);
        self.write(&mut writer, now, change).await
    }

    /// Suspends the schedule until the automation is resumed. Queued tasks still run.
    pub async fn pause(&self, id: AutomationId) -> Result<Automation, JobError> {
        self.change(id, |before, _| {
            let is_active = before.status == AutomationStatus::Active;
            Ok(is_active.then_some(AutomationEvent::Paused))
        })
        .await
    }

    /// Resumes the schedule. Times that passed in between are skipped.
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

    /// Removes an automation. Queued tasks still run.
    pub async fn remove(&self, id: AutomationId) -> Result<(), JobError> {
        let removed = self.change(id, |_, _| Ok(Some(AutomationEvent::Removed)));
        removed.await.map(drop)
    }

    /// Runs an automation now, even while it is paused. A repeated `request` returns the run that it created.
    pub async fn run_now(
        &self,
        id: AutomationId,
        request: Option<&str>,
    ) -> Result<RunWithTask, JobError> {
        let now = self.now();
        let mut writer = self.inner.ledger.lock().await?;
        let before = self.get(id).await?;
        if let Some(run) = self.run_of_request(id, request).await? {
            return self.with_task(run).await;
        }
        let run_id: RunId = self.inner.ledger.clock().uuid().into();
        let began = AutomationEvent::RunBegan {
            run_id,
            trigger: Trigger::Manual,
            scheduled_for: now,
            next_run_at: before.next_run_at,
        };
        let mut change = Change::apply(before, vec![began], now);
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

    /// Finds the run that a previous request with the same key created.
    async fn run_of_request(
        &self,
        id: AutomationId,
        request: Option<&str>,
    ) -> Result<Option<AutomationRun>, JobError> {
        let Some(request) = request else {
            return Ok(None);
        };
        let store = &self.inner.ledger.store;
        let row: Option<AutomationRequestRow> =
            store.row(AllAutomations::REQUEST_ROWS, request).await?;
        match row.filter(|row| row.automation_id == id) {
            Some(row) => store.row(RUN, &run_name(id, row.run_id)).await,
            None => Ok(None),
        }
    }

    /// Lists the runs of an automation, the newest first, after the one with the ID `before`. Large tasks make a page smaller than
    /// `limit`; an empty page is the end.
    pub async fn runs(
        &self,
        id: AutomationId,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunWithTask>, JobError> {
        self.get(id).await?;
        // Greater than the names of all runs of this automation, and less than those of a greater ID.
        let end = format!("{id}0");
        let before = before.map_or(end, |run| run_name(id, run));
        let records = &self.inner.ledger.store.records;
        let page = records.page(RUN, Some(&before), limit.clamp(1, MAX_PAGE));
        let mut runs = Vec::new();
        let mut bytes = 0;
        for row in page.await? {
            if !row.name.starts_with(&format!("{id}/")) {
                break;
            }
            let Some(run) = readable(RUN, &row) else {
                continue;
            };
            let found = self.with_task(run).await;
            let Some(found) = skip_corrupt(found, "an automation run is skipped")? else {
                continue;
            };
            let prompt = found.task.as_ref().map(|task| task.spec.prompt.len());
            bytes += prompt.unwrap_or_default();
            runs.push(found);
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

    /// Removes runs older than `age`; returns their number.
    pub async fn forget(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget(age).await
    }

    /// Removes the keys of requests older than `age`; returns their number.
    pub async fn forget_requests(&self, age: Duration) -> Result<usize, JobError> {
        self.inner.ledger.forget_requests(age).await
    }
}

/// Returns the row name of a run. The runs of one automation are adjacent and sorted by time.
fn run_name(id: AutomationId, run: RunId) -> String {
    format!("{id}/{run}")
}
