//! The one writer of automations: when each is due next, and the right to change it.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::automation::{Automation, AutomationEvent, AutomationId, RunId};
use super::{AUTOMATION, AutomationRun, PENDING, REQUEST, RUN, run_name};
use crate::error::WorkError;
use crate::kept::{Added, Kept};
use crate::ledger::{Entry, Ledger, WorkStore, Writer, put, take_out};

/// The stream of automations.
const STREAM: &str = "work:automations";

/// The payload of a record.
#[derive(Debug, Serialize, Deserialize)]
struct AutomationEntry {
    automation_id: AutomationId,
    #[serde(flatten)]
    event: AutomationEvent,
}

/// The row of a request that made a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestRow {
    pub(super) automation_id: AutomationId,
    pub(super) run_id: RunId,
}

/// An automation and some events.
pub(super) struct Change {
    events: Vec<AutomationEvent>,
    /// How many bytes its plan had before.
    before: u64,
    after: Automation,
    /// The request that asked for it.
    request: Option<String>,
}

impl Change {
    /// Begins an automation.
    pub(super) fn created(
        id: AutomationId,
        event: AutomationEvent,
        now: DateTime<Utc>,
    ) -> Result<Self, WorkError> {
        let after = Automation::begin(id, now, &event)
            .ok_or_else(|| WorkError::Storage("an automation does not begin".to_owned()))?;
        Ok(Self {
            events: vec![event],
            before: 0,
            after,
            request: None,
        })
    }

    /// Applies events to an automation.
    pub(super) fn of(
        mut automation: Automation,
        events: Vec<AutomationEvent>,
        now: DateTime<Utc>,
    ) -> Self {
        let before = automation.plan.bytes();
        events
            .iter()
            .for_each(|event| automation.evolve(now, event));
        Self {
            events,
            before,
            after: automation,
            request: None,
        }
    }

    /// Names the request that asks for a run, where that may come again.
    pub(super) fn by_request(mut self, request: Option<&str>) -> Self {
        self.request = request.map(str::to_owned);
        self
    }

    pub(super) const fn after(&self) -> &Automation {
        &self.after
    }

    pub(super) const fn len(&self) -> usize {
        self.events.len()
    }

    fn is_removal(&self) -> bool {
        self.events.contains(&AutomationEvent::Removed)
    }
}

/// What one owner has.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    count: usize,
    /// About how many bytes the rows have.
    bytes: u64,
}

pub(super) struct Core {
    ledger: Ledger,
    /// How many each owner has.
    owners: HashMap<String, Share>,
    /// When each one is due next.
    next: HashMap<AutomationId, Option<DateTime<Utc>>>,
    due: BTreeSet<(DateTime<Utc>, AutomationId)>,
    /// Runs that have begun and whose tasks may not be in the queue yet.
    pub(super) pending: Vec<AutomationRun>,
    /// The latest time that was seen.
    pub(super) seen: Option<DateTime<Utc>>,
    kept: Kept,
}

impl Writer for Core {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    async fn load(&mut self, store: &WorkStore) -> Result<(), WorkError> {
        self.owners.clear();
        self.next.clear();
        self.due.clear();
        self.pending.clear();
        let mut found = Vec::new();
        let owners = &mut self.owners;
        let take = |automation: Automation| {
            let share: &mut Share = owners.entry(automation.owner).or_default();
            share.count += 1;
            share.bytes += automation.plan.bytes();
            found.push((automation.id, automation.next_run_at));
        };
        store.each(AUTOMATION, take).await?;
        let pending = &mut self.pending;
        store.each(PENDING, |run| pending.push(run)).await?;
        for (id, next) in found {
            self.note(id, next);
        }
        Ok(())
    }
}

impl Core {
    pub(super) async fn open(store: &WorkStore, kept: Kept) -> Result<Self, WorkError> {
        let mut core = Self {
            ledger: Ledger::open(store, STREAM).await?,
            owners: HashMap::new(),
            next: HashMap::new(),
            due: BTreeSet::new(),
            pending: Vec::new(),
            seen: None,
            kept,
        };
        core.load(store).await?;
        Ok(core)
    }

    fn note(&mut self, id: AutomationId, next: Option<DateTime<Utc>>) {
        if let Some(Some(before)) = self.next.insert(id, next) {
            self.due.remove(&(before, id));
        }
        self.due.extend(next.map(|next| (next, id)));
    }

    /// Lets an automation be due no more, until everything is read again.
    pub(super) fn leave_out(&mut self, id: AutomationId) {
        self.note(id, None);
    }

    pub(super) fn count(&self) -> usize {
        self.next.len()
    }

