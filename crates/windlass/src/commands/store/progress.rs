//! Periodic progress lines on stderr for long operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::cli::note;

/// Interval between progress lines.
const EVERY: Duration = Duration::from_secs(5);

/// Reports progress until it is dropped.
pub(super) struct Progress {
    state: Arc<State>,
    /// Dropping it ends the reporting thread.
    _end: Sender<()>,
}

/// Progress, in units of the operation.
#[derive(Default)]
pub(super) struct State {
    doing: RwLock<&'static str>,
    done: AtomicU64,
    /// Zero if the total is unknown.
    total: AtomicU64,
}

impl Progress {
    pub(super) fn of(doing: &'static str) -> Self {
        let state = Arc::new(State {
            doing: RwLock::new(doing),
            ..State::default()
        });
        let (end, ended) = mpsc::channel();
        let (begun, shown) = (Instant::now(), Arc::clone(&state));
        std::thread::spawn(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                note(&shown.line(begun.elapsed()));
            }
        });
        Self { state, _end: end }
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }
}

impl State {
    pub(super) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(super) fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Starts the next phase and resets the counters.
    pub(super) fn go_on(&self, doing: &'static str) {
        *self.doing.write().unwrap_or_else(PoisonError::into_inner) = doing;
        self.set(0, 0);
    }

    fn line(&self, elapsed: Duration) -> String {
        let doing = *self.doing.read().unwrap_or_else(PoisonError::into_inner);
        let (done, total) = (&self.done, &self.total);
        let (done, total) = (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
        let far = match (done, total) {
            (0, 0) => String::new(),
            (done, 0) => format!(" {done}"),
            (done, total) => format!(" {done} of {total}"),
        };
        format!("{doing}{far}, for {} s", elapsed.as_secs())
    }
}
