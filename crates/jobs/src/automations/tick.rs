//! What happens when a time comes.
//!
//! First the run is recorded, with the next time that counts from then on; then its task is queued under an id that follows from
//! the automation and the time; then that is recorded. Whatever is killed in between is done again with the same ids, so a time
//! has one run.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::automation::{
    Automation, AutomationEvent, AutomationId, AutomationStatus, Trigger, task_of,
};
use super::core::AllAutomations;
use super::{AUTOMATION, AutomationRun, Automations, RUN, run_name};
use crate::error::JobError;
use crate::ledger::{Change, Writer};
use crate::spec::JobSpec;
use crate::tasks::{AT_ONCE_BYTES, NewTask, cut};

/// How many automations are dealt with in one commit.
const TOGETHER: usize = 64;
/// With so many events or runs a commit is big enough.
const EVENTS: usize = 256;

/// What is known of the automation of a run.
enum Known {
    /// Its owner, and what a run does.
    There(String, JobSpec),
    Removed,
    /// Its runs stay pending, for a program that can read it.
    Unreadable,
}

impl Automations {
    /// Lets automations run when their times come, for ever; ends only when another process has taken over.
    pub async fn run(&self) -> JobError {
        let ledger = &self.inner.ledger;
        loop {
            match ledger.due_after(self.tick().await) {
                Ok(due) => ledger.sleep(due).await,
                Err(replaced) => return replaced,
            }
        }
    }

    /// Runs what is due, and says when to look again. It goes in batches, and others may change automations in between.
    pub async fn tick(&self) -> Result<Option<DateTime<Utc>>, JobError> {
        let now = self.now();
        let mut unreadable = HashSet::new();
        loop {
            let mut writer = self.inner.ledger.lock().await?;
            if writer.open.seen.is_none_or(|seen| now < seen) {
                self.realign(&mut writer, now).await?;
            }
            writer.open.seen = Some(now);
            let is_more = self.queue_some(&mut writer, now, &mut unreadable).await?
                || self.begin_some(&mut writer, now).await?;
            if !is_more {
                return Ok(writer.open.next_due());
            }
        }
    }

    /// Begins runs of some automations that are due; tells whether there were any.
    async fn begin_some(
        &self,
        writer: &mut Writer<AllAutomations>,
        now: DateTime<Utc>,
    ) -> Result<bool, JobError> {
        let ids = writer.open.due(now, TOGETHER);
        let is_due = !ids.is_empty();
        let mut changes = Vec::new();
        let mut events = 0;
        for id in ids {
            let Some(automation) = self.readable(id).await? else {
                writer.open.leave_out(id);
                continue;
            };
            let change = self.begin(automation, now).await?;
            events += change.events.len();
            changes.push(change);
            if events >= EVENTS {
                break;
            }
        }
        if !changes.is_empty() {
            writer.write(now, changes).await?;
        }
        Ok(is_due)
    }

    /// Finds an automation; `None` where its row cannot be read.
    async fn readable(&self, id: AutomationId) -> Result<Option<Automation>, JobError> {
        let store = &self.inner.ledger.store;
        store.readable_row(AUTOMATION, &id.to_string()).await
    }

