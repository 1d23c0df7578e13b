//! Folds of whole threads, kept for those that were looked at last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;
use windlass_core::items::TurnLog;
use windlass_core::typed_id::SessionId;
use windlass_runtime::InProcessRuntime;

use super::digest::Digest;
use crate::error::ApiError;

/// How many folds are kept.
const MAX_KEPT: usize = 128;
/// How many events are read at a time.
const PAGE: usize = 1024;

/// A thread up to a number: its turns and items, and what lists show of it.
#[derive(Default)]
pub(crate) struct Fold {
    pub(crate) log: TurnLog,
    pub(crate) digest: Digest,
    pub(crate) seq: u64,
}

impl Fold {
    /// Takes in what is new, up to a number.
    pub(crate) async fn advance(
        &mut self,
        runtime: &InProcessRuntime,
        id: SessionId,
        until: u64,
    ) -> Result<(), ApiError> {
        while self.seq < until {
            let page = usize::try_from(until - self.seq).map_or(PAGE, |left| left.min(PAGE));
            let events = runtime.events_since(id, self.seq, page).await?;
            for event in &events {
                self.log.apply(event);
                self.digest.apply(event);
                self.seq = event.seq();
            }
            if events.len() < page {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Kept {
    folds: HashMap<SessionId, (u64, Arc<tokio::sync::Mutex<Fold>>)>,
    looked: u64,
}

/// Folds by thread.
#[derive(Default)]
pub(crate) struct Folds {
    kept: Mutex<Kept>,
}

impl Folds {
    /// Returns the fold of a thread as it is recorded now. Nothing is taken in while it is held, so all that is read
    /// from it is one consistent cut.
    pub(crate) async fn now(
        &self,
        runtime: &InProcessRuntime,
        id: SessionId,
    ) -> Result<OwnedMutexGuard<Fold>, ApiError> {
        let mut fold = self.place(id).lock_owned().await;
        fold.advance(runtime, id, u64::MAX).await?;
        Ok(fold)
    }

    fn place(&self, id: SessionId) -> Arc<tokio::sync::Mutex<Fold>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.looked += 1;
        let looked = kept.looked;
        let entry = kept.folds.entry(id).or_default();
        entry.0 = looked;
        let place = Arc::clone(&entry.1);
        if kept.folds.len() > MAX_KEPT {
            let oldest = kept.folds.iter().min_by_key(|(_, (looked, _))| *looked);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                kept.folds.remove(&oldest);
            }
        }
        place
    }
}
