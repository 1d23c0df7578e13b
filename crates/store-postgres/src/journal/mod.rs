//! The journal in a database.

mod append;
mod claim;
mod feed;
mod fork;
mod heads;
mod queue;
mod read;
mod records;
mod remove;
mod streams;
mod verify;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::{
    Batch, ChainCheck, Claim, FeedPage, Journal, JournalError, Page, StreamKey, StreamStatus,
};

use crate::notify::key_hash;
use crate::store::SharedState;

pub(crate) use heads::Heads;
pub(crate) use queue::AppendQueue;

/// A journal in a PostgreSQL database; clones share it.
#[derive(Debug, Clone)]
pub struct PostgresJournal {
    pub(crate) inner: Arc<SharedState>,
}

#[async_trait]
impl Journal for PostgresJournal {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        Ok(claim::claim(&self.inner, stream).await?)
    }

    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        Ok(append::append(&self.inner, claim, batch).await?)
    }

    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        self.read_within(stream, after, limit, usize::MAX).await
    }

    async fn read_within(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Page, JournalError> {
        let bounds = (limit, max_bytes);
        Ok(read::read_page(&self.inner, stream, after, bounds).await?)
    }

    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        Ok(feed::read_feed(&self.inner, cursor, limit).await?)
    }

    fn watch_all(&self) -> watch::Receiver<u64> {
        self.inner.notifier.watch_all()
    }

    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        let notifier = &self.inner.notifier;
        let mut receiver = notifier.watch(stream);
        let head = streams::head(&self.inner.database, stream).await?;
        notifier.show(&key_hash(stream), head);
        receiver.mark_unchanged();
        Ok(receiver)
    }

    fn is_on_disk(&self) -> bool {
        true
    }

    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        Ok(streams::open(&self.inner.database, after, limit).await?)
    }

    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        Ok(remove::remove(&self.inner, stream).await?)
    }

    async fn status(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        Ok(read::status(&self.inner, stream).await?)
    }

    async fn verify(&self, stream: &StreamKey) -> Result<Option<ChainCheck>, JournalError> {
        Ok(Some(verify::verify(&self.inner, stream).await?))
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        Ok(fork::fork(&self.inner, parent, at_seq, child, &forked).await?)
    }
}
