//! The open fleet runs in memory, and the rows of all fleet runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::plan::FleetPlan;
use super::run::{FleetEvent, FleetRun, FleetRunId};
use super::task::FleetTask;
use super::{ENDED, OWNED};
use crate::error::{JobError, skip_corrupt};
use crate::ledger::{Change, Commit, JobKind};
use crate::rows::{JobStore, read_row};

/// Rows of runs that have not ended.
const OPEN: &str = "work.fleet";
/// Rows of plans of open runs, written once: they are large and do not change.
const PLAN: &str = "work.fleet.plan";
/// Rows of tasks of open runs.
const TASK: &str = "work.fleet.task";

/// The runs that have not ended.
#[derive(Default)]
pub(crate) struct OpenFleetRuns {
    pub(super) runs: BTreeMap<FleetRunId, FleetRun>,
}

/// The row of a run that has ended.
#[derive(Debug, Serialize, Deserialize)]
struct EndedRow {
    run: FleetRun,
    plan: FleetPlan,
}

/// The row of an ended run by its owner. All data is in its name.
#[derive(Debug, Serialize, Deserialize)]
struct OwnedRow {}

/// The row of a request that created a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FleetRequestRow {
    pub(super) run_id: FleetRunId,
    pub(super) at: DateTime<Utc>,
}

/// Reads a run with its plan. It moves from open to ended and never back, so this order misses none.
pub(super) async fn read_run(
    store: &JobStore,
    id: FleetRunId,
) -> Result<Option<FleetRun>, JobError> {
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

/// Returns the name of the row of a task. Those of one run are adjacent, in their order.
fn task_name(id: FleetRunId, task: usize) -> String {
    format!("{id}/{task:04}")
}

/// Reads the tasks of an open run. A task without an attempt has no row.
async fn read_tasks(store: &JobStore, run: &mut FleetRun) -> Result<(), JobError> {
    let prefix = format!("{}/", run.id);
    // Greater than the names of all tasks of this run, and not greater than those of a greater ID.
    let before = format!("{}0", run.id);
    store
        .scan(TASK, Some(before), |row| {
            let Some(index) = row.name.strip_prefix(&prefix) else {
                return Ok(ControlFlow::Break(()));
            };
            let index: Option<usize> = index.parse().ok();
            let task = index.and_then(|at| run.tasks.get_mut(at));
            *task.ok_or_else(|| plan_mismatch(run.id))? = read_row(TASK, row)?;
            Ok(ControlFlow::Continue(()))
        })
        .await
}

fn plan_mismatch(id: FleetRunId) -> JobError {
    JobError::Corrupt {
        kind: OPEN,
        name: id.to_string(),
        reason: "it does not match its plan".to_owned(),
    }
}

fn with_plan(mut run: FleetRun, plan: FleetPlan) -> Result<FleetRun, JobError> {
    if run.tasks.is_empty() {
        run.tasks = vec![FleetTask::NEW; plan.tasks.len()];
    }
    if (plan.tasks.len(), plan.workers.len()) != (run.tasks.len(), run.workers.len()) {
        return Err(plan_mismatch(run.id));
    }
    run.plan = Arc::new(plan);
    Ok(run)
}

impl JobKind for OpenFleetRuns {
    type Id = FleetRunId;
    type State = FleetRun;
    type Event = FleetEvent;

    const STREAM: &'static str = "work:fleet";
    const RECORD_PREFIX: &'static str = "fleet";
    const ID_FIELD: &'static str = "run_id";
    const ENDED_ROWS: &'static [&'static str] = &super::EXPENDABLE;
    const REQUEST_ROWS: &'static str = "work.fleet.request";

    fn id(run: &FleetRun) -> FleetRunId {
        run.id
    }

    fn begin(id: FleetRunId, at: DateTime<Utc>, event: &FleetEvent) -> Option<FleetRun> {
        FleetRun::begin(id, at, event)
    }

    fn evolve(run: &mut FleetRun, at: DateTime<Utc>, event: &FleetEvent) {
        run.evolve(at, event);
    }

    async fn load(&mut self, store: &JobStore) -> Result<(), JobError> {
        let mut found: Vec<FleetRunId> = Vec::new();
        store.each(OPEN, |run: FleetRun| found.push(run.id)).await?;
        let mut runs = BTreeMap::new();
        for id in found {
            let run = skip_corrupt(read_run(store, id).await, "a fleet run is skipped")?;
            if let Some(mut run) = run.flatten() {
                // The causes of holds may be gone since the restart.
                run.release_held();
                runs.insert(id, run);
            }
        }
        self.runs = runs;
        Ok(())
    }

    fn rows(change: &Change<Self>, commit: &mut Commit) -> Result<(), JobError> {
        let run = &change.after;
        let (id, name) = (run.id, run.id.to_string());
        if let Some(request) = &change.request {
            let row = FleetRequestRow {
                run_id: id,
                at: run.created_at,
            };
            commit.put(Self::REQUEST_ROWS, request, &row)?;
        }
        if run.completed_at.is_some() {
            commit.remove(OPEN, &name);
            commit.remove(PLAN, &name);
            for task in 0..run.tasks.len() {
                commit.remove(TASK, task_name(id, task));
            }
            let row = EndedRow {
                run: run.clone(),
                plan: FleetPlan::clone(&run.plan),
            };
            commit.put(OWNED, format!("{} {id}", run.owner), &OwnedRow {})?;
            return commit.put_ended(&run.owner, ENDED, name, &row);
        }
        if change.before.is_none() {
            commit.put(PLAN, &name, &*run.plan)?;
        }
        // Only changed tasks are written: a run may have a thousand tasks, and twice as many commits.
        let before = change.before.as_ref().map(|before| &before.tasks);
        for (index, task) in run.tasks.iter().enumerate() {
            let before = before.and_then(|tasks| tasks.get(index));
            if before.unwrap_or(&FleetTask::NEW) != task {
                commit.put(TASK, task_name(id, index), task)?;
            }
        }
        let mut row = run.clone();
        if change.before.is_some() {
            row.tasks = Vec::new();
        }
        commit.put(OPEN, name, &row)
    }

    fn apply(&mut self, change: &Change<Self>, _: DateTime<Utc>) {
        let run = &change.after;
        match run.completed_at {
            Some(_) => self.runs.remove(&run.id),
            None => self.runs.insert(run.id, run.clone()),
        };
    }
}
