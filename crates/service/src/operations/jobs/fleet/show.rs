//! Runs and workers in their wire format.

use chrono::{TimeDelta, Utc};
use serde_json::json;
use windlass_core::items::{TurnStatus, TurnView};
use windlass_jobs::FleetRun;
use windlass_jobs::fleet::{FleetRunStatus, FleetTaskStatus, WorkerCommand, is_stale};
use windlass_protocol::fleet as wire;
use windlass_store::queries::{ThreadRow, ThreadState};

use super::{THIS_COMPUTER, worker_id};
use crate::error::Result;
use crate::ids;
use crate::jobs::wire_hold;
use crate::operations::threads::thread_record::params_without_mode;
use crate::service::Service;
use crate::view::unapproved;

/// A worker without an event for this long is reported as unhealthy.
const STALE_AFTER: TimeDelta = TimeDelta::minutes(10);

/// The host of workers in the wire format.
const LOCAL: &str = "local";
/// The error of a worker that must abandon its task and has not ended it yet.
const CANCELLED: &str = "cancelled by operator";

pub(super) fn run_status(status: FleetRunStatus) -> wire::FleetRunStatus {
    match status {
        FleetRunStatus::Pending => wire::FleetRunStatus::Pending,
        FleetRunStatus::Queued => wire::FleetRunStatus::Queued,
        FleetRunStatus::Running => wire::FleetRunStatus::Running,
        FleetRunStatus::Completed => wire::FleetRunStatus::Completed,
        // Clients know no status for partial success; the counts contain the number of completed tasks.
        FleetRunStatus::Partial | FleetRunStatus::Failed => wire::FleetRunStatus::Failed,
        FleetRunStatus::Cancelled => wire::FleetRunStatus::Cancelled,
    }
}

pub(super) fn task_status(status: FleetTaskStatus) -> wire::FleetTaskStatus {
    match status {
        FleetTaskStatus::Queued => wire::FleetTaskStatus::Enqueued,
        FleetTaskStatus::Running => wire::FleetTaskStatus::Leased,
        FleetTaskStatus::Completed => wire::FleetTaskStatus::Completed,
        FleetTaskStatus::Failed => wire::FleetTaskStatus::Failed,
        FleetTaskStatus::Cancelled => wire::FleetTaskStatus::Cancelled,
    }
}

/// Adds up the counts of several runs.
pub(super) fn sum(runs: &[wire::FleetRun]) -> wire::FleetStatus {
    let mut sum = wire::FleetStatus::default();
    for status in runs.iter().map(|run| &run.status) {
        sum.runs += status.runs;
        sum.queued += status.queued;
        sum.running += status.running;
        sum.completed += status.completed;
        sum.failed += status.failed;
        sum.task_failed += status.task_failed;
        sum.restarted += status.restarted;
        sum.cancelled += status.cancelled;
        sum.stale += status.stale;
        sum.workers.extend(status.workers.clone());
    }
    sum
}

fn tasks(app: &Service, run: &FleetRun) -> Vec<wire::FleetTaskState> {
    let hold_of = |task| app.jobs.as_ref()?.fleet.hold_of(run, task).map(wire_hold);
    let tasks = run.tasks.iter().zip(&run.plan.tasks).enumerate();
    let shown = tasks.map(|(index, (task, spec))| wire::FleetTaskState {
        task_id: spec.task_id.clone(),
        status: task_status(task.status),
        leased_to: task.leased_to.as_ref().map(|name| worker_id(run.id, name)),
        attempts: task.attempts,
        restarts: task.restarts,
        thread_id: (task.attempts > 0).then(|| ids::thread(run.thread_id(index))),
        summary: task.summary.clone(),
        error: task.error.clone(),
        held: hold_of(index),
        unapproved_calls: unapproved(task.unapproved),
    });
    shown.collect()
}

impl Service {
    /// Returns a worker's task and its thread; `None` if the worker has no task.
    async fn thread_of_worker(
        &self,
        run: &FleetRun,
        worker: usize,
    ) -> Result<Option<(usize, u32, Option<ThreadRow>)>> {
        let Some((_, task, attempt)) = run.leases().find(|(of, ..)| *of == worker) else {
            return Ok(None);
        };
        let row = self.queries.thread(&run.thread_id(task).into()).await?;
        Ok(Some((task, attempt, row)))
    }

