//! The check of all pages, on a separate thread after the open. So a store is ready soon, regardless of its size.

use std::io;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::InterruptHandle;
use tokio::sync::watch;
use windlass_macros::OpaqueDebug;

use super::connect::Location;
use super::inspect::damage;
use crate::sqlite::error::SqliteError;
use windlass_core::lock::lock;

/// The delay before the check, so that it does not compete with the startup.
const CHECK_AFTER: Duration = Duration::from_secs(1);
/// The interval at which the end of a running check is requested.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// The input of the check.
pub(crate) struct PageCheckJob {
    pub(crate) location: Location,
    /// Whether to check at all.
    pub(crate) is_checked: bool,
    /// Set to the reason when nothing may be written any more.
    pub(crate) broken: Arc<OnceLock<String>>,
}

/// The findings; `None` until the check ends. The channel closes if no check will end.
pub(crate) type PageFindings = watch::Receiver<Option<Vec<String>>>;

/// The thread that runs the check.
#[derive(Debug)]
pub(crate) struct PageCheck {
    thread: Option<JoinHandle<()>>,
    stop_signal: Arc<StopSignal>,
    check: PageFindings,
}

/// Signals the thread to end.
#[derive(OpaqueDebug, Default)]
struct StopSignal {
    is_stopped: Mutex<bool>,
    wake: Condvar,
    /// Interrupts a running check.
    interrupt: OnceLock<InterruptHandle>,
}

impl StopSignal {
    /// Waits for a duration; returns whether the signal arrived.
    fn wait(&self, time: Duration) -> bool {
        let waited = self
            .wake
            .wait_timeout_while(lock(&self.is_stopped), time, |is_stopped| !*is_stopped);
        let (is_stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_stopped
    }
}

impl PageCheck {
    pub(crate) fn begin(job: PageCheckJob) -> io::Result<Self> {
        let stop_signal = Arc::<StopSignal>::default();
        let (found, check) = watch::channel(None);
        let thread = if !job.is_checked {
            None
        } else {
            let stop_signal = Arc::clone(&stop_signal);
            let name = "windlass-sqlite-check".to_owned();
            let thread = std::thread::Builder::new().name(name);
            Some(thread.spawn(move || job.run(&stop_signal, &found))?)
        };
        Ok(Self {
            thread,
            stop_signal,
            check,
        })
    }

    /// Returns a receiver of the findings.
    pub(crate) fn check(&self) -> PageFindings {
        self.check.clone()
    }

    /// Ends the thread and interrupts a running check.
    pub(crate) fn end(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        *lock(&self.stop_signal.is_stopped) = true;
        self.stop_signal.wake.notify_all();
        while !thread.is_finished() {
            if let Some(interrupt) = self.stop_signal.interrupt.get() {
                interrupt.interrupt();
            }
            std::thread::sleep(ASK_EVERY);
        }
        let _ = thread.join();
    }
}

impl Drop for PageCheck {
    fn drop(&mut self) {
        self.end();
    }
}

impl PageCheckJob {
    fn run(self, stop_signal: &StopSignal, found: &watch::Sender<Option<Vec<String>>>) {
        if stop_signal.wait(CHECK_AFTER) {
            return;
        }
        let db = match self.location.connect_to_read() {
            Ok(db) => db,
            Err(error) => {
                let error = SqliteError::from(error);
                tracing::warn!(%error, "the pages of the database cannot be looked at now");
                return;
            }
        };
        let _ = stop_signal.interrupt.set(db.get_interrupt_handle());
        let findings = damage(&db);
        if *lock(&stop_signal.is_stopped) {
            return;
        }
        if !findings.is_empty() {
            let why = format!(
                "{} is damaged ({}), so nothing is written any more; stop the program, open the store for reading only \
                 and export what can be saved (`windlass store export`), or put a backup in its place (`windlass store restore`)",
                self.location.database().display(),
                findings.join("; ")
            );
            let _ = self.broken.set(why);
        }
        found.send_replace(Some(findings));
    }
}
