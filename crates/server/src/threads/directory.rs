//! All threads by id. A digest is brought up to date when it is looked at, which costs what is new.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::task::JoinSet;
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_runtime::InProcessRuntime;

use super::entry::Entry;
use super::keeping::Behind;
use crate::error::ApiError;
use crate::ids;
use crate::store::WireStore;

/// How many threads are read at once.
const READERS: usize = 4;
/// How many approvals are known by their ids.
const MAX_ASKED: usize = 10_000;

/// All threads.
pub(crate) struct Directory {
    store: Arc<dyn WireStore>,
    entries: RwLock<HashMap<SessionId, Arc<Entry>>>,
    /// Which thread has asked for an approval that somebody was shown.
    asked: Mutex<HashMap<ExecId, SessionId>>,
    pub(crate) behind: Arc<Behind>,
    /// Whether all stored digests have been looked at.
    is_read: tokio::sync::Mutex<bool>,
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn WireStore>) -> Self {
        Self {
            store,
            entries: RwLock::default(),
            asked: Mutex::default(),
            behind: Arc::default(),
            is_read: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn store(&self) -> &dyn WireStore {
        &*self.store
    }

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

    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Entry>> {
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
        self.bring_up(runtime, &entry).await?;
        entry.thread()?;
        Ok(entry)
    }

    /// Finds a thread by the id of the wire, as far as it was looked at. What this process has set is in it, and mostly what
    /// its turns did.
    pub(crate) async fn find_known(
        &self,
        runtime: &InProcessRuntime,
        id: &str,
    ) -> Result<Arc<Entry>, ApiError> {
        let known = ids::parse_thread(id).and_then(|id| self.get(id));
        match known.filter(|entry| entry.digest().is_thread()) {
            Some(entry) => Ok(entry),
            None => self.find(runtime, id).await,
        }
    }

    /// Takes in what is new in a thread; one that nobody has looked at begins with what is stored of it.
    pub(crate) async fn bring_up(
        &self,
        runtime: &InProcessRuntime,
        entry: &Entry,
    ) -> Result<(), ApiError> {
        if entry.digest().seq == 0
            && let Some(stored) = self.store.digest(&entry.id.to_string()).await?
        {
            entry.begin_with(&stored);
        }
        entry.refresh(runtime).await
    }

    /// Returns all threads, up to date. One whose records cannot be read is shown as far as they could be.
    pub(crate) async fn all(&self, runtime: &InProcessRuntime) -> Vec<Arc<Entry>> {
        self.read_stored().await;
        let moved = |entry: &Entry, head| entry.digest().seq != head;
        let mut entries = self
            .read_moved(runtime, moved, Entry::refresh_or_warn)
            .await;
        entries.retain(|entry| entry.digest().is_thread());
        entries
    }

    /// Returns all threads with what their turns used.
    pub(crate) async fn all_used(&self, runtime: &InProcessRuntime) -> Vec<Arc<Entry>> {
        let moved = |entry: &Entry, head| entry.used().seq != head;
        self.read_moved(runtime, moved, Entry::read_used_or_warn)
            .await
    }

    /// Lets threads begin with what is stored of them, all in one look.
    async fn read_stored(&self) {
        let mut is_read = self.is_read.lock().await;
        if *is_read {
            return;
        }
        match self.store.digests().await {
            Ok(stored) => {
                for (name, digest) in stored {
                    let entry = name.parse().ok().and_then(|id| self.get(id));
                    if let Some(entry) = entry {
                        entry.begin_with(&digest);
                    }
                }
                *is_read = true;
            }
            Err(error) => {
                tracing::warn!(%error, "what is stored of threads cannot be read; they are read whole");
            }
        }
    }

    /// Reads the threads that have moved, some at once.
    async fn read_moved<F>(
        &self,
        runtime: &InProcessRuntime,
        moved: impl Fn(&Entry, u64) -> bool,
        read: fn(Arc<Entry>, InProcessRuntime) -> F,
    ) -> Vec<Arc<Entry>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let entries: Vec<Arc<Entry>> = {
            let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
            entries.values().cloned().collect()
        };
        // What has not moved since it was looked at last is not read again.
        let latest = runtime.latest_sequences().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "all threads are read, because it is not known which have changed");
            HashMap::new()
        });
        let is_new = |entry: &&Arc<Entry>| {
            let head = latest.get(&entry.id);
            head.is_none_or(|head| moved(entry, *head))
        };
        let mut reading = JoinSet::new();
        for entry in entries.iter().filter(is_new) {
            self.behind.note(entry.id);
            if reading.len() >= READERS {
                reading.join_next().await;
            }
            reading.spawn(read(Arc::clone(entry), runtime.clone()));
        }
        while reading.join_next().await.is_some() {}
        entries
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
