//! Starts the runs that are due.
//!
//! First the run is recorded together with the automation's next time. Then its task is queued under an ID derived from the
//! automation and the time, and the result is recorded. After a crash in between, the steps are repeated with the same IDs, so
//! each time has one run.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::automation::{
    Automation, AutomationEvent, AutomationId, AutomationStatus, Trigger, task_of,
};
use super::core::AllAutomations;
use super::{AUTOMATION, AutomationRun, Automations, RUN, run_name};
use crate::error::JobError;
use crate::ledger::{Change, LedgerWriter};
use crate::spec::JobSpec;
use crate::tasks::{MAX_BATCH_BYTES, NewTask, cut};

/// Maximum number of automations in one commit.
const MAX_AUTOMATIONS_PER_COMMIT: usize = 64;
/// Number of events or runs at which a commit is complete.
const MAX_EVENTS_PER_COMMIT: usize = 256;

/// Result of looking up the automation of a run.
enum AutomationLookup {
    /// Its owner and the spec of a run.
    Found(String, JobSpec),
    Removed,
    /// Its row cannot be read by this version. Its runs stay pending for a version that can.
    Unreadable,
}

impl Automations {
    /// Starts due runs until another process claims the stream.
    pub async fn run(&self) -> JobError {
        let ledger = &self.inner.ledger;
        loop {
            match ledger.due_after(self.tick().await) {
                Ok(due) => ledger.sleep(due).await,
                Err(replaced) => return replaced,
            }
        }
    }

    /// Starts the runs that are due and returns the next time. Works in batches, so that clients can change automations in between.
    pub async fn tick(&self) -> Result<Option<DateTime<Utc>>, JobError> {
        let now = self.now();
        let mut unreadable = HashSet::new();
        loop {
            let mut writer = self.inner.ledger.lock().await?;
            if writer.open.last_tick.is_none_or(|last| now < last) {
                self.realign(&mut writer, now).await?;
            }
            writer.open.last_tick = Some(now);
            let is_more = self
                .queue_pending_runs(&mut writer, now, &mut unreadable)
                .await?
                || self.create_due_runs(&mut writer, now).await?;
            if !is_more {
                return Ok(writer.open.next_due());
            }
        }
    }

    /// Creates runs for a batch of due automations. Returns whether any were due.
    async fn create_due_runs(
        &self,
        writer: &mut LedgerWriter<AllAutomations>,
        now: DateTime<Utc>,
    ) -> Result<bool, JobError> {
        let ids = writer.open.due(now, MAX_AUTOMATIONS_PER_COMMIT);
        let is_due = !ids.is_empty();
        let mut changes = Vec::new();
        let mut events = 0;
        for id in ids {
            let Some(automation) = self.readable(id).await? else {
                writer.open.skip_unreadable(id);
                continue;
            };
            let change = self.begin(automation, now).await?;
            events += change.events.len();
            changes.push(change);
            if events >= MAX_EVENTS_PER_COMMIT {
                break;
            }
        }
        if !changes.is_empty() {
            writer.write(now, changes).await?;
        }
        Ok(is_due)
    }

    /// Finds an automation; `None` if its row cannot be read.
    async fn readable(&self, id: AutomationId) -> Result<Option<Automation>, JobError> {
        let store = &self.inner.ledger.store;
        store.readable_row(AUTOMATION, &id.to_string()).await
    }

    /// Decides which due times of an automation get a run.
    async fn begin(
        &self,
        automation: Automation,
        now: DateTime<Utc>,
    ) -> Result<Change<AllAutomations>, JobError> {
        let id = automation.id;
        let zone = &self.inner.settings.local_zone;
        let schedule = match automation.plan.schedule(zone, automation.start) {
            Ok(schedule) => schedule,
            Err(error) => {
                // The zone was valid at creation. Without it, no time can be due.
                tracing::error!(automation = %id, %error, "an automation cannot run and is paused");
                return Ok(Change::apply(
                    automation,
                    vec![AutomationEvent::Paused],
                    now,
                ));
            }
        };
        let (times, next_run_at) = automation.due(&schedule, now);
        let records = &self.inner.ledger.store.records;
        let mut events = Vec::new();
        for time in times {
            let run_id = automation.run_id_at(time);
            // The run exists already if the clock was set back.
            let existing = records.get(RUN, &run_name(id, run_id)).await?;
            if existing.is_none() {
                events.push(AutomationEvent::RunBegan {
                    run_id,
                    trigger: Trigger::Schedule,
                    scheduled_for: time,
                    next_run_at,
                });
            }
        }
        if events.is_empty() {
            events.push(AutomationEvent::Moved { next_run_at });
        }
        Ok(Change::apply(automation, events, now))
    }

