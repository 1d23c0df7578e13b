//! Storing digests. They follow the threads at a short distance, many in one commit; what they lack is read from the
//! journal, so nothing depends on the last of them being stored.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::typed_id::SessionId;
use windlass_runtime::InProcessRuntime;

use super::{Directory, Entry};
use crate::error::ApiError;
use crate::store::StoredDigest;

/// How far digests follow behind.
pub(crate) const DISTANCE: Duration = Duration::from_millis(250);
/// How many are stored in one commit.
const BATCH: usize = 256;

/// The threads of which less is stored than has happened.
#[derive(Default)]
pub(crate) struct Behind {
    threads: Mutex<HashSet<SessionId>>,
    bell: Notify,
}

impl Behind {
    fn threads(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, id: SessionId) {
        if self.threads().insert(id) {
            self.bell.notify_one();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.threads().is_empty()
    }

    /// Waits until there is one.
    pub(crate) async fn wait(&self) {
        self.bell.notified().await;
    }
}

impl Directory {
    /// Stores what is new of threads that have changed. What could not be stored is tried again with the next change.
    pub(crate) async fn keep(&self, runtime: &InProcessRuntime) {
        let behind: Vec<SessionId> = self.behind.threads().drain().collect();
        for part in behind.chunks(BATCH) {
            let (mut batch, mut kept) = (Vec::with_capacity(part.len()), Vec::new());
            for entry in part.iter().filter_map(|id| self.get(*id)) {
                match self.to_store(runtime, &entry).await {
                    Ok((digest, record_seq)) => {
                        batch.push((entry.id.to_string(), digest));
                        kept.push((entry, record_seq));
                    }
                    Err(error) => tracing::debug!(%error, "a thread cannot be read to be stored"),
                }
            }
            if batch.is_empty() {
                continue;
            }
            match self.store().keep_digests(batch).await {
                Ok(()) => kept.iter().for_each(|(entry, record_seq)| {
                    entry.written.store(*record_seq, Ordering::Relaxed);
                }),
                Err(error) => {
                    tracing::debug!(%error, "what lists show of threads cannot be stored now");
                    self.behind.threads().extend(part);
                }
            }
        }
    }

    /// Returns what is to be stored of a thread, and which event brought its record.
    async fn to_store(
        &self,
        runtime: &InProcessRuntime,
        entry: &Arc<Entry>,
    ) -> Result<(StoredDigest, u64), ApiError> {
        self.bring_up(runtime, entry).await?;
        let digest = entry.digest();
        let stored = digest.stored(entry.written.load(Ordering::Relaxed));
        Ok((stored.map_err(ApiError::internal)?, digest.record_seq))
    }
}
