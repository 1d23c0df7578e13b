//! Counts of journal reads and writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use windlass_runtime::Journal;
use windlass_store::JournalError;
use windlass_store::conformance::{HookedJournal, JournalCall, JournalHooks, JournalSuccess};

/// Counts event reads and writes.
#[derive(Default)]
pub(crate) struct Tap {
    events: AtomicUsize,
    writes: AtomicUsize,
}

impl Tap {
    /// Wraps a journal and counts its calls.
    pub(crate) fn before(self: &Arc<Self>, journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        Arc::new(HookedJournal::with_hooks(journal, Arc::clone(self)))
    }

    /// Returns the number of events read since the last call.
    pub(crate) fn events_read(&self) -> usize {
        self.events.swap(0, Ordering::SeqCst)
    }

    /// Returns the number of writes since the last call.
    pub(crate) fn writes(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl JournalHooks for Tap {
    async fn before(&self, call: JournalCall<'_>) -> Result<(), JournalError> {
        if matches!(call, JournalCall::Append(_) | JournalCall::Fork) {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        if let JournalSuccess::Read(events) = done {
            self.events.fetch_add(events, Ordering::SeqCst);
        }
        Ok(())
    }
}
