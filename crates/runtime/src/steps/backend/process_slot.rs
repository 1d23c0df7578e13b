//! The slot for the process of a thread's external agent.
//!
//! A process can serve several turns, so it belongs to the thread in memory and not to a turn. It ends when the thread is evicted, when it is idle
//! for too long, when the session is removed, and when the runtime shuts down.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::backend::{BackendSession, BackendSpec, BackendUsage};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::{Clock, Sleep};

use windlass_core::lock::lock;

/// A slot for one process, used by one run at a time.
#[derive(Default)]
pub(crate) struct ProcessSlot {
    state: Mutex<State>,
    released: Notify,
}

#[derive(Default)]
struct State {
    process: Option<AgentProcess>,
    /// Whether a run uses the process, or starts one.
    is_leased: bool,
    is_closed: bool,
    /// Counts the runs.
    uses: u64,
}

/// A process that waits for its next turn.
pub(super) struct AgentProcess {
    pub(super) backend: String,
    /// The agent's session, once its ID is known.
    pub(super) session_id: Option<String>,
    pub(super) started: StartSettings,
    pub(super) session: Arc<dyn BackendSession>,
    /// Usage of a cancelled run, reported after the end of the run was recorded. The next run books it.
    pub(super) uncharged: Option<BackendUsage>,
    /// Usage that the newest run has reported so far.
    pub(super) reported: Option<BackendUsage>,
}

/// The settings that a process was started with and another turn may require to be different.
#[derive(PartialEq)]
pub(super) struct StartSettings {
    agent: String,
    owner: Option<String>,
    approve_all: bool,
    command: Option<PathBuf>,
    arguments: Vec<String>,
    cwd: PathBuf,
    environment: Option<TurnEnvironment>,
    variables: std::collections::BTreeMap<String, String>,
    model: Option<String>,
    limits: [Option<Duration>; 2],
}

impl StartSettings {
    pub(super) fn new(spec: &BackendSpec) -> Self {
        Self {
            agent: spec.agent.clone(),
            owner: spec.owner.clone(),
            approve_all: spec.approve_all,
            command: spec.command.clone(),
            arguments: spec.arguments.clone(),
            cwd: spec.cwd.clone(),
            environment: spec.environment.clone(),
            variables: spec.variables.clone(),
            model: spec.model.clone(),
            limits: [spec.inactivity_timeout, spec.turn_limit],
        }
    }
}

/// The exclusive use of a slot by one run; dropping it releases the slot.
pub(super) struct ProcessLease {
    slot: Arc<ProcessSlot>,
}

impl ProcessSlot {
    /// Leases the slot once the previous run has released it; also returns the process in it.
    pub(super) async fn lease(self: &Arc<Self>) -> (ProcessLease, Option<AgentProcess>) {
        loop {
            let released = self.released.notified();
            {
                let mut state = lock(&self.state);
                if !state.is_leased {
                    state.is_leased = true;
                    state.uses += 1;
                    let slot = Arc::clone(self);
                    return (ProcessLease { slot }, state.process.take());
                }
            }
            released.await;
        }
    }

    /// Returns whether the slot accepts no process any more.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }

    /// Accepts no process from now on. A running run ends its own.
    pub(crate) fn begin_close(&self) {
        lock(&self.state).is_closed = true;
    }

    /// Ends the process, and returns when it is gone.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.begin_close();
        let is_empty = {
            let state = lock(&self.state);
            !state.is_leased && state.process.is_none()
        };
        if is_empty {
            return;
        }
        let (_lease, process) = self.lease().await;
        if let Some(process) = process {
            process.session.close().await;
        }
    }

    /// Ends the process if no run has used it since.
    async fn end_idle(self: Arc<Self>, uses: u64) {
        let process = {
            let mut state = lock(&self.state);
            let is_unused = !state.is_leased && state.uses == uses;
            state.process.take_if(|_| is_unused)
        };
        if let Some(process) = process {
            process.session.close().await;
        }
    }
}

impl ProcessLease {
    /// Stores the process for the next turn, at most for the idle time.
    pub(super) async fn store(
        self,
        process: AgentProcess,
        clock: &dyn Clock,
        idle_time: Option<Duration>,
    ) {
        if self.slot.is_closed() {
            process.session.close().await;
            return;
        }
        let uses = {
            let mut state = lock(&self.slot.state);
            state.process = Some(process);
            state.uses
        };
        if let Some(span) = idle_time {
            tokio::spawn(watch(Arc::downgrade(&self.slot), clock.sleep(span), uses));
        }
    }
}

impl Drop for ProcessLease {
    fn drop(&mut self) {
        lock(&self.slot.state).is_leased = false;
        self.slot.released.notify_waiters();
    }
}

async fn watch(slot: Weak<ProcessSlot>, over: Sleep, uses: u64) {
    over.await;
    if let Some(slot) = slot.upgrade() {
        slot.end_idle(uses).await;
    }
}