    fn worker_status(
        run: &FleetRun,
        worker: usize,
        thread: Option<&(usize, u32, Option<ThreadRow>)>,
    ) -> wire::FleetWorkerStatus {
        let state = run.workers.get(worker);
        let is_commanded = state.is_some_and(|it| it.command.is_some());
        match thread {
            _ if run.completed_at.is_some() => wire::FleetWorkerStatus::Retired,
            None => wire::FleetWorkerStatus::Online,
            Some(_) if is_commanded => wire::FleetWorkerStatus::Draining,
            Some((.., row)) => {
                // Until the thread exists, the lease counts as the heartbeat.
                let heartbeat = row.as_ref().map_or(run.updated_at, |row| row.at);
                if is_stale(Some(heartbeat), Utc::now(), STALE_AFTER) {
                    wire::FleetWorkerStatus::Unhealthy
                } else {
                    wire::FleetWorkerStatus::Busy
                }
            }
        }
    }

    /// Converts a run for a list, without the texts of its tasks, because there may be many.
    pub(super) async fn show_listed(&self, run: &FleetRun) -> Result<wire::FleetRun> {
        let mut shown = self.show_run(run).await?;
        for task in &mut shown.tasks {
            (task.summary, task.error) = (None, None);
        }
        Ok(shown)
    }

