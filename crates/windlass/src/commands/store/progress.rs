//! Periodic progress lines on stderr for long operations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::cli::note;

/// Interval between progress lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reports progress until it is dropped.
pub(super) struct ProgressReporter {
    state: Arc<State>,
    /// Dropping it ends the reporting thread.
    _end: Sender<()>,
}

/// Progress, in the unit of the operation.
#[derive(Default)]
pub(super) struct State {
    phase: RwLock<&'static str>,
    done: AtomicU64,
    /// Zero if the total is unknown.
    total: AtomicU64,
}

impl ProgressReporter {
    pub(super) fn start(phase: &'static str) -> Self {
        let state = Arc::new(State {
            phase: RwLock::new(phase),
            ..State::default()
        });
        let (end, ended) = mpsc::channel();
        let (begun, shown) = (Instant::now(), Arc::clone(&state));
        std::thread::spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                note(shown.line(begun.elapsed()));
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
    pub(super) fn start_phase(&self, phase: &'static str) {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
        self.set(0, 0);
    }

    fn line(&self, elapsed: Duration) -> String {
        let phase = *self.phase.read().unwrap_or_else(PoisonError::into_inner);
        let (done, total) = (&self.done, &self.total);
        let (done, total) = (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
        let count = match (done, total) {
            (0, 0) => String::new(),
            (done, 0) => format!(" {done}"),
            (done, total) => format!(" {done} of {total}"),
        };
        format!("{phase}{count}, for {} s", elapsed.as_secs())
    }
}
