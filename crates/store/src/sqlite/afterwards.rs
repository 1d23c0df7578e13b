//! What is done once a store is open, on a thread of its own: folding the rows of threads that an earlier process has not
//! written, and looking at all pages. So a store is ready soon, however much it holds.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::watch;

use super::connect::Location;
use super::inspect::damage;
use super::projection::Newest;

/// How long those who opened the store have the machine to themselves before rows are folded that nobody waits for.
const FOLD_AFTER: Duration = Duration::from_millis(250);
/// The same before all pages are looked at.
const CHECK_AFTER: Duration = Duration::from_secs(1);
/// When rows are folded again that could not be folded, if nobody asks for them before.
const FOLD_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How often a check that runs is asked to end.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// What there is to do.
pub(crate) struct After {
    pub(crate) location: Location,
    pub(crate) newest: Arc<Newest>,
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
    newest: Arc<Newest>,
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
        let newest = Arc::clone(&after.newest);
        let is_idle = after.newest.is_whole() && !after.is_checked;
        let thread = match is_idle {
            true => None,
            false => {
                let brake = Arc::clone(&brake);
                let name = "windlass-sqlite-after".to_owned();
                let thread = std::thread::Builder::new().name(name);
                Some(thread.spawn(move || after.run(&brake, &found))?)
            }
        };
        Ok(Self {
            thread,
            newest,
            brake,
            check,
        })
    }

    /// Returns where to hear what is found.
    pub(crate) fn check(&self) -> Check {
        self.check.clone()
    }

    /// Ends the thread: rows are folded to their end, a look at all pages is broken off.
    pub(crate) fn end(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        *self.brake.is_pulled() = true;
        self.brake.bell.notify_all();
        self.newest.want();
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
    /// Folds the rows, as often as it takes; returns nothing where the store is closed before that works.
    fn fold(&self, brake: &Brake) -> Option<Connection> {
        loop {
            let connected = self.location.connect_to_read();
            let folded = connected.and_then(|connection| {
                self.newest.fold(&connection)?;
                Ok(connection)
            });
            match folded {
                Ok(connection) => return Some(connection),
                Err(fault) => self.newest.fail(fault),
            }
            if *brake.is_pulled() {
                self.newest.end(None);
                return None;
            }
            self.newest.wait_until_wanted(FOLD_AGAIN_AFTER);
        }
    }

    fn run(self, brake: &Brake, found: &watch::Sender<Option<Vec<String>>>) {
        if !self.newest.is_whole() {
            self.newest.wait_until_wanted(FOLD_AFTER);
        }
        let Some(connection) = self.fold(brake) else {
            return;
        };
        if !self.is_checked || brake.wait(CHECK_AFTER) {
            return;
        }
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
