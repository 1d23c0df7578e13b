//! Runs of the fleet: many tasks over workers that are threads of the daemon.
//!
//! What a run is at, `windlass-work` says. A worker is shown with the thread of the task that it has: its newest event is the heartbeat.

mod create;
mod events;
mod show;

use windlass_protocol::ErrorCode;
use windlass_protocol::api::Call;
use windlass_protocol::fleet as wire;
use windlass_protocol::operations as op;
use windlass_work::fleet::FleetTaskStatus;
use windlass_work::{Fleet, FleetRun, FleetRunId, WorkError};

use super::{RequestContext, limit};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;

pub use events::FleetFollower;

/// How many runs are listed by default, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;

/// Where runs are carried out; the only place there is.
const HERE: &str = "this_computer";

/// What a worker can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerAction {
    Interrupt,
    /// The same by another name.
    Stop,
    Restart,
}

impl WorkerAction {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

/// Names a worker among those of all runs.
fn worker_id(run: FleetRunId, name: &str) -> String {
    format!("{run}-{name}")
}

fn run_not_found(id: &str) -> ApiError {
    ApiError::new(
        ErrorCode::FleetRunNotFound,
        format!("there is no run of the fleet with the id `{id}`"),
    )
}

fn worker_not_found(id: &str) -> ApiError {
    ApiError::new(
        ErrorCode::WorkerNotFound,
        format!("there is no worker of the fleet with the id `{id}`"),
    )
}

/// Returns a run with what it was asked to do.
impl Handle<op::GetFleetRun> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::GetFleetRun>,
    ) -> Result<wire::FleetRunDetail> {
        let id = &call.path.run_id;
        let run = self.fleet_run(context, id).await?;
        self.show_detail(&run).await
    }
}

/// Starts a run that waits for it.
impl Handle<op::StartFleetRun> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StartFleetRun>,
    ) -> Result<wire::StartedFleetRun> {
        let id = &call.path.run_id;
        self.check_serving()?;
        let run = self.fleet_run(context, id).await?;
        let fleet = self.fleet()?.clone();
        let run = self.carry(async move { fleet.start(run.id).await });
        let run = run.await??;
        let count = |status| {
            run.tasks
                .iter()
                .filter(|task| task.status == status)
                .count() as u64
        };
        let workers = run.plan.workers.iter();
        Ok(wire::StartedFleetRun {
            action: "start".to_owned(),
            execution: "scheduled".to_owned(),
            run_id: run.id.to_string(),
            target: HERE.to_owned(),
            leased: count(FleetTaskStatus::Running),
            queued: count(FleetTaskStatus::Queued),
            worker_ids: workers
                .map(|worker| worker_id(run.id, &worker.worker_id))
                .collect(),
        })
    }
}

/// Stops a run. What runs is interrupted, and ends when its turn does.
impl Handle<op::StopFleetRun> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StopFleetRun>,
    ) -> Result<wire::StoppedFleetRun> {
        let id = &call.path.run_id;
        let run = self.fleet_run(context, id).await?;
        let open = run.tasks.iter().filter(|task| !task.status.is_end());
        let stopped = match run.stopped_at {
            Some(_) => 0,
            None => open.count() as u64,
        };
        let fleet = self.fleet()?.clone();
        let run = self.carry(async move { fleet.stop(run.id).await });
        let run = run.await??;
        Ok(wire::StoppedFleetRun {
            action: "stop".to_owned(),
            run_id: run.id.to_string(),
            stopped,
            status: self.show_run(&run).await?.status,
        })
    }
}

/// Returns the workers of a run.
impl Handle<op::ListFleetWorkers> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ListFleetWorkers>,
    ) -> Result<wire::FleetWorkerList> {
        let id = &call.path.run_id;
        let run = self.fleet_run(context, id).await?;
        let mut workers = Vec::with_capacity(run.workers.len());
        for index in 0..run.workers.len() {
            workers.extend(self.show_worker(&run, index).await?);
        }
        let run_id = run.id.to_string();
        Ok(wire::FleetWorkerList { run_id, workers })
    }
}

/// Returns a worker.
impl Handle<op::GetFleetWorker> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::GetFleetWorker>,
    ) -> Result<wire::FleetWorker> {
        let id = &call.path.worker_id;
        let (run, index) = self.worker_of(context, id).await?;
        let shown = self.show_worker(&run, index).await?;
        shown.ok_or_else(|| worker_not_found(id))
    }
}