    /// Decides what becomes of the times of an automation that have come.
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
                // The zone was known when the automation was made; without it nothing can be due.
                tracing::error!(automation = %id, %error, "an automation cannot run and is paused");
                return Ok(Change::of(automation, vec![AutomationEvent::Paused], now));
            }
        };
        let (times, next_run_at) = automation.due(&schedule, now);
        let mut events = Vec::new();
        for time in times {
            let run_id = automation.run_at(time);
            // There is one already where the clock was set back.
            let name = run_name(id, run_id);
            if self
                .inner
                .ledger
                .store
                .records
                .get(RUN, &name)
                .await?
                .is_none()
            {
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
        Ok(Change::of(automation, events, now))
    }

    /// Queues tasks of some runs that have begun; tells whether there were any. Those of automations that cannot be read stay pending.
    async fn queue_some(
        &self,
        writer: &mut Writer<AllAutomations>,
        now: DateTime<Utc>,
        unreadable: &mut HashSet<AutomationId>,
    ) -> Result<bool, JobError> {
        let pending = writer.open.pending.iter();
        let pending = pending.filter(|run| !unreadable.contains(&run.automation_id));
        let runs: Vec<_> = pending.take(EVENTS).cloned().collect();
        let is_more = !runs.is_empty();
        self.queue_runs(writer, runs, now, unreadable).await?;
        Ok(is_more)
    }

    /// Queues the tasks of runs, in one commit for each owner, and notes it. Where the prompts are too long together, some stay pending.
    pub(super) async fn queue_runs(
        &self,
        writer: &mut Writer<AllAutomations>,
        runs: Vec<AutomationRun>,
        now: DateTime<Utc>,
        unreadable: &mut HashSet<AutomationId>,
    ) -> Result<(), JobError> {
        let mut known: HashMap<AutomationId, Known> = HashMap::new();
        let mut settled: Vec<AutomationRun> = Vec::new();
        let mut queued: BTreeMap<String, Vec<(AutomationRun, JobSpec)>> = BTreeMap::new();
        let mut bytes = 0;
        for run in runs {
            let id = run.automation_id;
            let automation = match known.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(self.known(id).await?),
            };
            match automation {
                Known::There(owner, spec) => {
                    bytes += spec.prompt.len();
                    if bytes > AT_ONCE_BYTES {
                        break;
                    }
                    let of_owner = queued.entry(owner.clone()).or_default();
                    of_owner.push((run, spec.clone()));
                }
                Known::Removed => {
                    let error = Some("the automation was removed".to_owned());
                    settled.push(AutomationRun { error, ..run });
                }
                Known::Unreadable => {
                    unreadable.insert(id);
                }
            }
        }
        for (owner, runs) in queued {
            settled.extend(self.queue_tasks(&owner, runs).await?);
        }
        writer.settle(now, settled).await
    }

    async fn known(&self, id: AutomationId) -> Result<Known, JobError> {
        match self.get(id).await {
            Ok(row) => Ok(Known::There(row.owner.clone(), row.spec())),
            Err(JobError::NotFound { .. }) => Ok(Known::Removed),
            Err(error @ JobError::Corrupt { .. }) => {
                tracing::error!(%error, "runs of an automation are not queued");
                Ok(Known::Unreadable)
            }
            Err(error) => Err(error),
        }
    }

    /// Queues the tasks of runs of one owner, and says of each why the queue does not take it. A store in trouble is no answer.
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
        let mut settled = Vec::new();
        for run in runs {
            // There may be room for some.
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
            settled.push(AutomationRun { error, ..run.0 });
        }
        Ok(settled)
    }

    /// Takes back times that lie too far ahead, because the clock had gone wrong and was set back. An active automation always has a
    /// next time.
    async fn realign(
        &self,
        writer: &mut Writer<AllAutomations>,
        now: DateTime<Utc>,
    ) -> Result<(), JobError> {
        let mut changes = Vec::new();
        for id in writer.open.ids() {
            let found = self.readable(id).await?;
            let Some(automation) = found.filter(|it| it.status == AutomationStatus::Active) else {
                continue;
            };
            let zone = &self.inner.settings.local_zone;
            let schedule = automation.plan.schedule(zone, automation.start);
            let next = schedule.ok().and_then(|schedule| schedule.next(now));
            let is_late = automation.next_run_at.is_none() || automation.next_run_at > next;
            if is_late && next.is_some() {
                let moved = AutomationEvent::Moved { next_run_at: next };
                changes.push(Change::of(automation, vec![moved], now));
            }
        }
        if changes.is_empty() {
            Ok(())
        } else {
            writer.write(now, changes).await.map(drop)
        }
    }
}
