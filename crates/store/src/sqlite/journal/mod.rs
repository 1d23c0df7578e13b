//! The journal in a database.

pub(super) mod ancestry;
mod append;
mod claim;
mod feed;
pub(super) mod fork;
pub(super) mod heads;
mod page;
pub(super) mod record;
mod remove;
pub(super) mod shared_records;
pub(super) mod spans;
mod streams;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use windlass_core::events::Event;

use super::inner::Inner;
use super::queries::open_streams;
use super::retention::deferred_delete;
use crate::durable::record::{Encoded, encode};
use crate::host_records::RowWrite;
use crate::journal::{
    Batch, ChainCheck, Claim, FeedPage, Journal, JournalError, Page, StreamKey, StreamStatus,
};
use crate::sqlite::verify::check_chain;
use fork::{Fork, status};

pub(super) use append::{Append, Insert};
pub(super) use claim::claim;
use page::read_page;
pub(super) use page::{ChainWalk, PageBounds};
pub(super) use remove::{remove, remove_whole};
pub use streams::StreamInfo;
pub(super) use streams::{find, list, named, names, number};

/// A journal in a SQLite database; clones share it.
#[derive(Debug, Clone)]
pub struct SqliteJournal {
    pub(super) inner: Arc<Inner>,
}

impl SqliteJournal {
    /// Lists the streams of sessions by name, with where they end and whether a turn is open.
    pub async fn streams(&self) -> Result<Vec<StreamInfo>, JournalError> {
        self.inner.read(list).await
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        let key = stream.clone();
        self.inner.write(move |work| claim(work, &key)).await
    }

    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        let writer = self.inner.writer()?;
        let windows = &self.inner.windows;
        let next = batch.first_seq + batch.records.len() as u64;
        let from = (claim.epoch, batch.first_seq);
        let mut window = windows.write().take(claim.stream, from);
        let records = encode(&batch.records, &mut window)?;
        let append = Append {
            events: batch.records,
            puts: batch.puts,
            settlements: batch.settlements,
            ..Append::new((claim.stream, claim.epoch), batch.first_seq, records)
        };
        let size_of_put = |put: &RowWrite| put.value.as_ref().map_or(0, Bytes::len);
        let puts: usize = append.puts.iter().map(size_of_put).sum();
        let bytes = size(&append.records) + puts;
        let written = writer.write_checked(bytes, move |work| append.run(work));
        drop(written.await?);
        // Only after the commit: later records must not refer to an unwritten one.
        let from = (claim.epoch, next);
        windows.write().put(claim.stream, window, from);
        Ok(())
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
        // What it has is small.
        if let Some(page) = self.inner.notifier.page(stream, after, limit) {
            return Ok(page);
        }
        let (key, chain) = (stream.clone(), self.inner.chain.clone());
        let bounds = PageBounds {
            records: limit,
            bytes: max_bytes,
        };
        let page = move |reader: &_| read_page(reader, &chain, &key, after, bounds);
        self.inner.read(page).await
    }

    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        let (inner, cursor) = (Arc::clone(&self.inner), cursor.map(str::to_owned));
        let page = move |reader: &_| {
            let by = (&inner.chain, &inner.tail.cursors);
            feed::read_feed(reader, by, cursor.as_deref(), limit)
        };
        self.inner.read(page).await
    }

    fn watch_all(&self) -> watch::Receiver<u64> {
        self.inner.notifier.watch_all()
    }

    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.inner.watch(stream).await
    }

    fn is_on_disk(&self) -> bool {
        true
    }

    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        let after = after.map_or_else(String::new, StreamKey::to_string);
        let listed = move |reader: &_| open_streams(reader, &after, limit);
        self.inner.read(listed).await
    }

    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        let key = stream.clone();
        let writer = self.inner.writer()?;
        let was_there = writer.write(move |work| remove(work, &key)).await?;
        while writer.write(deferred_delete::step).await? {}
        Ok(was_there)
    }

    async fn status(&self, stream: &StreamKey) -> Result<StreamStatus, JournalError> {
        let key = stream.clone();
        self.inner.read(move |reader| status(reader, &key)).await
    }

    async fn verify(&self, stream: &StreamKey) -> Result<Option<ChainCheck>, JournalError> {
        let (key, chain) = (stream.clone(), self.inner.chain.clone());
        let check = move |reader: &_| check_chain(reader, &chain, &key);
        self.inner.read(check).await.map(Some)
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        let fork = Fork {
            parent: parent.clone(),
            at_seq,
            child: child.clone(),
            forked,
        };
        self.inner.write(move |work| fork.run(work)).await
    }
}

/// Returns how many bytes records have together.
pub(super) fn size(records: &[Encoded]) -> usize {
    records.iter().map(|record| record.size).sum()
}
