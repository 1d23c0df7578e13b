//! Work that nobody sits beside, on threads of the daemon: tasks in a queue, and automations that queue them by a schedule.

mod error;
mod hands;
mod owner;
mod view;

use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::InProcessRuntime;
use windlass_work::{Automations, Clock, Fleet, SystemClock, Tasks, WorkError, WorkStore};

use crate::app::{App, Shared};
use crate::settings::Settings;
use crate::store::{KEPT_FOR, WireStore};

pub(crate) use hands::{ThreadHands, thread_for};
pub(crate) use view::{automation_record, run_record, task_status};

/// What is to be done, and when.
pub(crate) struct Work {
    pub(crate) tasks: Tasks,
    pub(crate) automations: Automations,
    pub(crate) fleet: Fleet,
}

impl Work {
    /// Takes up what is open, where the settings say so. Nothing is carried out yet.
    pub(crate) async fn open(
        settings: &Settings,
        runtime: &InProcessRuntime,
        store: &dyn WireStore,
    ) -> Result<Option<Self>, WorkError> {
        let Some(settings) = &settings.work else {
            return Ok(None);
        };
        let store = WorkStore {
            journal: runtime.journal(),
            records: store.records(),
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let tasks = Tasks::open(store.clone(), Arc::clone(&clock), settings.tasks).await?;
        let fleet = Fleet::open(store.clone(), Arc::clone(&clock), settings.fleet).await?;
        let of_automations = settings.automations.clone();
        let automations = Automations::open(store, clock, tasks.clone(), of_automations).await?;
        if settings.carries_out {
            automations.declare(settings.declared.clone()).await?;
        }
        Ok(Some(Self {
            tasks,
            automations,
            fleet,
        }))
    }
}

/// Carries work out until the server stops. What runs then is found again at the next start, by its ids.
pub(crate) async fn carry_out(app: Shared) {
    let Some(work) = &app.work else {
        return;
    };
    if !app.carries_work_out() {
        return;
    }
    let hands = Arc::new(ThreadHands::new(&app));
    let of_fleet = Arc::clone(&hands);
    let replaced = tokio::select! {
        replaced = work.tasks.run(hands) => replaced,
        replaced = work.fleet.run(of_fleet) => replaced,
        replaced = work.automations.run() => replaced,
        () = app.stopping.cancelled() => return,
    };
    tracing::error!(error = %replaced, "tasks and automations are not carried out any more");
}

impl App {
    /// Tells whether tasks begin here, and do not only wait for another server.
    pub(crate) fn carries_work_out(&self) -> bool {
        let settings = self.settings.work.as_ref();
        settings.is_some_and(|settings| settings.carries_out)
    }

    /// Forgets tasks and runs that ended long ago.
    pub(crate) async fn forget_work(&self) -> Result<(), WorkError> {
        let (Some(work), Some(settings)) = (&self.work, &self.settings.work) else {
            return Ok(());
        };
        let age = settings.keep_ended.unwrap_or(Duration::MAX);
        work.tasks.forget(age).await?;
        work.automations.forget(age).await?;
        work.fleet.forget(age).await?;
        let repeats = KEPT_FOR.to_std().unwrap_or_default();
        work.tasks.forget_requests(repeats).await?;
        work.automations.forget_requests(repeats).await?;
        Ok(())
    }
}
