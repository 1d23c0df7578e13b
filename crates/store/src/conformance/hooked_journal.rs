//! A journal for tests, benchmarks and the crash suite that observes calls and injects faults.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;

use crate::journal::{
    Batch, Claim, FeedPage, Journal, JournalError, Page, StreamKey, StreamStatus,
};
use windlass_core::lock::lock;

/// A call before it reaches the journal.
#[derive(Debug, Clone, Copy)]
pub enum JournalCall<'a> {
    /// A claim of a stream.
    Claim,
    /// An append of these records.
    Append(&'a [Arc<Event>]),
    /// A read of one stream or of the feed.
    Read,
    Fork,
}

/// A call that succeeded.
#[derive(Debug, Clone, Copy)]
pub enum JournalSuccess {
    Append,
    /// A read that returned this number of events.
    Read(usize),
    Fork,
}

/// Code around the calls of a [`HookedJournal`]. An error replaces the call's result.
#[async_trait]
pub trait JournalHooks: Send + Sync {
    /// Runs before a call; an error prevents the call.
    async fn before(&self, _call: JournalCall<'_>) -> Result<(), JournalError> {
        Ok(())
    }

    /// Runs after a call that succeeded.
    async fn after(&self, _done: JournalSuccess) -> Result<(), JournalError> {
        Ok(())
    }
}

#[async_trait]
impl<H: JournalHooks + ?Sized> JournalHooks for Arc<H> {
    async fn before(&self, call: JournalCall<'_>) -> Result<(), JournalError> {
        (**self).before(call).await
    }

    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        (**self).after(done).await
    }
}

/// Forwards to another journal and runs hooks around its calls. Dereferences to the hooks.
pub struct HookedJournal<H> {
    inner: Arc<dyn Journal>,
    hooks: H,
}

impl<H: JournalHooks> HookedJournal<H> {
    /// Wraps a journal with these hooks.
    pub fn with_hooks(inner: Arc<dyn Journal>, hooks: H) -> Self {
        Self { inner, hooks }
    }
}

impl<H: JournalHooks + Default> HookedJournal<H> {
    /// Wraps a journal with inactive hooks.
    pub fn new(inner: impl Journal + 'static) -> Arc<Self> {
        Arc::new(Self::with_hooks(Arc::new(inner), H::default()))
    }
}

impl<H> Deref for HookedJournal<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.hooks
    }
}

#[async_trait]
impl<H: JournalHooks> Journal for HookedJournal<H> {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.hooks.before(JournalCall::Claim).await?;
        self.inner.claim(stream).await
    }

    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        let call = JournalCall::Append(&batch.records);
        self.hooks.before(call).await?;
        self.inner.append(claim, batch).await?;
        self.hooks.after(JournalSuccess::Append).await
    }

    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.hooks.before(JournalCall::Read).await?;
        let page = self.inner.read(stream, after, limit).await?;
        let done = JournalSuccess::Read(page.events.len());
        self.hooks.after(done).await.map(|()| page)
    }

    async fn read_within(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Page, JournalError> {
        self.hooks.before(JournalCall::Read).await?;
        let inner = &self.inner;
        let page = inner.read_within(stream, after, limit, max_bytes).await?;
        let done = JournalSuccess::Read(page.events.len());
        self.hooks.after(done).await.map(|()| page)
    }

    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.hooks.before(JournalCall::Read).await?;
        let page = self.inner.read_after(cursor, limit).await?;
        let done = JournalSuccess::Read(page.entries.len());
        self.hooks.after(done).await.map(|()| page)
    }

    fn watch_all(&self) -> watch::Receiver<u64> {
        self.inner.watch_all()
    }

    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.inner.watch(stream).await
    }

    fn is_on_disk(&self) -> bool {
        self.inner.is_on_disk()
    }

    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.inner.open(after, limit).await
    }

    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.inner.remove(stream).await
    }

    async fn status(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        self.inner.status(stream).await
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        self.hooks.before(JournalCall::Fork).await?;
        let head = self.inner.fork(parent, at_seq, child, forked).await?;
        self.hooks.after(JournalSuccess::Fork).await.map(|()| head)
    }
}