    /// Queues the tasks of a batch of pending runs. Returns whether there were any. Runs of unreadable automations stay pending.
    async fn queue_pending_runs(
        &self,
        writer: &mut LedgerWriter<AllAutomations>,
        now: DateTime<Utc>,
        unreadable: &mut HashSet<AutomationId>,
    ) -> Result<bool, JobError> {
        let pending = writer.open.pending.iter();
        let pending = pending.filter(|run| !unreadable.contains(&run.automation_id));
        let runs: Vec<_> = pending.take(MAX_EVENTS_PER_COMMIT).cloned().collect();
        let is_more = !runs.is_empty();
        self.queue_runs(writer, runs, now, unreadable).await?;
        Ok(is_more)
    }

    /// Queues the tasks of runs, in one commit per owner, and records the results. If the prompts exceed the batch limit, the rest stays pending.
    pub(super) async fn queue_runs(
        &self,
        writer: &mut LedgerWriter<AllAutomations>,
        runs: Vec<AutomationRun>,
        now: DateTime<Utc>,
        unreadable: &mut HashSet<AutomationId>,
    ) -> Result<(), JobError> {
        let mut lookups: HashMap<AutomationId, AutomationLookup> = HashMap::new();
        let mut finished: Vec<AutomationRun> = Vec::new();
        let mut queued: BTreeMap<String, Vec<(AutomationRun, JobSpec)>> = BTreeMap::new();
        let mut bytes = 0;
        for run in runs {
            let id = run.automation_id;
            let automation = match lookups.entry(id) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(missing) => missing.insert(self.lookup(id).await?),
            };
            match automation {
                AutomationLookup::Found(owner, spec) => {
                    bytes += spec.prompt.len();
                    if bytes > MAX_BATCH_BYTES {
                        break;
                    }
                    let of_owner = queued.entry(owner.clone()).or_default();
                    of_owner.push((run, spec.clone()));
                }
                AutomationLookup::Removed => {
                    let error = Some("the automation was removed".to_owned());
                    finished.push(AutomationRun { error, ..run });
                }
                AutomationLookup::Unreadable => {
                    unreadable.insert(id);
                }
            }
        }
        for (owner, runs) in queued {
            finished.extend(self.queue_tasks(&owner, runs).await?);
        }
        writer.record_outcomes(now, finished).await
    }

    async fn lookup(&self, id: AutomationId) -> Result<AutomationLookup, JobError> {
        match self.get(id).await {
            Ok(row) => Ok(AutomationLookup::Found(row.owner.clone(), row.spec())),
            Err(JobError::NotFound { .. }) => Ok(AutomationLookup::Removed),
            Err(error @ JobError::Corrupt { .. }) => {
                tracing::error!(%error, "the runs of an automation are not queued");
                Ok(AutomationLookup::Unreadable)
            }
            Err(error) => Err(error),
        }
    }

    /// Queues the tasks of one owner's runs. Returns the runs, each with the reason if the queue rejected it. Storage errors are returned as errors.
    async fn queue_tasks(
        &self,
        owner: &str,
        runs: Vec<(AutomationRun, JobSpec)>,
    ) -> Result<Vec<AutomationRun>, JobError> {
        let task = |(run, spec): &(AutomationRun, JobSpec)| NewTask {
            id: Some(task_of(run.id)),
            ..NewTask::new(spec.clone())
        };
        let tasks = &self.inner.tasks;
        let all = tasks.queue_all(owner, runs.iter().map(task).collect());
        let is_refused = match all.await {
            Ok(_) => false,
            Err(error @ (JobError::Storage(_) | JobError::Replaced)) => return Err(error),
            Err(_) => true,
        };
        let mut finished = Vec::new();
        for run in runs {
            // The limits may still allow some of them.
            let error = if is_refused {
                match tasks.queue_all(owner, vec![task(&run)]).await {
                    Ok(_) => None,
                    Err(error @ (JobError::Storage(_) | JobError::Replaced)) => {
                        return Err(error);
                    }
                    Err(error) => Some(cut(error.to_string())),
                }
            } else {
                None
            };
            finished.push(AutomationRun { error, ..run.0 });
        }
        Ok(finished)
    }

    /// Corrects next times that are too late because the clock was wrong and was set back. Also sets a missing next time of an active
    /// automation.
    async fn realign(
        &self,
        writer: &mut LedgerWriter<AllAutomations>,
        now: DateTime<Utc>,
    ) -> Result<(), JobError> {
        let mut changes = Vec::new();
        for id in writer.open.ids() {
            let found = self.readable(id).await?;
            let Some(automation) = found.filter(|found| found.status == AutomationStatus::Active)
            else {
                continue;
            };
            let zone = &self.inner.settings.local_zone;
            let schedule = automation.plan.schedule(zone, automation.start);
            let next = schedule.ok().and_then(|schedule| schedule.next(now));
            let is_late = automation.next_run_at.is_none() || automation.next_run_at > next;
            if is_late && next.is_some() {
                let moved = AutomationEvent::Moved { next_run_at: next };
                changes.push(Change::apply(automation, vec![moved], now));
            }
        }
        if changes.is_empty() {
            Ok(())
        } else {
            writer.write(now, changes).await.map(drop)
        }
    }
}
