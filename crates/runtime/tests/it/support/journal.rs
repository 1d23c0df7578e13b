//! A journal that counts, and that fails when it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::{
    Batch, Claim, FeedPage, Journal, JournalError, MemoryJournal, Page, StreamKey, StreamStatus,
};

/// A journal in memory that counts, and that fails when it is told to.
#[derive(Debug, Default)]
pub(crate) struct SpyJournal {
    inner: MemoryJournal,
    appends: AtomicUsize,
    reads: AtomicUsize,
    /// How many appends still succeed before one fails; `usize::MAX` is for ever.
    patience: AtomicUsize,
    /// How many reads fail before one succeeds again.
    unreadable: AtomicUsize,
    /// After how many appends nobody hears of one any more, and whether that one is kept.
    stall: Mutex<Option<(usize, bool)>>,
    stalled: watch::Sender<bool>,
}

impl SpyJournal {
    pub(crate) fn new(inner: MemoryJournal) -> Arc<Self> {
        Arc::new(Self {
            inner,
            patience: AtomicUsize::new(usize::MAX),
            ..Self::default()
        })
    }
    /// Lets one append fail, after so many more.
    pub(crate) fn fail_after(&self, appends: usize) {
        self.patience.store(appends, Ordering::SeqCst);
    }
    /// Lets the next reads fail.
    pub(crate) fn fail_reads(&self, reads: usize) {
        self.unreadable.store(reads, Ordering::SeqCst);
    }
    /// Lets nobody hear of an append any more, after so many: as if the process died there. The first of them may be kept.
    pub(crate) fn stall_after(&self, appends: usize, is_kept: bool) {
        *self.stall.lock().unwrap() = Some((appends, is_kept));
        self.stalled.send_replace(false);
    }
    /// Takes appends again.
    pub(crate) fn go_on(&self) {
        *self.stall.lock().unwrap() = None;
    }
    /// Waits for the first append that nobody hears of.
    pub(crate) async fn has_stalled(&self) {
        let _ = self.stalled.subscribe().wait_for(|stalled| *stalled).await;
    }
    /// Counts an append; returns whether it is kept where nobody is to hear of it.
    fn stalls(&self) -> Option<bool> {
        let mut stall = self.stall.lock().unwrap();
        let (left, is_kept) = (*stall)?;
        *stall = Some((left.saturating_sub(1), left > 0 && is_kept));
        (left == 0).then_some(is_kept)
    }
    fn lose_patience(&self) -> Result<(), JournalError> {
        match self.patience.load(Ordering::SeqCst) {
            usize::MAX => {}
            0 => {
                self.patience.store(usize::MAX, Ordering::SeqCst);
                return Err(JournalError::Unavailable("the disk is full".to_owned()));
            }
            left => self.patience.store(left - 1, Ordering::SeqCst),
        }
        Ok(())
    }
    pub(crate) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Journal for SpyJournal {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.inner.claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        self.lose_patience()?;
        if let Some(is_kept) = self.stalls() {
            if is_kept {
                self.inner.append(claim, batch).await?;
            }
            self.stalled.send_replace(true);
            return std::future::pending().await;
        }
        self.inner.append(claim, batch).await?;
        self.appends.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let fails = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.unreadable.fetch_update(set, get, fails).is_ok() {
            return Err(JournalError::Unavailable("the disk is away".to_owned()));
        }
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
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.inner.remove(stream).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        self.lose_patience()?;
        self.inner.fork(parent, at_seq, child, forked).await
    }
}
