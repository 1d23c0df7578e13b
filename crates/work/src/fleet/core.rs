//! The one writer of runs of the fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::plan::FleetPlan;
use super::run::{FleetEvent, FleetRun, FleetRunId};
use super::task::FleetTask;
use super::{ENDED, OPEN, OWNED, PLAN, REQUEST, TASK};
use crate::error::WorkError;
use crate::kept::{Added, Kept};
use crate::ledger::{Entry, Ledger, WorkStore, Writer, put, read_row, take_out};

/// The stream of the fleet.
pub(super) const STREAM: &str = "work:fleet";

/// How many rows of tasks are read at a time; one has a few kilobytes at most.
const TASKS_AT_ONCE: usize = 256;

/// The payload of a record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FleetEntry {
    pub(super) run_id: FleetRunId,
    #[serde(flatten)]
    pub(super) event: FleetEvent,
}

pub(super) struct Core {
    ledger: Ledger,
    /// Those that have not ended.
    pub(super) runs: BTreeMap<FleetRunId, FleetRun>,
    kept: Kept,
}

/// The row of a run that has ended.
#[derive(Debug, Serialize, Deserialize)]
struct EndedRow {
    run: FleetRun,
    plan: FleetPlan,
}

/// The row of an ended run by its owner; its name says all.
#[derive(Debug, Serialize, Deserialize)]
struct OwnedRow {}

/// The row of a request that made a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestRow {
    pub(super) run_id: FleetRunId,
    pub(super) at: DateTime<Utc>,
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
        let mut run = with_plan(run, plan)?;
        read_tasks(store, &mut run).await?;
        return Ok(Some(run));
    }
    let ended: Option<EndedRow> = store.row(ENDED, &name).await?;
    ended.map(|row| with_plan(row.run, row.plan)).transpose()
}

/// Returns the name of the row of a task. Those of one run lie together, in their order.
fn task_name(id: FleetRunId, task: usize) -> String {
    format!("{id}/{task:04}")
}

/// Returns the name of the row of an ended run by its owner.
fn owned_name(owner: &str, id: impl std::fmt::Display) -> String {
    format!("{owner} {id}")
}

/// Reads what has become of the tasks of an open run. One that nobody has had yet has no row.
async fn read_tasks(store: &WorkStore, run: &mut FleetRun) -> Result<(), WorkError> {
    // All names of tasks of this run lie before this one, and those of a greater id behind it.
    let mut before = format!("{}0", run.id);
    loop {
        let page = store
            .records
            .page(TASK, Some(&before), TASKS_AT_ONCE)
            .await?;
        for row in &page {
            let Some(index) = row.name.strip_prefix(&format!("{}/", run.id)) else {
                return Ok(());
            };
            let task = index
                .parse()
                .ok()
                .and_then(|at: usize| run.tasks.get_mut(at));
            let task = task.ok_or_else(|| does_not_fit(run.id))?;
            *task = read_row(TASK, row)?;
        }
        match page.last() {
            Some(last) if page.len() == TASKS_AT_ONCE => before.clone_from(&last.name),
            _ => return Ok(()),
        }
    }
}

fn does_not_fit(id: FleetRunId) -> WorkError {
    WorkError::Corrupt {
        kind: OPEN,
        name: id.to_string(),
        what: "it does not fit its plan".to_owned(),
    }
}

fn with_plan(mut run: FleetRun, plan: FleetPlan) -> Result<FleetRun, WorkError> {
    if run.tasks.is_empty() {
        run.tasks = vec![FleetTask::NEW; plan.tasks.len()];
    }
    if (plan.tasks.len(), plan.workers.len()) != (run.tasks.len(), run.workers.len()) {
        return Err(does_not_fit(run.id));
    }
    run.plan = Arc::new(plan);
    Ok(run)
}

impl Writer for Core {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    async fn load(&mut self, store: &WorkStore) -> Result<(), WorkError> {
        let mut found: Vec<FleetRunId> = Vec::new();
        store.each(OPEN, |run: FleetRun| found.push(run.id)).await?;
        let mut runs = BTreeMap::new();
        for id in found {
            match read_run(store, id).await {
                Ok(run) => runs.extend(run.map(|mut run| {
                    // What was missing may be there since the restart.
                    run.release_held();
                    (id, run)
                })),
                Err(error @ WorkError::Corrupt { .. }) => {
                    tracing::error!(%error, "a run of the fleet is left out");
                }
                Err(error) => return Err(error),
            }
        }
        self.runs = runs;
        Ok(())
    }
}

impl Core {
    pub(super) async fn open(store: &WorkStore, kept: Kept) -> Result<Self, WorkError> {
        let mut core = Self {
            ledger: Ledger::open(store, STREAM).await?,
            runs: BTreeMap::new(),
            kept,
        };
        core.load(store).await?;
        Ok(core)
    }

    pub(super) async fn create(
        &mut self,
        id: FleetRunId,
        owner: &str,
        plan: FleetPlan,
        request: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<FleetRun, WorkError> {
        let plan_row = put(PLAN, id.to_string(), &plan)?;
        let event = FleetEvent::Created {
            owner: owner.to_owned(),
            plan: Box::new(plan),
        };
        let mut run = FleetRun::begin(id, now, &event)
            .ok_or_else(|| WorkError::Storage("a run does not begin".to_owned()))?;
        run.first_seq = self.ledger.next_seq();
        let mut puts = vec![plan_row, put(OPEN, id.to_string(), &run)?];
        if let Some(request) = request {
            let row = RequestRow {
                run_id: id,
                at: now,
            };
            puts.push(put(REQUEST, request.to_owned(), &row)?);
        }
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
        let mut ended = Vec::new();
        for (id, run) in &after {
            if run.completed_at.is_some() {
                puts.push(take_out(OPEN, id.to_string()));
                puts.push(take_out(PLAN, id.to_string()));
                let tasks = 0..run.tasks.len();
                puts.extend(tasks.map(|task| take_out(TASK, task_name(*id, task))));
                let row = EndedRow {
                    run: run.clone(),
                    plan: FleetPlan::clone(&run.plan),
                };
                let row = put(ENDED, id.to_string(), &row)?;
                ended.push(Added::new(&run.owner, &row));
                puts.push(row);
                puts.push(put(OWNED, owned_name(&run.owner, id), &OwnedRow {})?);
            } else {
                // Only what has changed: a run may have a thousand tasks, and twice as many commits.
                let before = self.runs.get(id).map_or(&[][..], |before| &before.tasks);
                for (index, task) in run.tasks.iter().enumerate() {
                    if before.get(index) != Some(task) {
                        puts.push(put(TASK, task_name(*id, index), task)?);
                    }
                }
                let row = FleetRun {
                    tasks: Vec::new(),
                    ..run.clone()
                };
                puts.push(put(OPEN, id.to_string(), &row)?);
            }
        }
        let keeping = self.kept.add(self.ledger.store(), ended).await?;
        puts.extend(keeping.puts);
        for (owner, id) in keeping.gone {
            puts.push(take_out(OWNED, owned_name(&owner, &id)));
            puts.push(take_out(ENDED, id));
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
