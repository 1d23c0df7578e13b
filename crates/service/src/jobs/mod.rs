//! Unattended jobs on threads of the daemon: queued tasks, automations that queue tasks by a schedule, and fleet runs.

mod error;
mod owner;
mod turn_runner;
mod view;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::{Clock, SystemClock};
use windlass_jobs::{Automations, Fleet, JobError, JobStore, Tasks};
use windlass_runtime::InProcessRuntime;

use crate::background::supervise::{LoopFailed, supervise};
use crate::service::Service;
use crate::settings::Settings;
use crate::store::{ANSWER_RETENTION, WireStore};

pub(crate) use turn_runner::{ThreadTurnRunner, interrupt_cancelled, thread_request};
pub(crate) use view::{automation_record, run_record, task_status, wire_hold};

/// The job ledgers of this daemon.
pub(crate) struct Jobs {
    pub(crate) tasks: Tasks,
    pub(crate) automations: Automations,
    pub(crate) fleet: Fleet,
}

impl Jobs {
    /// Loads the stored jobs; `None` if jobs are disabled. No job starts yet.
    pub(crate) async fn open(
        settings: &Settings,
        runtime: &InProcessRuntime,
        store: &dyn WireStore,
    ) -> Result<Option<Self>, JobError> {
        let Some(settings) = &settings.jobs else {
            return Ok(None);
        };
        let store = JobStore {
            journal: runtime.journal(),
            records: store.records(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tasks = Tasks::open(store.clone(), Arc::clone(&clock), settings.tasks).await?;
        let fleet = Fleet::open(store.clone(), Arc::clone(&clock), settings.fleet).await?;
        let automations = settings.automations.clone();
        let automations = Automations::open(store, clock, tasks.clone(), automations).await?;
        if settings.runs_jobs {
            automations.declare(settings.declared.clone()).await?;
        }
        Ok(Some(Self {
            tasks,
            automations,
            fleet,
        }))
    }
}

/// Starts the loops that run jobs until the server stops; the returned future waits for them. A job that is running when the server stops resumes
/// at the next start.
pub(crate) fn run_jobs(app: &Service) -> impl Future<Output = ()> + use<> {
    let mut loops = Vec::new();
    if app.jobs.is_some() && app.runs_jobs() {
        for (name, job) in [
            ("tasks", Job::Tasks),
            ("fleet", Job::Fleet),
            ("automations", Job::Automations),
        ] {
            loops.push(supervise(app, name, move |app| run_loop(app, job)));
        }
    }
    async {
        for job_loop in loops {
            let _ = job_loop.await;
        }
    }
}

#[derive(Clone, Copy)]
enum Job {
    Tasks,
    Fleet,
    Automations,
}

/// Runs the jobs of one kind. It ends early only when another process has claimed them.
async fn run_loop(app: Service, job: Job) -> Result<(), LoopFailed> {
    let Some(jobs) = &app.jobs else {
        return Ok(());
    };
    let runner = Arc::new(ThreadTurnRunner::new(&app));
    let running = async {
        match job {
            Job::Tasks => jobs.tasks.run(runner).await,
            Job::Fleet => jobs.fleet.run(runner).await,
            Job::Automations => jobs.automations.run().await,
        }
    };
    tokio::select! {
        replaced = running => Err(LoopFailed(replaced.to_string())),
        () = app.stopping.cancelled() => Ok(()),
    }
}

impl Service {
    /// Returns whether this daemon runs jobs, and does not only store them for another one.
    pub(crate) fn runs_jobs(&self) -> bool {
        let settings = self.settings.jobs.as_ref();
        settings.is_some_and(|settings| settings.runs_jobs)
    }

    /// Retries held jobs immediately, because the cause of the hold may be gone.
    pub(crate) async fn retry_held_jobs(&self) {
        let Some(jobs) = &self.jobs else {
            return;
        };
        for retried in [jobs.tasks.retry_held().await, jobs.fleet.retry_held().await] {
            if let Err(error) = retried {
                tracing::warn!(%error, "held jobs will be retried later");
            }
        }
    }

    /// Removes tasks and runs whose retention has ended.
    pub(crate) async fn prune_jobs(&self) -> Result<(), JobError> {
        let (Some(jobs), Some(settings)) = (&self.jobs, &self.settings.jobs) else {
            return Ok(());
        };
        let age = settings.keep_ended.unwrap_or(Duration::MAX);
        jobs.tasks.forget(age).await?;
        jobs.automations.forget(age).await?;
        jobs.fleet.forget(age).await?;
        let retention = ANSWER_RETENTION.to_std().unwrap_or_default();
        jobs.tasks.forget_requests(retention).await?;
        jobs.automations.forget_requests(retention).await?;
        Ok(())
    }
}
