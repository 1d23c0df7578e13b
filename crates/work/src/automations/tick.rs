//! What happens when a time comes.
//!
//! First the run is recorded, with the next time that counts from then on; then its task is queued under an id that follows from
//! the automation and the time; then that is recorded. Whatever is killed in between is done again with the same ids, so a time
//! has one run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use chrono::{DateTime, TimeDelta, Utc};

use super::automation::{Automation, AutomationEvent, AutomationId, Trigger, task_of};
use super::core::{Change, Core};
use super::{AUTOMATION, AutomationRun, Automations, RUN, run_name};
use crate::error::WorkError;
use crate::spec::WorkSpec;
use crate::tasks::{NewTask, cut};

/// How many automations are dealt with in one commit.
const TOGETHER: usize = 64;
/// With so many events a commit is big enough.
const EVENTS: usize = 256;
/// How long something that did not work waits for the next try.
const TRY_AGAIN: TimeDelta = TimeDelta::seconds(1);

impl Automations {
    /// Lets automations run when their times come, for ever; ends only when another process has taken over.
    pub async fn run(&self) -> WorkError {
        loop {
            let next = match self.tick().await {
                Ok(next) => next,
                Err(WorkError::Replaced) => return WorkError::Replaced,
                Err(error) => {
                    tracing::warn!(%error, "automations are held up, and will be tried again");
                    Some(self.inner.clock.now() + TRY_AGAIN)
                }
            };
            let time = async {
                match next {
                    Some(next) => self.inner.clock.wait_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.inner.bell.notified() => {}
                () = time => {}
            }
        }
    }

    /// Runs what is due, and says when to look again.
    pub async fn tick(&self) -> Result<Option<DateTime<Utc>>, WorkError> {
        let now = self.now();
        let mut core = self.core().await?;
        if core.seen.is_none_or(|seen| now < seen) {
            self.realign(&mut core, now).await?;
        }
        core.seen = Some(now);
        self.queue_pending(&mut core, now).await?;
        loop {
            let ids = core.due(now, TOGETHER);
            if ids.is_empty() {
                return Ok(core.next_due());
            }
            let mut changes = Vec::new();
            let mut events = 0;
            for id in ids {
                let change = self.begin(id, now).await?;
                events += change.len();
                changes.push(change);
                if events >= EVENTS {
                    break;
                }
            }
            core.write(now, changes).await?;
            self.queue_pending(&mut core, now).await?;
        }
    }

    /// Decides what becomes of the times of an automation that have come.
    async fn begin(&self, id: AutomationId, now: DateTime<Utc>) -> Result<Change, WorkError> {
        let automation = self.get(id).await?;
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
            if self.inner.store.records.get(RUN, &name).await?.is_none() {
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

    /// Queues the tasks of runs that have begun.
    pub(super) async fn queue_pending(
        &self,
        core: &mut Core,
        now: DateTime<Utc>,
    ) -> Result<(), WorkError> {
        if core.pending.is_empty() {
            return Ok(());
        }
        let mut known: HashMap<AutomationId, Option<(String, WorkSpec)>> = HashMap::new();
        let mut settled: Vec<AutomationRun> = Vec::new();
        for run in core.pending.clone() {
            let id = run.automation_id;
            if let Entry::Vacant(unknown) = known.entry(id) {
                let row = self.inner.store.row(AUTOMATION, &id.to_string()).await?;
                unknown.insert(row.map(|row: Automation| (row.owner.clone(), row.spec())));
            }
            let error = match known.get(&id).and_then(Option::as_ref) {
                Some((owner, spec)) => self.queue_task(&run, owner, spec).await?,
                None => Some("the automation was removed".to_owned()),
            };
            settled.push(AutomationRun { error, ..run });
        }
        core.settle(now, settled).await
    }

    /// Queues the task of a run; returns why the queue does not take it. A store in trouble is no answer.
    async fn queue_task(
        &self,
        run: &AutomationRun,
        owner: &str,
        spec: &WorkSpec,
    ) -> Result<Option<String>, WorkError> {
        let task = NewTask {
            id: Some(task_of(run.id)),
            spec: spec.clone(),
            retry_of: None,
        };
        match self.inner.tasks.submit(owner, task).await {
            Ok(_) => Ok(None),
            Err(error @ (WorkError::Storage(_) | WorkError::Replaced)) => Err(error),
            Err(error) => Ok(Some(cut(error.to_string()))),
        }
    }

    /// Takes back times that lie too far ahead, because the clock had gone wrong and was set back.
    async fn realign(&self, core: &mut Core, now: DateTime<Utc>) -> Result<(), WorkError> {
        let mut changes = Vec::new();
        for id in core.ids() {
            let automation = match self.get(id).await {
                Err(WorkError::NotFound { .. }) => continue,
                found => found?,
            };
            let zone = &self.inner.settings.local_zone;
            let schedule = automation.plan.schedule(zone, automation.start);
            let next = schedule.ok().and_then(|schedule| schedule.next(now));
            if automation.next_run_at > next && next.is_some() {
                let moved = AutomationEvent::Moved { next_run_at: next };
                changes.push(Change::of(automation, vec![moved], now));
            }
        }
        match changes.is_empty() {
            true => Ok(()),
            false => core.write(now, changes).await,
        }
    }
}
