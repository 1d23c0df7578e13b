//! The one writer of automations: when each is due next, and the right to change it.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::automation::{Automation, AutomationEvent, AutomationId};
use super::{AUTOMATION, AutomationRun, PENDING, RUN, run_name};
use crate::error::WorkError;
use crate::ledger::{Entry, Ledger, WorkStore, put, take_out};

/// The stream of automations.
const STREAM: &str = "work:automations";

/// The payload of a record.
#[derive(Debug, Serialize, Deserialize)]
struct AutomationEntry {
    automation_id: AutomationId,
    #[serde(flatten)]
    event: AutomationEvent,
}

/// An automation and some events.
pub(super) struct Change {
    events: Vec<AutomationEvent>,
    after: Automation,
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
            after,
        })
    }

    /// Applies events to an automation.
    pub(super) fn of(
        mut automation: Automation,
        events: Vec<AutomationEvent>,
        now: DateTime<Utc>,
    ) -> Self {
        events
            .iter()
            .for_each(|event| automation.evolve(now, event));
        Self {
            events,
            after: automation,
        }
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

pub(super) struct Core {
    ledger: Ledger,
    /// When each one is due next.
    next: HashMap<AutomationId, Option<DateTime<Utc>>>,
    due: BTreeSet<(DateTime<Utc>, AutomationId)>,
    /// Runs that have begun and whose tasks may not be in the queue yet.
    pub(super) pending: Vec<AutomationRun>,
    /// The latest time that was seen.
    pub(super) seen: Option<DateTime<Utc>>,
}

impl Core {
    pub(super) async fn open(store: &WorkStore) -> Result<Self, WorkError> {
        let mut core = Self {
            ledger: Ledger::open(store, STREAM).await?,
            next: HashMap::new(),
            due: BTreeSet::new(),
            pending: Vec::new(),
            seen: None,
        };
        core.load(store).await?;
        Ok(core)
    }

    /// Reads everything again where the last write is in doubt.
    pub(super) async fn make_sound(&mut self, store: &WorkStore) -> Result<(), WorkError> {
        if !self.ledger.is_sound()? {
            self.ledger.reopen().await?;
            self.load(store).await?;
            self.ledger.trust();
        }
        Ok(())
    }

    async fn load(&mut self, store: &WorkStore) -> Result<(), WorkError> {
        self.next.clear();
        self.due.clear();
        self.pending.clear();
        let mut found = Vec::new();
        let take = |automation: Automation| found.push((automation.id, automation.next_run_at));
        store.each(AUTOMATION, take).await?;
        let pending = &mut self.pending;
        store.each(PENDING, |run| pending.push(run)).await?;
        for (id, next) in found {
            self.note(id, next);
        }
        Ok(())
    }

    fn note(&mut self, id: AutomationId, next: Option<DateTime<Utc>>) {
        if let Some(Some(before)) = self.next.insert(id, next) {
            self.due.remove(&(before, id));
        }
        self.due.extend(next.map(|next| (next, id)));
    }

    pub(super) fn count(&self) -> usize {
        self.next.len()
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
                    puts.push(put(PENDING, run_id.to_string(), &run)?);
                    puts.push(put(RUN, run_name(id, *run_id), &run)?);
                    began.push(run);
                }
            }
            puts.push(match change.is_removal() {
                true => take_out(AUTOMATION, id.to_string()),
                false => put(AUTOMATION, id.to_string(), &change.after)?,
            });
        }
        self.ledger.append(now, entries, puts).await?;
        self.pending.extend(began);
        for change in &changes {
            let id = change.after.id;
            if change.is_removal() {
                self.note(id, None);
                self.next.remove(&id);
            } else {
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
        self.pending.clear();
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
