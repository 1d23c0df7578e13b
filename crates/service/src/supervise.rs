//! Background loops. One that panics is logged, counted and restarted after a while; `/ready` names those that do not work.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};
use crate::service::Service;

/// How long the first restart waits; each later one waits twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a restarted loop must run before it counts as working.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Why a loop ended although the server runs. It is not restarted.
pub(crate) struct LoopFailed(pub(crate) String);

/// The status of the background loops.
#[derive(Default)]
pub(crate) struct Loops(Mutex<BTreeMap<&'static str, Status>>);

#[derive(Default)]
struct Status {
    panics: u64,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Working,
    /// It panicked and is restarted soon.
    Down,
    /// It panicked and runs again since.
    Restarted(Instant),
    /// It ended for good.
    Failed(String),
}

impl Loops {
    fn table(&self) -> MutexGuard<'_, BTreeMap<&'static str, Status>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, name: &'static str, state: State) {
        let mut table = self.table();
        let status = table.entry(name).or_default();
        status.panics += u64::from(matches!(state, State::Down));
        status.state = state;
    }

    /// Returns how often each loop has panicked.
    pub(crate) fn panics(&self) -> Vec<(&'static str, u64)> {
        let table = self.table();
        let panics = table.iter().map(|(name, status)| (*name, status.panics));
        panics.collect()
    }

    /// Refuses while a loop is down, or was restarted a moment ago.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, status) in self.table().iter() {
            let why = match &status.state {
                State::Working => continue,
                State::Restarted(at) if at.elapsed() >= STABLE_AFTER => continue,
                State::Down => "panicked and is about to be restarted".to_owned(),
                State::Restarted(_) => "panicked and was restarted a moment ago".to_owned(),
                State::Failed(why) => format!("has ended: {why}"),
            };
            let text = format!("the background loop `{name}` {why}; the log has more");
            return Err(ApiError::new(ErrorCode::NotReady, text));
        }
        Ok(())
    }
}

/// Runs a loop until it ends, or the server stops; a panic restarts it.
pub(crate) fn supervise<F, L>(app: &Service, name: &'static str, start: F) -> JoinHandle<()>
where
    F: Fn(Service) -> L + Send + 'static,
    L: Future<Output = std::result::Result<(), LoopFailed>> + Send + 'static,
{
    let app = Service::clone(app);
    app.loops.set(name, State::Working);
    tokio::spawn(async move {
        let mut wait = FIRST_WAIT;
        loop {
            let started = Instant::now();
            let error = match tokio::spawn(start(Service::clone(&app))).await {
                Ok(Ok(())) => return,
                Ok(Err(LoopFailed(why))) => {
                    tracing::error!(name, why, "a background loop has ended");
                    return app.loops.set(name, State::Failed(why));
                }
                Err(error) => error,
            };
            if started.elapsed() >= STABLE_AFTER {
                wait = FIRST_WAIT;
            }
            app.loops.set(name, State::Down);
            tracing::error!(name, %error, restart_in = ?wait, "a background loop panicked");
            tokio::select! {
                () = app.stopping.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            app.loops.set(name, State::Restarted(Instant::now()));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    })
}
