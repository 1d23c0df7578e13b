//! One thread, as far as it was looked at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::typed_id::SessionId;
use windlass_protocol::Thread;
use windlass_runtime::InProcessRuntime;

use super::digest::Digest;
use super::used::Used;
use crate::error::ApiError;
use crate::ids;
use crate::store::StoredDigest;

/// How many events are read at a time.
const PAGE: usize = 512;

/// One thread.
pub(crate) struct Entry {
    pub(crate) id: SessionId,
    digest: Mutex<Digest>,
    used: Mutex<Used>,
    /// Which record of the thread is stored.
    pub(super) written: AtomicU64,
    /// Held by whoever changes the thread's record, so that no change is lost.
    pub(crate) changing: tokio::sync::Mutex<()>,
}

impl Entry {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            digest: Mutex::default(),
            used: Mutex::default(),
            written: AtomicU64::new(0),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns what was seen of the thread so far.
    pub(crate) fn digest(&self) -> MutexGuard<'_, Digest> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what its turns used so far.
    pub(crate) fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with what is stored, where nothing was seen yet.
    pub(super) fn begin_with(&self, stored: &StoredDigest) {
        let mut digest = self.digest();
        if digest.seq == 0
            && let Some(stored) = Digest::read(stored)
        {
            self.written.store(stored.record_seq, Ordering::Relaxed);
            *digest = stored;
        }
    }

    /// Takes in what is new.
    pub(crate) async fn refresh(&self, runtime: &InProcessRuntime) -> Result<(), ApiError> {
        loop {
            let seen = self.digest().seq;
            let events = runtime.events_since(self.id, seen, PAGE).await?;
            let mut digest = self.digest();
            events.iter().for_each(|event| digest.apply(event));
            if events.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Takes in what is new; what cannot be read stays as it was.
    pub(super) async fn refresh_or_warn(self: Arc<Self>, runtime: InProcessRuntime) {
        if let Err(error) = self.refresh(&runtime).await {
            self.warn(&error);
        }
    }

    async fn read_used(&self, runtime: &InProcessRuntime) -> Result<(), ApiError> {
        loop {
            let seen = self.used().seq;
            let events = runtime.events_since(self.id, seen, PAGE).await?;
            let mut used = self.used();
            events.iter().for_each(|event| used.apply(event));
            if events.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Takes in what turns used since the last time.
    pub(super) async fn read_used_or_warn(self: Arc<Self>, runtime: InProcessRuntime) {
        if let Err(error) = self.read_used(&runtime).await {
            self.warn(&error);
        }
    }

    fn warn(&self, error: &ApiError) {
        tracing::warn!(thread = ids::thread(self.id), %error, "a thread cannot be read");
    }

    /// Returns the thread as the wire shows it.
    pub(crate) fn thread(&self) -> Result<Thread, ApiError> {
        let thread = self.digest().thread();
        thread.ok_or_else(|| ApiError::thread_not_found(&ids::thread(self.id)))
    }
}
