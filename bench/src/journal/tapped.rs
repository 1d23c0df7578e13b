//! A journal whose appends somebody else sees too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::{
    Batch, Claim, FeedPage, Journal, JournalError, MemoryJournal, Page, StreamKey, StreamStatus,
};

use super::bare::Bare;
use super::workload::bytes_of;

/// Records that became durable together.
pub type Events = Vec<Arc<Event>>;

type Tap = dyn Fn(&Events) -> Result<(), JournalError> + Send + Sync;

/// A journal that shows a tap each group before it takes it.
pub struct Tapped {
    inner: Box<dyn Journal>,
    tap: Box<Tap>,
}

/// The groups that a journal took.
#[derive(Clone, Default)]
pub struct Recording(Arc<Mutex<Vec<Events>>>);

impl Recording {
    /// Returns the groups since the last call.
    pub fn take(&self) -> Vec<Events> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Tapped {
    /// Remembers the groups.
    pub fn recording(inner: impl Journal + 'static) -> (Self, Recording) {
        let recording = Recording::default();
        let groups = recording.clone();
        let tapped = Self {
            inner: Box::new(inner),
            tap: Box::new(move |events| {
                lock(&groups.0).push(events.clone());
                Ok(())
            }),
        };
        (tapped, recording)
    }

    /// Keeps everything in memory, and writes each group to bare SQLite at the moment and in the place where a journal
    /// on disk would.
    pub fn on_bare(bare: Bare) -> Self {
        let bare = Mutex::new(bare);
        let write = move |events: &Events| {
            let group = bytes_of(events)?;
            lock(&bare).commit([&group])?;
            Ok::<_, Box<dyn std::error::Error>>(())
        };
        Self {
            inner: Box::new(MemoryJournal::new()),
            tap: Box::new(move |events| {
                write(events).map_err(|error| JournalError::Unavailable(error.to_string()))
            }),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Journal for Tapped {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.inner.claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        (self.tap)(&batch.records)?;
        self.inner.append(claim, batch).await
    }
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.inner.read(stream, after, limit).await
    }
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.inner.read_after(cursor, limit).await
    }
    fn watch_all(&self) -> watch::Receiver<u64> {
        self.inner.watch_all()
    }
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.inner.watch(stream).await
    }
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.inner.open(after, limit).await
    }
    async fn standing(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        self.inner.standing(stream).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        self.inner.fork(parent, at_seq, child, forked).await
    }
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.inner.remove(stream).await
    }
}
