//! What is done once a store is open, on a thread of its own: looking at all pages. So a store is ready soon, however much
//! it holds.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::InterruptHandle;
use tokio::sync::watch;

use super::connect::Location;
use super::error::SqliteError;
use super::inspect::damage;

/// How long those who opened the store have the machine to themselves before all pages are looked at.
const CHECK_AFTER: Duration = Duration::from_secs(1);
/// How often a check that runs is asked to end.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// What there is to do.
pub(crate) struct After {
    pub(crate) location: Location,
    /// Whether all pages are to be looked at.
    pub(crate) is_checked: bool,
    /// Where it is noted that nothing may be written any more.
    pub(crate) broken: Arc<OnceLock<String>>,
}

/// What a look at all pages has found; `None` before its end. The channel closes when there will be no such look.
pub(crate) type Check = watch::Receiver<Option<Vec<String>>>;

/// The thread that does it.
#[derive(Debug)]
pub(crate) struct Afterwards {
    thread: Option<JoinHandle<()>>,
    brake: Arc<Brake>,
    check: Check,
}

/// How the thread is told to end.
#[derive(Default)]
struct Brake {
    is_pulled: Mutex<bool>,
    bell: Condvar,
    /// Ends a look that is under way.
    interrupt: OnceLock<InterruptHandle>,
}

impl std::fmt::Debug for Brake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Brake").finish_non_exhaustive()
    }
}

impl Brake {
    fn is_pulled(&self) -> MutexGuard<'_, bool> {
        self.is_pulled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a time; tells whether the brake was pulled.
    fn wait(&self, time: Duration) -> bool {
        let waited = self
            .bell
            .wait_timeout_while(self.is_pulled(), time, |is_pulled| !*is_pulled);
        let (is_pulled, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *is_pulled
    }
}

impl Afterwards {
    pub(crate) fn begin(after: After) -> io::Result<Self> {
        let brake = Arc::<Brake>::default();
        let (found, check) = watch::channel(None);
        let thread = match after.is_checked {
            false => None,
            true => {
                let brake = Arc::clone(&brake);
                let name = "windlass-sqlite-after".to_owned();
                let thread = std::thread::Builder::new().name(name);
                Some(thread.spawn(move || after.run(&brake, &found))?)
            }
        };
        Ok(Self {
            thread,
            brake,
            check,
        })
    }

    /// Returns where to hear what is found.
    pub(crate) fn check(&self) -> Check {
        self.check.clone()
    }

    /// Ends the thread: a look at all pages is broken off.
    pub(crate) fn end(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        *self.brake.is_pulled() = true;
        self.brake.bell.notify_all();
        while !thread.is_finished() {
            if let Some(interrupt) = self.brake.interrupt.get() {
                interrupt.interrupt();
            }
            std::thread::sleep(ASK_EVERY);
        }
        let _ = thread.join();
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        self.end();
    }
}

impl After {
    fn run(self, brake: &Brake, found: &watch::Sender<Option<Vec<String>>>) {
        if brake.wait(CHECK_AFTER) {
            return;
        }
        let connection = match self.location.connect_to_read() {
            Ok(connection) => connection,
            Err(fault) => {
                let error = SqliteError::from(fault);
                tracing::warn!(%error, "the pages of the database cannot be looked at now");
                return;
            }
        };
        let _ = brake.interrupt.set(connection.get_interrupt_handle());
        let findings = damage(&connection);
        if *brake.is_pulled() {
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
