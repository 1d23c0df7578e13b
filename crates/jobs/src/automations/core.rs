//! The automations in memory with their next times, and the rows of all automations.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::automation::{Automation, AutomationEvent, AutomationId, RunId};
use super::{AUTOMATION, AutomationRun, PENDING, RUN, run_name};
use crate::error::JobError;
use crate::ledger::{Change, Commit, JobKind, LedgerWriter};
use crate::rows::JobStore;

/// The row of a request that created a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AutomationRequestRow {
    pub(super) automation_id: AutomationId,
    pub(super) run_id: RunId,
}

/// The automations of one owner.
#[derive(Debug, Clone, Copy, Default)]
struct OwnerUsage {
    count: usize,
    /// Approximate size of their rows in bytes.
    bytes: u64,
}

#[derive(Default)]
pub(super) struct AllAutomations {
    owners: HashMap<String, OwnerUsage>,
    /// The next time of each automation.
    next: HashMap<AutomationId, Option<DateTime<Utc>>>,
    due: BTreeSet<(DateTime<Utc>, AutomationId)>,
    /// Created runs whose tasks may not be queued yet.
    pub(super) pending: Vec<AutomationRun>,
    /// Time of the latest tick.
    pub(super) last_tick: Option<DateTime<Utc>>,
}

impl JobKind for AllAutomations {
    type Id = AutomationId;
    type State = Automation;
    type Event = AutomationEvent;

    const STREAM: &'static str = "work:automations";
    const RECORD_PREFIX: &'static str = "automation";
    const ID_FIELD: &'static str = "automation_id";
    const ENDED_ROWS: &'static [&'static str] = &super::EXPENDABLE;
    const REQUEST_ROWS: &'static str = "work.automation.request";

    fn id(automation: &Automation) -> AutomationId {
        automation.id
    }

    fn begin(id: AutomationId, at: DateTime<Utc>, event: &AutomationEvent) -> Option<Automation> {
        Automation::begin(id, at, event)
    }

    fn evolve(automation: &mut Automation, at: DateTime<Utc>, event: &AutomationEvent) {
        automation.evolve(at, event);
    }

    async fn load(&mut self, store: &JobStore) -> Result<(), JobError> {
        self.owners.clear();
        self.next.clear();
        self.due.clear();
        self.pending.clear();
        let mut found = Vec::new();
        let owners = &mut self.owners;
        let take = |automation: Automation| {
            let usage: &mut OwnerUsage = owners.entry(automation.owner).or_default();
            usage.count += 1;
            usage.bytes += automation.plan.bytes();
            found.push((automation.id, automation.next_run_at));
        };
        store.each(AUTOMATION, take).await?;
        let pending = &mut self.pending;
        store.each(PENDING, |run| pending.push(run)).await?;
        for (id, next) in found {
            self.set_next(id, next);
        }
        Ok(())
    }

    fn rows(change: &Change<Self>, commit: &mut Commit) -> Result<(), JobError> {
        let automation = &change.after;
        for event in &change.events {
            let Some(run) = created_run(automation.id, event, commit.at) else {
                continue;
            };
            if let Some(request) = &change.request {
                let row = AutomationRequestRow {
                    automation_id: automation.id,
                    run_id: run.id,
                };
                commit.put(Self::REQUEST_ROWS, request, &row)?;
            }
            commit.put(PENDING, run.id.to_string(), &run)?;
            let name = run_name(automation.id, run.id);
            commit.put_ended(&automation.owner, RUN, name, &run)?;
        }
        let name = automation.id.to_string();
        if is_removal(change) {
            commit.remove(AUTOMATION, name);
            return Ok(());
        }
        commit.put(AUTOMATION, name, automation)
    }

    fn apply(&mut self, change: &Change<Self>, at: DateTime<Utc>) {
        let (id, owner) = (change.after.id, &change.after.owner);
        let runs = change
            .events
            .iter()
            .filter_map(|event| created_run(id, event, at));
        self.pending.extend(runs);
        if let Some(before) = &change.before
            && let Some(usage) = self.owners.get_mut(owner)
        {
            usage.count -= 1;
            usage.bytes = usage.bytes.saturating_sub(before.plan.bytes());
        }
        if is_removal(change) {
            self.set_next(id, None);
            self.next.remove(&id);
        } else {
            let usage = self.owners.entry(owner.clone()).or_default();
            usage.count += 1;
            usage.bytes += change.after.plan.bytes();
            self.set_next(id, change.after.next_run_at);
        }
        self.owners.retain(|_, usage| usage.count > 0);
    }
}

/// Returns the run that an event creates.
fn created_run(
    automation_id: AutomationId,
    event: &AutomationEvent,
    created_at: DateTime<Utc>,
) -> Option<AutomationRun> {
    let AutomationEvent::RunBegan {
        run_id,
        trigger,
        scheduled_for,
        ..
    } = event
    else {
        return None;
    };
    Some(AutomationRun {
        id: *run_id,
        automation_id,
        scheduled_for: *scheduled_for,
        trigger: *trigger,
        created_at,
        error: None,
    })
}

fn is_removal(change: &Change<AllAutomations>) -> bool {
    change.events.contains(&AutomationEvent::Removed)
}

impl AllAutomations {
    fn set_next(&mut self, id: AutomationId, next: Option<DateTime<Utc>>) {
        if let Some(Some(before)) = self.next.insert(id, next) {
            self.due.remove(&(before, id));
        }
        self.due.extend(next.map(|next| (next, id)));
    }

    /// Skips an unreadable automation until all rows are read again.
    pub(super) fn skip_unreadable(&mut self, id: AutomationId) {
        self.set_next(id, None);
    }

    pub(super) fn count(&self) -> usize {
        self.next.len()
    }

    pub(super) fn count_of(&self, owner: &str) -> usize {
        self.owners.get(owner).map_or(0, |usage| usage.count)
    }

    /// Returns the approximate size of an owner's plans in bytes.
    pub(super) fn bytes_of(&self, owner: &str) -> u64 {
        self.owners.get(owner).map_or(0, |usage| usage.bytes)
    }

    pub(super) fn ids(&self) -> Vec<AutomationId> {
        self.next.keys().copied().collect()
    }

    /// Returns the automations that are due, the earliest first.
    pub(super) fn due(&self, now: DateTime<Utc>, limit: usize) -> Vec<AutomationId> {
        let due = self.due.iter().take_while(|(next, _)| *next <= now);
        due.take(limit).map(|(_, id)| *id).collect()
    }

    /// Returns the earliest next time.
    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        self.due.first().map(|(next, _)| *next)
    }
}

impl LedgerWriter<AllAutomations> {
    /// Records the outcomes of pending runs.
    pub(super) async fn record_outcomes(
        &mut self,
        now: DateTime<Utc>,
        settled: Vec<AutomationRun>,
    ) -> Result<(), JobError> {
        if settled.is_empty() {
            return Ok(());
        }
        let mut commit = Commit::at(now);
        for run in &settled {
            let event = match &run.error {
                None => AutomationEvent::RunQueued { run_id: run.id },
                Some(error) => AutomationEvent::RunRefused {
                    run_id: run.id,
                    error: error.clone(),
                },
            };
            commit.record::<AllAutomations>(run.automation_id, &event)?;
            commit.remove(PENDING, run.id.to_string());
            if run.error.is_some() {
                commit.put(RUN, run_name(run.automation_id, run.id), run)?;
            }
        }
        self.append(commit).await?;
        let settled: HashSet<_> = settled.iter().map(|run| run.id).collect();
        self.open.pending.retain(|run| !settled.contains(&run.id));
        Ok(())
    }
}
