//! The journal in a database.

mod append;
mod claim;
mod page;
mod remove;
mod streams;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::typed_id::TurnId;

use super::fork::{Fork, standing};
use super::inner::Inner;
use super::open_streams;
use super::projection::{find_thread, list_threads, turn_end};
use super::record::{Encoded, encode};
use super::removing;
use super::turn_runs;
use crate::journal::{
    Batch, Claim, Journal, JournalError, Listed, Page, Standing, StreamKey, ThreadCursor,
    ThreadEntry, ThreadFilter, TurnRun, Window,
};
use crate::runs::RunFilter;

pub(super) use append::{Append, Insert};
pub(super) use claim::claim;
pub(super) use page::Walk;
use page::read_page;
pub(super) use remove::{remove, remove_whole};
pub use streams::StreamInfo;
pub(super) use streams::{find, list, named, names};

/// A journal in a SQLite database; clones share it.
#[derive(Debug, Clone)]
pub struct SqliteJournal {
    pub(super) inner: Arc<Inner>,
}

impl SqliteJournal {
    /// Lists the streams of sessions by name, with where they end and whether a turn is open.
    pub async fn streams(&self) -> Result<Vec<StreamInfo>, JournalError> {
        Ok(self.inner.readers.read(list).await?)
    }
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        let key = stream.clone();
        let writer = self.inner.writer()?;
        Ok(writer.write(move |work| claim(work, &key)).await?)
    }

    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        let writer = self.inner.writer()?;
        let records = encode(&batch.records)?;
        let mut loan = match records.is_empty() {
            true => None,
            false => self.inner.folds.lend(claim.stream),
        };
        if let Some(loan) = &mut loan {
            loan.known.apply(records.iter());
        }
        let append = Append {
            stream: claim.stream,
            epoch: claim.epoch,
            first_seq: batch.first_seq,
            records,
            events: batch.records,
            loan,
        };
        let bytes = size(&append.records);
        let written = writer.write_checked(bytes, move |work| append.run(work));
        let written = written.await?;
        drop(written);
        Ok(())
    }

    async fn read(
        &self,
        stream: &StreamKey,
        after: u64,
        limit: usize,
    ) -> Result<Page, JournalError> {
        if let Some(page) = self.inner.doorbells.page(stream, after, limit) {
            return Ok(page);
        }
        let (key, chain) = (stream.clone(), self.inner.chain.clone());
        let readers = &self.inner.readers;
        Ok(readers
            .read(move |reader| read_page(reader, &chain, &key, after, limit))
            .await?)
    }

    async fn read_all(&self) -> Result<Vec<Arc<Event>>, JournalError> {
        let chain = self.inner.chain.clone();
        let readers = &self.inner.readers;
        Ok(readers
            .read(move |reader| page::read_all(reader, &chain))
            .await?)
    }

    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        // First the bell, then the look: what is appended between the two rings.
        let bell = self.inner.doorbells.watch(stream);
        let key = stream.clone();
        let readers = &self.inner.readers;
        let found = readers.read(move |reader| find(reader, &key)).await?;
        if let Some(found) = found {
            self.inner.doorbells.show(stream, found.head);
        }
        Ok(bell)
    }

    fn is_on_disk(&self) -> bool {
        true
    }

    async fn unfinished(&self) -> Result<Vec<StreamKey>, JournalError> {
        Ok(self.inner.readers.read(open_streams::list).await?)
    }

    async fn threads(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<ThreadEntry, ThreadCursor>, JournalError> {
        let (newest, readers) = (self.inner.newest.clone(), &self.inner.readers);
        let listed =
            readers.read(move |reader| list_threads(reader, newest.as_deref(), filter, window));
        Ok(listed.await?)
    }

    async fn thread(&self, stream: &StreamKey) -> Result<Option<ThreadEntry>, JournalError> {
        let (newest, key) = (self.inner.newest.clone(), stream.clone());
        let readers = &self.inner.readers;
        let found = readers.read(move |reader| find_thread(reader, newest.as_deref(), &key));
        Ok(found.await?)
    }

    async fn heads(&self) -> Result<Vec<(StreamKey, u64)>, JournalError> {
        Ok(self.inner.readers.read(streams::heads).await?)
    }

    async fn turn_runs(
        &self,
        filter: RunFilter,
        limit: usize,
    ) -> Result<Vec<TurnRun>, JournalError> {
        let (newest, readers) = (self.inner.newest_turn_runs.clone(), &self.inner.readers);
        let listed =
            readers.read(move |reader| turn_runs::list(reader, newest.as_deref(), &filter, limit));
        Ok(listed.await?)
    }

    async fn turn_run(&self, turn_id: TurnId) -> Result<Option<TurnRun>, JournalError> {
        let (newest, readers) = (self.inner.newest_turn_runs.clone(), &self.inner.readers);
        let found = readers.read(move |reader| turn_runs::find(reader, newest.as_deref(), turn_id));
        Ok(found.await?)
    }

    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        let key = stream.clone();
        let writer = self.inner.writer()?;
        let was_there = writer.write(move |work| remove(work, &key)).await?;
        while writer.write(removing::step).await? {}
        Ok(was_there)
    }

    async fn standing(&self, stream: &StreamKey) -> Result<Standing, JournalError> {
        let (key, readers) = (stream.clone(), &self.inner.readers);
        Ok(readers.read(move |reader| standing(reader, &key)).await?)
    }

    async fn turn_end(
        &self,
        stream: &StreamKey,
        turn: TurnId,
    ) -> Result<Option<u64>, JournalError> {
        let (key, readers) = (stream.clone(), &self.inner.readers);
        let found = readers.read(move |reader| turn_end(reader, &key, turn));
        Ok(found.await?)
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        let writer = self.inner.writer()?;
        let fork = Fork {
            parent: parent.clone(),
            at_seq,
            child: child.clone(),
            forked,
        };
        Ok(writer.write(move |work| fork.run(work)).await?)
    }
}

/// Returns how many bytes records have together.
pub(super) fn size(records: &[Encoded]) -> usize {
    records.iter().map(|record| record.size).sum()
}
