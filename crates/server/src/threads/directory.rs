//! All threads by id. A digest is brought up to date when it is looked at, which costs what is new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::task::JoinSet;
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_protocol::Thread;
use windlass_runtime::InProcessRuntime;

use super::digest::Digest;
use crate::error::ApiError;
use crate::ids;

/// How many events are read at a time.
const PAGE: usize = 512;
/// How many threads are read at once.
const READERS: usize = 4;

/// One thread.
pub(crate) struct Entry {
    pub(crate) id: SessionId,
    digest: Mutex<Digest>,
    /// Held by whoever changes the thread's record, so that no change is lost.
    pub(crate) changing: tokio::sync::Mutex<()>,
}

impl Entry {
    fn new(id: SessionId) -> Self {
        Self {
            id,
            digest: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns what was seen of the thread so far.
    pub(crate) fn digest(&self) -> MutexGuard<'_, Digest> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Returns the thread as the wire shows it.
    pub(crate) fn thread(&self) -> Result<Thread, ApiError> {
        let thread = self.digest().thread();
        thread.ok_or_else(|| ApiError::thread_not_found(&ids::thread(self.id)))
    }
}

/// Takes in what is new in some threads. What cannot be read of one stays as it was.
async fn refresh_all(runtime: InProcessRuntime, entries: Vec<Arc<Entry>>) {
    for entry in entries {
        if let Err(error) = entry.refresh(&runtime).await {
            tracing::warn!(thread = ids::thread(entry.id), %error, "a thread cannot be read");
        }
    }
}

/// How many approvals are known by their ids.
const MAX_ASKED: usize = 10_000;

/// All threads.
#[derive(Default)]
pub(crate) struct Directory {
    entries: RwLock<HashMap<SessionId, Arc<Entry>>>,
    /// Which thread has asked for an approval that somebody was shown.
    asked: Mutex<HashMap<ExecId, SessionId>>,
}

impl Directory {
    pub(crate) fn add(&self, id: SessionId) -> Arc<Entry> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            entries
                .entry(id)
                .or_insert_with(|| Arc::new(Entry::new(id))),
        )
    }

    pub(crate) fn remove(&self, id: SessionId) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&id);
    }

    pub(crate) fn len(&self) -> usize {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.len()
    }

    fn get(&self, id: SessionId) -> Option<Arc<Entry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&id).cloned()
    }

    /// Finds a thread by the id of the wire, up to date.
    pub(crate) async fn find(
        &self,
        runtime: &InProcessRuntime,
        id: &str,
    ) -> Result<Arc<Entry>, ApiError> {
        let entry = ids::parse_thread(id).and_then(|id| self.get(id));
        let entry = entry.ok_or_else(|| ApiError::thread_not_found(id))?;
        entry.refresh(runtime).await?;
        entry.thread()?;
        Ok(entry)
    }

    /// Returns all threads, up to date. One whose records cannot be read is shown as far as they could be.
    pub(crate) async fn all(&self, runtime: &InProcessRuntime) -> Vec<Arc<Entry>> {
        let entries: Vec<Arc<Entry>> = {
            let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
            entries.values().cloned().collect()
        };
        // What has not moved since it was looked at last is not read again.
        let latest = runtime.latest_sequences().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "all threads are read, because it is not known which have changed");
            HashMap::new()
        });
        let is_new = |entry: &&Arc<Entry>| latest.get(&entry.id) != Some(&entry.digest().seq);
        let moved: Vec<Arc<Entry>> = entries.iter().filter(is_new).cloned().collect();
        let mut reading = JoinSet::new();
        for part in moved.chunks(moved.len().div_ceil(READERS).max(1)) {
            reading.spawn(refresh_all(runtime.clone(), part.to_vec()));
        }
        while reading.join_next().await.is_some() {}
        entries
            .into_iter()
            .filter(|entry| entry.thread().is_ok())
            .collect()
    }

    /// Notes that somebody is shown an approval, and may answer it.
    pub(crate) fn note_approval(&self, id: ExecId, session_id: SessionId) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= MAX_ASKED {
            asked.clear();
        }
        asked.insert(id, session_id);
    }

    /// Finds the thread that has asked for an approval. Who answers was mostly shown it by this daemon; all threads are
    /// looked through only for what an earlier one has shown.
    pub(crate) async fn of_approval(
        &self,
        runtime: &InProcessRuntime,
        id: ExecId,
    ) -> Option<Arc<Entry>> {
        let asked = {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.get(&id).copied()
        };
        if let Some(entry) = asked.and_then(|session_id| self.get(session_id)) {
            return Some(entry);
        }
        let entries = self.all(runtime).await;
        let mut asking = entries
            .into_iter()
            .filter(|entry| entry.digest().approvals.contains(&id));
        asking.next()
    }
}