    /// Converts a run. Only the threads that workers use now are looked up.
    pub(super) async fn show_run(&self, run: &FleetRun) -> Result<wire::FleetRun> {
        let mut status = wire::FleetStatus {
            runs: 1,
            ..wire::FleetStatus::default()
        };
        for task in &run.tasks {
            status.restarted += u64::from(task.restarts);
            *match task.status {
                FleetTaskStatus::Queued => &mut status.queued,
                FleetTaskStatus::Running => &mut status.running,
                FleetTaskStatus::Completed => &mut status.completed,
                FleetTaskStatus::Failed => &mut status.failed,
                FleetTaskStatus::Cancelled => &mut status.cancelled,
            } += 1;
        }
        status.task_failed = status.failed;
        for (index, spec) in run.plan.workers.iter().enumerate() {
            let thread = self.thread_of_worker(run, index).await?;
            let shown = Self::worker_status(run, index, thread.as_ref());
            status.stale += u64::from(shown == wire::FleetWorkerStatus::Unhealthy);
            let id = worker_id(run.id, &spec.worker_id);
            status.workers.insert(id, shown);
        }
        let mut roles: Vec<String> = Vec::new();
        for role in run.plan.tasks.iter().filter_map(|task| task.role.as_ref()) {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        Ok(wire::FleetRun {
            id: run.id.to_string(),
            name: run.plan.name.clone(),
            lifecycle_status: run_status(run.status()),
            status,
            target: THIS_COMPUTER.to_owned(),
            roles,
            task_count: run.tasks.len(),
            worker_count: run.workers.len(),
            tasks: tasks(self, run),
            labels: run.plan.labels.clone(),
            created_at: ids::time(run.created_at),
            updated_at: Some(ids::time(run.updated_at)),
            completed_at: run.completed_at.map(ids::time),
        })
    }

    pub(super) async fn show_detail(&self, run: &FleetRun) -> Result<wire::FleetRunDetail> {
        let task_specs = run.plan.tasks.iter().map(|task| {
            let spec = &task.spec;
            wire::FleetTaskSpec {
                id: task.task_id.clone(),
                name: Some(task.name.clone().unwrap_or_else(|| task.task_id.clone())),
                objective: task.objective.clone(),
                instructions: spec.prompt.clone(),
                worker: Some(wire::FleetTaskWorker {
                    role: task.role.clone(),
                    model: spec.policy.model.clone(),
                    ..wire::FleetTaskWorker::default()
                }),
                workspace: spec.workspace.clone().map(|root| wire::FleetTaskWorkspace {
                    root: Some(root),
                    ..wire::FleetTaskWorkspace::default()
                }),
                retry_policy: Some(wire::FleetRetryPolicy {
                    max_attempts: spec.max_attempts,
                }),
                mode: spec.policy.mode.clone(),
                ..wire::FleetTaskSpec::default()
            }
            .with_policy(&params_without_mode(&spec.policy))
        });
        let worker_specs = run.plan.workers.iter().map(|worker| wire::FleetWorkerSpec {
            id: worker_id(run.id, &worker.worker_id),
            name: worker.worker_id.clone(),
            host: json!({ "kind": LOCAL }),
            max_concurrent_tasks: 1,
            role: Some(worker.role.clone()).filter(|role| !role.is_empty()),
            backend: worker.backend.clone(),
        });
        Ok(wire::FleetRunDetail {
            run: self.show_run(run).await?,
            task_specs: task_specs.collect(),
            worker_specs: worker_specs.collect(),
        })
    }

    /// Converts a worker; `None` if the run has no worker with this index.
    pub(super) async fn show_worker(
        &self,
        run: &FleetRun,
        worker: usize,
    ) -> Result<Option<wire::FleetWorker>> {
        let (Some(spec), Some(state)) = (run.plan.workers.get(worker), run.workers.get(worker))
        else {
            return Ok(None);
        };
        let thread = self.thread_of_worker(run, worker).await?;
        let status = Self::worker_status(run, worker, thread.as_ref());
        let id = worker_id(run.id, &spec.worker_id);
        let mut shown = wire::FleetWorker {
            worker_id: id.clone(),
            status,
            run_id: Some(run.id.to_string()),
            task_id: None,
            objective: None,
            role: Some(spec.role.clone()).filter(|role| !role.is_empty()),
            host: Some(LOCAL.to_owned()),
            latest_heartbeat_at: None,
            latest_event: None,
            artifacts: Vec::new(),
            last_error: match state.command {
                Some(WorkerCommand::Interrupt | WorkerCommand::Stop) => Some(CANCELLED.to_owned()),
                Some(WorkerCommand::Restart) | None => state.last_error.clone(),
            },
            alert_state: None,
            runtime_state: None,
            thread_id: None,
            backend: spec.backend.clone(),
        };
        let Some((task, attempt, row)) = thread else {
            return Ok(Some(shown));
        };
        if let Some(task) = run.plan.tasks.get(task) {
            shown.task_id = Some(task.task_id.clone());
            let objective = task.objective.clone().or_else(|| task.name.clone());
            shown.objective = objective.or_else(|| Some(task.task_id.clone()));
            shown.role = shown.role.or_else(|| task.role.clone());
            shown.backend = task.spec.policy.backend.clone().or(shown.backend);
        }
        shown.thread_id = Some(ids::thread(run.thread_id(task)));
        let turn = run.turn_id(task, attempt);
        let turn = self.queries.turn(&run.thread_id(task).into(), turn).await?;
        let turn = turn.map(|turn| turn.view);
        let agent_status = match (&turn, row.as_ref().map(|row| row.state)) {
            (None, _) => "starting",
            (Some(turn), state) => match turn.status {
                TurnStatus::InProgress if state == Some(ThreadState::Waiting) => "waiting_for_user",
                TurnStatus::InProgress => "running",
                TurnStatus::Completed => "completed",
                TurnStatus::Failed => "failed",
                TurnStatus::Interrupted => "interrupted",
            },
        };
        let steps = |turn: &TurnView| turn.iterations + turn.tool_call_count;
        shown.runtime_state = Some(wire::FleetWorkerRuntime {
            agent_status: agent_status.to_owned(),
            steps_taken: turn.as_ref().map_or(0, steps) as u64,
            latest_message: row.as_ref().map(|row| row.preview.clone()),
            error: turn.and_then(|turn| turn.error),
            result_summary: None,
            has_session: row.is_some(),
        });
        if let Some(row) = row {
            let label = match status {
                wire::FleetWorkerStatus::Unhealthy => "stale",
                _ => "running",
            };
            shown.latest_heartbeat_at = Some(ids::time(row.at));
            shown.latest_event = Some(wire::FleetWorkerEvent {
                seq: row.seq,
                run_id: run.id.to_string(),
                worker_id: id,
                task_id: shown.task_id.clone().unwrap_or_default(),
                timestamp: ids::time(row.at),
                label: label.to_owned(),
                payload: json!({ "state": label }),
            });
        }
        Ok(Some(shown))
    }
}
