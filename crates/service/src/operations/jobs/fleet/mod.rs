//! Fleet runs: many tasks, distributed over workers, which are threads of the daemon.
//!
//! `windlass-jobs` stores the state of a run. A worker is shown with the thread of its current task; the newest event of that thread is the
//! heartbeat.

mod create;
mod events;
mod show;

use windlass_jobs::fleet::FleetTaskStatus;
use windlass_jobs::{Fleet, FleetRun, FleetRunId};
use windlass_protocol::fleet as wire;

use crate::ids;
use crate::operations::prelude::*;

pub use events::FleetFollower;

/// Default and maximum number of listed runs.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;

/// The only target of runs: the machine of the daemon.
const THIS_COMPUTER: &str = "this_computer";

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
    let text = format!("there is no run of the fleet with the id `{id}`");
    ApiError::new(ErrorCode::FleetRunNotFound, text)
}

fn worker_not_found(id: &str) -> ApiError {
    let text = format!("there is no worker of the fleet with the id `{id}`");
    ApiError::new(ErrorCode::WorkerNotFound, text)
}

/// Returns a run with its tasks.
impl Handle<op::GetFleetRun> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::GetFleetRun>,
    ) -> Result<wire::FleetRunDetail> {
        let run = self.fleet_run(ctx, &call.path.run_id).await?;
        self.show_detail(&run).await
    }
}

/// Starts a run that was created without starting it.
impl Handle<op::StartFleetRun> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::StartFleetRun>,
    ) -> Result<wire::StartedFleetRun> {
        self.check_serving()?;
        let run = self.fleet_run(ctx, &call.path.run_id).await?;
        let fleet = self.fleet()?.clone();
        let run = self.run_detached(async move { fleet.start(run.id).await });
        let run = run.await??;
        let count = |status| {
            let tasks = run.tasks.iter().filter(|task| task.status == status);
            tasks.count() as u64
        };
        let workers = run.plan.workers.iter();
        Ok(wire::StartedFleetRun {
            action: "start".to_owned(),
            execution: "scheduled".to_owned(),
            run_id: run.id.to_string(),
            target: THIS_COMPUTER.to_owned(),
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
        ctx: &RequestContext,
        call: Call<op::StopFleetRun>,
    ) -> Result<wire::StoppedFleetRun> {
        let run = self.fleet_run(ctx, &call.path.run_id).await?;
        let open = run.tasks.iter().filter(|task| !task.status.is_end());
        let stopped = match run.stopped_at {
            Some(_) => 0,
            None => open.count() as u64,
        };
        let fleet = self.fleet()?.clone();
        let run = self.run_detached(async move { fleet.stop(run.id).await });
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
        ctx: &RequestContext,
        call: Call<op::ListFleetWorkers>,
    ) -> Result<wire::FleetWorkerList> {
        let run = self.fleet_run(ctx, &call.path.run_id).await?;
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
        ctx: &RequestContext,
        call: Call<op::GetFleetWorker>,
    ) -> Result<wire::FleetWorker> {
        let id = &call.path.worker_id;
        let (run, index) = self.find_worker(ctx, id).await?;
        let shown = self.show_worker(&run, index).await?;
        shown.ok_or_else(|| worker_not_found(id))
    }
}

/// Lists runs, newest first.
impl Handle<op::ListFleetRuns> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ListFleetRuns>,
    ) -> Result<wire::FleetRunList> {
        let limit = limit(call.query.limit, DEFAULT_LIMIT, MAX_LIMIT);
        let invalid = || ApiError::query("before must be the id of a run from a list");
        let before = call.query.before.as_deref();
        let before = before.map(|id| ids::exact(id).ok_or_else(invalid));
        let before = before.transpose()?;
        let owner = ctx.caller.agent().map(|_| ctx.caller.owner());
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
                    ctx: &RequestContext,
                    call: Call<op::$operation>,
                ) -> Result<wire::FleetWorkerCommandResult> {
                    self.command_worker(ctx, &call.path.worker_id, WorkerAction::$action).await
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
    pub(crate) fn fleet(&self) -> Result<&Fleet> {
        Ok(&self.jobs()?.fleet)
    }

    /// Finds a run that the caller may see. For an agent, runs of other owners do not exist.
    async fn fleet_run(&self, ctx: &RequestContext, id: &str) -> Result<FleetRun> {
        let not_found = || run_not_found(id);
        let run_id = ids::exact(id).ok_or_else(not_found)?;
        let found = self.fleet()?.get(run_id).await;
        accessible(ctx, found, |run| &run.owner, not_found)
    }

    /// Finds a run and the index of one of its workers.
    async fn find_worker(&self, ctx: &RequestContext, id: &str) -> Result<(FleetRun, usize)> {
        let not_found = || worker_not_found(id);
        let (run, name) = id.rsplit_once('-').ok_or_else(not_found)?;
        let run = self.fleet_run(ctx, run).await.map_err(|error| {
            let is_unknown = error.code() == ErrorCode::FleetRunNotFound;
            if is_unknown { not_found() } else { error }
        })?;
        let mut workers = run.plan.workers.iter();
        let index = workers.position(|worker| worker.worker_id == name);
        let index = index.ok_or_else(not_found)?;
        Ok((run, index))
    }

    /// Makes a worker abandon its task, permanently or for a restart.
    async fn command_worker(
        &self,
        ctx: &RequestContext,
        id: &str,
        action: WorkerAction,
    ) -> Result<wire::FleetWorkerCommandResult> {
        let (run, index) = self.find_worker(ctx, id).await?;
        let name = run.plan.workers.get(index).map(|it| it.worker_id.clone());
        let name = name.ok_or_else(|| worker_not_found(id))?;
        let fleet = self.fleet()?.clone();
        let commanded = self.run_detached(async move {
            match action {
                WorkerAction::Interrupt | WorkerAction::Stop => {
                    fleet.interrupt(run.id, &name).await
                }
                WorkerAction::Restart => fleet.restart(run.id, &name).await,
            }
        });
        let run = commanded.await??;
        let worker = self.show_worker(&run, index).await?;
        Ok(wire::FleetWorkerCommandResult {
            action: action.name().to_owned(),
            execution: (action == WorkerAction::Restart).then(|| "scheduled".to_owned()),
            run_id: run.id.to_string(),
            worker: worker.ok_or_else(|| worker_not_found(id))?,
        })
    }
}
