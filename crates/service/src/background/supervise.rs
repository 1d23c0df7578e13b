//! Background loops. A loop that panics is logged, counted and restarted after a delay; `/ready` lists loops that are not working.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};
use crate::service::Service;

/// Delay of the first restart; it doubles each time, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a restarted loop must run before it counts as working.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Why a loop ended permanently while the server runs.
pub(crate) struct LoopFailed(pub(crate) String);

/// The status of the background loops.
#[derive(Default)]
pub(crate) struct Loops(Mutex<BTreeMap<&'static str, LoopStatus>>);

#[derive(Default)]
struct LoopStatus {
    panics: u64,
    state: LoopState,
}

#[derive(Default)]
enum LoopState {
    #[default]
    Working,
    /// The loop panicked and will be restarted.
    Down,
    /// The loop panicked and was restarted.
    Restarted(Instant),
    /// The loop ended permanently.
    Failed(String),
}

impl Loops {
    fn set(&self, name: &'static str, state: LoopState) {
        let mut table = self.0.lock();
        let status = table.entry(name).or_default();
        status.panics += u64::from(matches!(state, LoopState::Down));
        status.state = state;
    }

    /// Returns how often each loop has panicked.
    pub(crate) fn panics(&self) -> Vec<(&'static str, u64)> {
        let table = self.0.lock();
        let panics = table.iter().map(|(name, status)| (*name, status.panics));
        panics.collect()
    }

    /// Returns an error if a loop is down or was restarted recently.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, status) in self.0.lock().iter() {
            let why = match &status.state {
                LoopState::Working => continue,
                LoopState::Restarted(at) if at.elapsed() >= STABLE_AFTER => continue,
                LoopState::Down => "panicked and is about to be restarted".to_owned(),
                LoopState::Restarted(_) => "panicked and was restarted a moment ago".to_owned(),
                LoopState::Failed(why) => format!("has ended: {why}"),
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
    app.loops.set(name, LoopState::Working);
    tokio::spawn(async move {
        let mut wait = FIRST_WAIT;
        loop {
            let started = Instant::now();
            let error = match tokio::spawn(start(Service::clone(&app))).await {
                Ok(Ok(())) => return,
                Ok(Err(LoopFailed(why))) => {
                    tracing::error!(name, why, "a background loop has ended");
                    return app.loops.set(name, LoopState::Failed(why));
                }
                Err(error) => error,
            };
            if started.elapsed() >= STABLE_AFTER {
                wait = FIRST_WAIT;
            }
            app.loops.set(name, LoopState::Down);
            tracing::error!(name, %error, restart_in = ?wait, "a background loop panicked");
            tokio::select! {
                () = app.stopping.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            app.loops.set(name, LoopState::Restarted(Instant::now()));
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    })
}
