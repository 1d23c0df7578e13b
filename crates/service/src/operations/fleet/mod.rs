//! Fleet runs: many tasks, distributed over workers, which are threads of the daemon.
//!
//! `windlass-jobs` stores the state of a run. A worker is shown with the thread of its current task; the newest event of that thread is the
//! heartbeat.

mod create;
mod events;
mod show;

use windlass_jobs::fleet::FleetTaskStatus;
use windlass_jobs::{Fleet, FleetRun, FleetRunId, JobError};
use windlass_protocol::ErrorCode;
use windlass_protocol::api::Call;
use windlass_protocol::fleet as wire;
use windlass_protocol::operations as op;

use super::{RequestContext, limit};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;

pub use events::FleetFollower;

/// Default and maximum number of listed runs.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;

/// The only location where runs are executed.
const HERE: &str = "this_computer";

/// An action on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerAction {
    Interrupt,
    /// An alias of `Interrupt`.
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

/// Returns the ID of a worker, which is unique among all runs.
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

/// Returns a run with its tasks.
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

/// Starts a run that was created without starting it.
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

/// Stops a run. Running tasks are interrupted and end with their turns.
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
        // If the list contains all runs, they are already counted.
        if before.is_some() || found.len() == limit {
            status.runs = self.fleet()?.count(owner.as_deref()).await? as u64;
        }
        Ok(wire::FleetRunList { status, runs })
    }
}

macro_rules! worker_actions {
    ($($operation:ident $action:ident;)*) => {
        $(
            impl Handle<op::$operation> for Service {
                async fn handle(
                    &self,
                    context: &RequestContext,
                    call: Call<op::$operation>,
                ) -> Result<wire::FleetWorkerCommandResult> {
                    let id = &call.path.worker_id;
                    self.tell_worker(context, id, WorkerAction::$action).await
                }
            }
        )*
    };
}

worker_actions! {
    InterruptFleetWorker Interrupt;
    StopFleetWorker Stop;
    RestartFleetWorker Restart;
}

impl Service {
    pub(super) fn fleet(&self) -> Result<&Fleet> {
        Ok(&self.jobs()?.fleet)
    }

    /// Finds a run that the caller may see. For an agent, runs of other owners do not exist.
    async fn fleet_run(&self, context: &RequestContext, id: &str) -> Result<FleetRun> {
        let run: FleetRunId = ids::exact(id).ok_or_else(|| run_not_found(id))?;
        match self.fleet()?.get(run).await {
            Ok(run) if context.caller.may_see(&run.owner) => Ok(run),
            // The same error, so that it does not reveal whether the run exists.
            Ok(_) | Err(JobError::NotFound { .. }) => Err(run_not_found(id)),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds a run and the index of one of its workers.
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

    /// Makes a worker abandon its task, finally or for a restart.
    async fn tell_worker(
        &self,
        context: &RequestContext,
        id: &str,
        action: WorkerAction,
    ) -> Result<wire::FleetWorkerCommandResult> {
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
        Ok(wire::FleetWorkerCommandResult {
            action: action.name().to_owned(),
            execution: (action == WorkerAction::Restart).then(|| "scheduled".to_owned()),
            run_id: run.id.to_string(),
            worker: worker.ok_or_else(|| worker_not_found(id))?,
        })
    }
}