    pub(super) fn count_of(&self, owner: &str) -> usize {
        self.owners.get(owner).map_or(0, |share| share.count)
    }

    /// Returns about how many bytes the plans of an owner have.
    pub(super) fn bytes_of(&self, owner: &str) -> u64 {
        self.owners.get(owner).map_or(0, |share| share.bytes)
    }

    pub(super) fn ids(&self) -> Vec<AutomationId> {
        self.next.keys().copied().collect()
    }

    /// Returns those whose time has come, the earliest first.
    pub(super) fn due(&self, now: DateTime<Utc>, limit: usize) -> Vec<AutomationId> {
        let due = self.due.iter().take_while(|(next, _)| *next <= now);
        due.take(limit).map(|(_, id)| *id).collect()
    }

    /// Returns when the next time comes.
    pub(super) fn next_due(&self) -> Option<DateTime<Utc>> {
        self.due.first().map(|(next, _)| *next)
    }

    /// Makes changes durable, all or none.
    pub(super) async fn write(
        &mut self,
        now: DateTime<Utc>,
        changes: Vec<Change>,
    ) -> Result<(), WorkError> {
        let mut entries = Vec::new();
        let mut puts = Vec::new();
        let mut began = Vec::new();
        let mut runs = Vec::new();
        for change in &changes {
            let id = change.after.id;
            for event in &change.events {
                entries.push(entry(id, event)?);
                if let AutomationEvent::RunBegan {
                    run_id,
                    trigger,
                    scheduled_for,
                    ..
                } = event
                {
                    let run = AutomationRun {
                        id: *run_id,
                        automation_id: id,
                        scheduled_for: *scheduled_for,
                        trigger: *trigger,
                        created_at: now,
                        error: None,
                    };
                    if let Some(request) = &change.request {
                        let row = RequestRow {
                            automation_id: id,
                            run_id: *run_id,
                        };
                        puts.push(put(REQUEST, request.clone(), &row)?);
                    }
                    puts.push(put(PENDING, run_id.to_string(), &run)?);
                    let row = put(RUN, run_name(id, *run_id), &run)?;
                    runs.push(Added::new(&change.after.owner, &row));
                    puts.push(row);
                    began.push(run);
                }
            }
            puts.push(match change.is_removal() {
                true => take_out(AUTOMATION, id.to_string()),
                false => put(AUTOMATION, id.to_string(), &change.after)?,
            });
        }
        let keeping = self.kept.add(self.ledger.store(), runs).await?;
        puts.extend(keeping.puts);
        puts.extend(keeping.gone.into_iter().map(|(_, run)| take_out(RUN, run)));
        self.ledger.append(now, entries, puts).await?;
        self.pending.extend(began);
        for change in &changes {
            let id = change.after.id;
            if change.is_removal() {
                self.note(id, None);
                self.next.remove(&id);
                if let Some(share) = self.owners.get_mut(&change.after.owner) {
                    share.count -= 1;
                    share.bytes = share.bytes.saturating_sub(change.before);
                }
                self.owners.retain(|_, share| share.count > 0);
            } else {
                let is_new = !self.next.contains_key(&id);
                let share = self.owners.entry(change.after.owner.clone()).or_default();
                share.count += usize::from(is_new);
                share.bytes += change.after.plan.bytes();
                share.bytes = share.bytes.saturating_sub(change.before);
                self.note(id, change.after.next_run_at);
            }
        }
        Ok(())
    }

    /// Notes what became of runs that were pending.
    pub(super) async fn settle(
        &mut self,
        now: DateTime<Utc>,
        settled: Vec<AutomationRun>,
    ) -> Result<(), WorkError> {
        if settled.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::new();
        let mut puts = Vec::new();
        for run in &settled {
            let event = match &run.error {
                None => AutomationEvent::RunQueued { run_id: run.id },
                Some(error) => AutomationEvent::RunRefused {
                    run_id: run.id,
                    error: error.clone(),
                },
            };
            entries.push(entry(run.automation_id, &event)?);
            puts.push(take_out(PENDING, run.id.to_string()));
            if run.error.is_some() {
                puts.push(put(RUN, run_name(run.automation_id, run.id), run)?);
            }
        }
        self.ledger.append(now, entries, puts).await?;
        let settled: HashSet<_> = settled.iter().map(|run| run.id).collect();
        self.pending.retain(|run| !settled.contains(&run.id));
        Ok(())
    }
}

fn entry(automation_id: AutomationId, event: &AutomationEvent) -> Result<Entry, WorkError> {
    let entry = AutomationEntry {
        automation_id,
        event: event.clone(),
    };
    Entry::new(event.name(), &entry)
}