/// Lists runs, newest first.
impl Handle<op::ListFleetRuns> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ListFleetRuns>,
    ) -> Result<wire::FleetRunList> {
        let before = call.query.before.as_deref();
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let before = match before {
            Some(id) => Some(ids::exact(id).ok_or_else(|| {
                ApiError::query("before must be the id of a run, as a list shows it")
            })?),
            None => None,
        };
        let owner = context.caller.agent().map(|_| context.caller.owner());
        let found = self.fleet()?.list(owner.as_deref(), before, limit).await?;
        let mut runs = Vec::with_capacity(found.len());
        for run in &found {
            runs.push(self.show_listed(run).await?);
        }
        let mut status = show::sum(&runs);
        // Where all of them are shown, they are counted already.
        if before.is_some() || found.len() == limit {
            status.runs = self.fleet()?.count(owner.as_deref()).await? as u64;
        }
        Ok(wire::FleetRunList { status, runs })
    }
}

impl Handle<op::InterruptFleetWorker> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::InterruptFleetWorker>,
    ) -> Result<wire::FleetWorkerTold> {
        let id = &call.path.worker_id;
        self.tell_worker(context, id, WorkerAction::Interrupt).await
    }
}

impl Handle<op::StopFleetWorker> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StopFleetWorker>,
    ) -> Result<wire::FleetWorkerTold> {
        let id = &call.path.worker_id;
        self.tell_worker(context, id, WorkerAction::Stop).await
    }
}

impl Handle<op::RestartFleetWorker> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::RestartFleetWorker>,
    ) -> Result<wire::FleetWorkerTold> {
        let id = &call.path.worker_id;
        self.tell_worker(context, id, WorkerAction::Restart).await
    }
}

impl Service {
    pub(super) fn fleet(&self) -> Result<&Fleet> {
        Ok(&self.work()?.fleet)
    }

    /// Finds a run that the caller may see: those of others do not exist for an agent.
    async fn fleet_run(&self, context: &RequestContext, id: &str) -> Result<FleetRun> {
        let run: FleetRunId = ids::exact(id).ok_or_else(|| run_not_found(id))?;
        match self.fleet()?.get(run).await {
            Ok(run) if context.caller.may_see(&run.owner) => Ok(run),
            // In the same words, so that nobody learns whether there is one.
            Ok(_) | Err(WorkError::NotFound { .. }) => Err(run_not_found(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds a run and a worker of it, by its place.
    async fn worker_of(&self, context: &RequestContext, id: &str) -> Result<(FleetRun, usize)> {
        let not_found = || worker_not_found(id);
        let (run, name) = id.rsplit_once('-').ok_or_else(not_found)?;
        let run = self.fleet_run(context, run).await.map_err(|error| {
            let is_unknown = error.code() == ErrorCode::FleetRunNotFound;
            if is_unknown { not_found() } else { error }
        })?;
        let mut workers = run.plan.workers.iter();
        let index = workers.position(|worker| worker.worker_id == name);
        let index = index.ok_or_else(not_found)?;
        Ok((run, index))
    }

    /// Tells a worker to give its task up, for good or to begin it anew.
    async fn tell_worker(
        &self,
        context: &RequestContext,
        id: &str,
        action: WorkerAction,
    ) -> Result<wire::FleetWorkerTold> {
        let (run, index) = self.worker_of(context, id).await?;
        let name = run.plan.workers.get(index).map(|it| it.worker_id.clone());
        let name = name.ok_or_else(|| worker_not_found(id))?;
        let fleet = self.fleet()?.clone();
        let told = self.carry(async move {
            match action {
                WorkerAction::Interrupt | WorkerAction::Stop => {
                    fleet.interrupt(run.id, &name).await
                }
                WorkerAction::Restart => fleet.restart(run.id, &name).await,
            }
        });
        let run = told.await??;
        let worker = self.show_worker(&run, index).await?;
        Ok(wire::FleetWorkerTold {
            action: action.name().to_owned(),
            execution: (action == WorkerAction::Restart).then(|| "scheduled".to_owned()),
            run_id: run.id.to_string(),
            worker: worker.ok_or_else(|| worker_not_found(id))?,
        })
    }
}
