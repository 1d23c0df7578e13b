//! Where the process of a thread's backend has its place.
//!
//! A process can serve several turns, so it belongs to the thread's place in memory and not to a turn. It is ended when that place is
//! given up, when nobody has used it for long, when the session is removed, and when the runtime shuts down.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::backend::{BackendSession, BackendSpec, BackendUsage};
use windlass_core::turn_environment::TurnEnvironment;

use crate::world::World;

/// The place of a process.
#[derive(Default)]
pub(crate) struct Seat {
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    process: Option<Process>,
    /// Whether a run has the process, or starts one.
    is_taken: bool,
    is_closed: bool,
    /// Counts the runs.
    uses: u64,
}

/// A process that waits for its next turn.
pub(super) struct Process {
    pub(super) backend: String,
    /// The session that it has, once that is known.
    pub(super) session_id: Option<String>,
    pub(super) started: StartedWith,
    pub(super) session: Arc<dyn BackendSession>,
    /// What a run used that was stopped: it was told when the run's end was on record. The next one books it.
    pub(super) unbooked: Option<BackendUsage>,
    /// What the newest run has reported while it ran.
    pub(super) reported: Option<BackendUsage>,
}

/// What a process was started with, as far as another turn may want something else.
#[derive(PartialEq)]
pub(super) struct StartedWith {
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

impl StartedWith {
    pub(super) fn of(spec: &BackendSpec) -> Self {
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

/// The right to the seat for one run; dropping it frees the seat.
pub(super) struct Taken {
    seat: Arc<Seat>,
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the seat when the run before has left it; with it comes the process that has it.
    pub(super) async fn take(self: &Arc<Self>) -> (Taken, Option<Process>) {
        loop {
            let freed = self.freed.notified();
            {
                let mut state = self.state();
                if !state.is_taken {
                    state.is_taken = true;
                    state.uses += 1;
                    let seat = Arc::clone(self);
                    return (Taken { seat }, state.process.take());
                }
            }
            freed.await;
        }
    }

    /// Tells whether no process may stay.
    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Lets no process stay from now on. A run that goes on ends its own.
    pub(crate) fn begin_close(&self) {
        self.state().is_closed = true;
    }

    /// Ends the process, and returns when it is gone.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.begin_close();
        let is_empty = {
            let state = self.state();
            !state.is_taken && state.process.is_none()
        };
        if is_empty {
            return;
        }
        let (_taken, process) = self.take().await;
        if let Some(process) = process {
            process.session.close().await;
        }
    }

    /// Ends the process if nobody has used it since.
    async fn end_idle(self: Arc<Self>, uses: u64) {
        let process = {
            let mut state = self.state();
            match !state.is_taken && state.uses == uses {
                true => state.process.take(),
                false => None,
            }
        };
        if let Some(process) = process {
            process.session.close().await;
        }
    }
}

impl Taken {
    /// Leaves the process for the next turn, but not for ever.
    pub(super) async fn leave(
        self,
        process: Process,
        world: &dyn World,
        idle_time: Option<Duration>,
    ) {
        if self.seat.is_closed() {
            process.session.close().await;
            return;
        }
        let uses = {
            let mut state = self.seat.state();
            state.process = Some(process);
            state.uses
        };
        if let Some(span) = idle_time {
            tokio::spawn(watch(Arc::downgrade(&self.seat), world.sleep(span), uses));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seat.state().is_taken = false;
        self.seat.freed.notify_waiters();
    }
}

async fn watch(seat: Weak<Seat>, over: crate::world::Sleep, uses: u64) {
    over.await;
    if let Some(seat) = seat.upgrade() {
        seat.end_idle(uses).await;
    }
}
