//! A journal that counts what is read from it and written to it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_runtime::Journal;
use windlass_store::{Batch, Claim, FeedPage, JournalError, Page, StreamKey, StreamStatus};

/// Counts the events that are read, and the writes; what is asked of the journal itself goes on to the real one.
#[derive(Default)]
pub(crate) struct Tap {
    journal: OnceLock<Arc<dyn Journal>>,
    events: AtomicUsize,
    writes: AtomicUsize,
}

impl Tap {
    /// Stands before a journal.
    pub(crate) fn before(self: &Arc<Self>, journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        assert!(self.journal.set(journal).is_ok(), "it stands before one");
        Arc::clone(self) as Arc<dyn Journal>
    }

    fn journal(&self) -> &dyn Journal {
        &**self.journal.get().unwrap()
    }

    /// Returns how many events were read since the last time.
    pub(crate) fn events_read(&self) -> usize {
        self.events.swap(0, Ordering::SeqCst)
    }

    /// Returns how often something was written since the last time.
    pub(crate) fn writes(&self) -> usize {
        self.writes.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl Journal for Tap {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.journal().claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.journal().append(claim, batch).await
    }
    async fn read_within(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Page, JournalError> {
        let journal = self.journal();
        let page = journal.read_within(stream, after, limit, max_bytes).await?;
        self.events.fetch_add(page.events.len(), Ordering::SeqCst);
        Ok(page)
    }
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        let page = self.journal().read(stream, after, limit).await?;
        self.events.fetch_add(page.events.len(), Ordering::SeqCst);
        Ok(page)
    }
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        let page = self.journal().read_after(cursor, limit).await?;
        self.events.fetch_add(page.entries.len(), Ordering::SeqCst);
        Ok(page)
    }
    fn watch_all(&self) -> watch::Receiver<u64> {
        self.journal().watch_all()
    }
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.journal().watch(stream).await
    }
    fn is_on_disk(&self) -> bool {
        self.journal().is_on_disk()
    }
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.journal().open(after, limit).await
    }
    async fn standing(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        self.journal().standing(stream).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.journal().fork(parent, at_seq, child, forked).await
    }
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.journal().remove(stream).await
    }
}