/// Hooks that count calls and let them fail or hang on request.
#[derive(Debug, Default)]
pub struct JournalFaults {
    appends: AtomicUsize,
    reads: AtomicUsize,
    is_full: AtomicBool,
    /// How many appends and forks still succeed before one fails.
    writes_left: Mutex<Option<usize>>,
    /// How many reads fail before one succeeds again.
    failing_reads: AtomicUsize,
    hang: Mutex<Option<Hang>>,
    hangs: watch::Sender<bool>,
}

#[derive(Debug)]
struct Hang {
    /// How many appends still return.
    appends_left: usize,
    /// Whether the next append that hangs is stored first.
    is_stored: bool,
    is_reached: bool,
}

impl JournalFaults {
    /// Returns how many appends have succeeded.
    pub fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    /// Returns the number of reads.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Makes claims and appends fail, as on a full disk, until it is reset.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Makes one append or fork fail, after this number of successful ones.
    pub fn fail_after(&self, writes: usize) {
        *lock(&self.writes_left) = Some(writes);
    }

    /// Makes the next reads fail.
    pub fn fail_reads(&self, reads: usize) {
        self.failing_reads.store(reads, Ordering::SeqCst);
    }

    /// Makes appends hang after this number of them, as if the process had died. The first one that hangs is stored if `is_stored` is set.
    pub fn hang_after(&self, appends: usize, is_stored: bool) {
        *lock(&self.hang) = Some(Hang {
            appends_left: appends,
            is_stored,
            is_reached: false,
        });
        self.hangs.send_replace(false);
    }

    /// Lets appends return again.
    pub fn end_hang(&self) {
        *lock(&self.hang) = None;
    }

    /// Waits for the first append that hangs.
    pub async fn hung(&self) {
        let _ = self.hangs.subscribe().wait_for(|hangs| *hangs).await;
    }

    fn check_space(&self) -> Result<(), JournalError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(unavailable("the disk is full"));
        }
        Ok(())
    }

    fn check_write(&self) -> Result<(), JournalError> {
        let mut left = lock(&self.writes_left);
        match left.take() {
            Some(0) => return Err(unavailable("the disk is full")),
            Some(writes) => *left = Some(writes - 1),
            None => {}
        }
        Ok(())
    }

    /// Reports whether an append hangs before it is stored.
    fn hangs_unstored(&self) -> bool {
        let mut hang = lock(&self.hang);
        let Some(hang) = &mut *hang else {
            return false;
        };
        if let Some(left) = hang.appends_left.checked_sub(1) {
            hang.appends_left = left;
            return false;
        }
        hang.is_reached = true;
        !std::mem::take(&mut hang.is_stored)
    }

    fn has_reached_hang(&self) -> bool {
        lock(&self.hang)
            .as_ref()
            .is_some_and(|hang| hang.is_reached)
    }

    async fn hang(&self) {
        self.hangs.send_replace(true);
        std::future::pending().await
    }
}

#[async_trait]
impl JournalHooks for JournalFaults {
    async fn before(&self, call: JournalCall<'_>) -> Result<(), JournalError> {
        match call {
            JournalCall::Claim => self.check_space(),
            JournalCall::Append(_) => {
                self.check_space()?;
                self.check_write()?;
                if self.hangs_unstored() {
                    self.hang().await;
                }
                Ok(())
            }
            JournalCall::Read => {
                self.reads.fetch_add(1, Ordering::SeqCst);
                let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
                let failing = &self.failing_reads;
                match failing.fetch_update(set, get, |left| left.checked_sub(1)) {
                    Ok(_) => Err(unavailable("the disk is away")),
                    Err(_) => Ok(()),
                }
            }
            JournalCall::Fork => self.check_write(),
        }
    }

    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        if matches!(done, JournalSuccess::Append) {
            if self.has_reached_hang() {
                self.hang().await;
            }
            self.appends.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn unavailable(why: &str) -> JournalError {
    JournalError::Unavailable(why.to_owned())
}
