//! A journal whose appends are observed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use windlass_core::events::Event;
use windlass_store::conformance::{HookedJournal, JournalCall, JournalHooks};
use windlass_store::{Journal, JournalError, MemoryJournal};

use super::bare::Bare;
use super::workload::bytes_of;

/// Records that became durable together.
pub type RecordGroup = Vec<Arc<Event>>;

type Tap = dyn Fn(&[Arc<Event>]) -> Result<(), JournalError> + Send + Sync;

/// Passes each group of records to a function before the journal appends it.
pub struct OnAppend(Box<Tap>);

/// A journal whose appends are observed.
pub type Tapped = HookedJournal<OnAppend>;

/// The appended groups of a journal.
#[derive(Clone, Default)]
pub struct Recording(Arc<Mutex<Vec<RecordGroup>>>);

impl Recording {
    /// Returns the groups since the last call.
    pub fn take(&self) -> Vec<RecordGroup> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Wraps a journal and records its appended groups.
pub fn recording(inner: impl Journal + 'static) -> (Tapped, Recording) {
    let recording = Recording::default();
    let groups = recording.clone();
    let tap = OnAppend(Box::new(move |events| {
        lock(&groups.0).push(events.to_vec());
        Ok(())
    }));
    (Tapped::with_hooks(Arc::new(inner), tap), recording)
}

/// Stores everything in memory, and writes each group to bare SQLite where a journal on disk would.
pub fn on_bare(bare: Bare) -> Tapped {
    let bare = Mutex::new(bare);
    let write = move |events: &[Arc<Event>]| {
        let group = bytes_of(events)?;
        lock(&bare).commit([&group])?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let tap = OnAppend(Box::new(move |events| {
        write(events).map_err(|error| JournalError::Unavailable(error.to_string()))
    }));
    Tapped::with_hooks(Arc::new(MemoryJournal::new()), tap)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl JournalHooks for OnAppend {
    async fn before(&self, call: JournalCall<'_>) -> Result<(), JournalError> {
        match call {
            JournalCall::Append(events) => (self.0)(events),
            _ => Ok(()),
        }
    }
}
