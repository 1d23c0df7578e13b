//! The one writer of runs of the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::run::{FleetEvent, FleetPlan, FleetRun, FleetRunId};
use super::{ENDED, OPEN, PLAN};
use crate::error::WorkError;
use crate::ledger::{Entry, Ledger, WorkStore, put, take_out};

/// The stream of the fleet.
const STREAM: &str = "work:fleet";

/// The payload of a record.
#[derive(Debug, Serialize, Deserialize)]
struct FleetEntry {
    run_id: FleetRunId,
    #[serde(flatten)]
    event: FleetEvent,
}

pub(super) struct Core {
    ledger: Ledger,
    /// Those that have not ended.
    pub(super) runs: BTreeMap<FleetRunId, FleetRun>,
}

/// The row of a run that has ended.
#[derive(Debug, Serialize, Deserialize)]
struct EndedRow {
    run: FleetRun,
    plan: FleetPlan,
}

/// Reads a run with its plan. It moves from open to ended and never back, so this order misses none.
pub(super) async fn read_run(
    store: &WorkStore,
    id: FleetRunId,
) -> Result<Option<FleetRun>, WorkError> {
    let name = id.to_string();
    if let Some(run) = store.row(OPEN, &name).await?
        && let Some(plan) = store.row(PLAN, &name).await?
    {
        return with_plan(run, plan).map(Some);
    }
    let ended: Option<EndedRow> = store.row(ENDED, &name).await?;
    ended.map(|row| with_plan(row.run, row.plan)).transpose()
}

fn with_plan(mut run: FleetRun, plan: FleetPlan) -> Result<FleetRun, WorkError> {
    if (plan.tasks.len(), plan.workers.len()) != (run.tasks.len(), run.workers.len()) {
        return Err(WorkError::Corrupt {
            kind: OPEN,
            name: run.id.to_string(),
            what: "it does not fit its plan".to_owned(),
        });
    }
    run.plan = Arc::new(plan);
    Ok(run)
}

impl Core {
    pub(super) async fn open(store: &WorkStore) -> Result<Self, WorkError> {
        let mut core = Self {
            ledger: Ledger::open(store, STREAM).await?,
            runs: BTreeMap::new(),
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
        let mut found: Vec<FleetRunId> = Vec::new();
        store.each(OPEN, |run: FleetRun| found.push(run.id)).await?;
        self.runs.clear();
        for id in found {
            match read_run(store, id).await {
                Ok(run) => self.runs.extend(run.map(|run| (id, run))),
                Err(error @ WorkError::Corrupt { .. }) => {
                    tracing::error!(%error, "a run of the fleet is left out");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn create(
        &mut self,
        id: FleetRunId,
        owner: &str,
        plan: FleetPlan,
        now: DateTime<Utc>,
    ) -> Result<FleetRun, WorkError> {
        let plan_row = put(PLAN, id.to_string(), &plan)?;
        let event = FleetEvent::Created {
            owner: owner.to_owned(),
            plan: Box::new(plan),
        };
        let run = FleetRun::begin(id, now, &event)
            .ok_or_else(|| WorkError::Storage("a run does not begin".to_owned()))?;
        let puts = vec![plan_row, put(OPEN, id.to_string(), &run)?];
        let entries = vec![entry(id, &event)?];
        self.ledger.append(now, entries, puts).await?;
        self.runs.insert(id, run.clone());
        Ok(run)
    }

    /// Makes events of open runs durable, all or none; returns the runs as they are then.
    pub(super) async fn write(
        &mut self,
        now: DateTime<Utc>,
        changes: Vec<(FleetRunId, Vec<FleetEvent>)>,
    ) -> Result<Vec<FleetRun>, WorkError> {
        let mut entries = Vec::new();
        let mut after: BTreeMap<FleetRunId, FleetRun> = BTreeMap::new();
        for (id, events) in &changes {
            let Some(run) = self.runs.get(id) else {
                continue;
            };
            let run = after.entry(*id).or_insert_with(|| run.clone());
            for event in events {
                entries.push(entry(*id, event)?);
                run.evolve(now, event);
            }
        }
        let mut puts = Vec::new();
        for (id, run) in &after {
            if run.completed_at.is_some() {
                puts.push(take_out(OPEN, id.to_string()));
                puts.push(take_out(PLAN, id.to_string()));
                let row = EndedRow {
                    run: run.clone(),
                    plan: FleetPlan::clone(&run.plan),
                };
                puts.push(put(ENDED, id.to_string(), &row)?);
            } else {
                puts.push(put(OPEN, id.to_string(), run)?);
            }
        }
        self.ledger.append(now, entries, puts).await?;
        for (id, run) in &after {
            match run.completed_at {
                Some(_) => self.runs.remove(id),
                None => self.runs.insert(*id, run.clone()),
            };
        }
        Ok(after.into_values().collect())
    }
}

fn entry(run_id: FleetRunId, event: &FleetEvent) -> Result<Entry, WorkError> {
    let entry = FleetEntry {
        run_id,
        event: event.clone(),
    };
    Entry::new(event.name(), &entry)
}
