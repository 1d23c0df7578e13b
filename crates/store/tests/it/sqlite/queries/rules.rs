//! The suite, with rows in the tables, in memory, and in between.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_store::conformance::{self, Stored};
use windlass_store::{
    Batch, Claim, FeedPage, Journal, JournalError, Page, SqliteStore, StreamKey,
    conformance::Violations,
};

use super::super::support::Home;

/// Puts stores through the suite; `shown` says which journal and which queries of each.
async fn check(shown: impl AsyncFn(&Home, &SqliteStore) -> Stored) -> Result<(), Violations> {
    let current = Mutex::new(None::<(Home, SqliteStore)>);
    let checked = conformance::queries(async || {
        // One at a time: each has about a dozen files open.
        let previous = current.lock().unwrap().take();
        if let Some((_home, store)) = previous {
            store.close().await;
        }
        let home = Home::new();
        let store = home.open().await;
        let stored = shown(&home, &store).await;
        *current.lock().unwrap() = Some((home, store));
        Arc::new(stored)
    });
    checked.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_rules() {
    let plain = check(async |_, store| Stored {
        journal: Arc::new(store.journal()),
        runs: Arc::new(store.runs()),
        queries: Arc::new(store.queries()),
    });
    plain.await.unwrap();
}

/// A journal whose rows are written after each change.
struct Settled(SqliteStore);

impl Settled {
    async fn settle(&self) -> Result<(), JournalError> {
        let written = self.0.write_rows().await;
        written.map_err(|error| JournalError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl Journal for Settled {
    async fn claim(&self, stream: &StreamKey) -> Result<Claim, JournalError> {
        self.0.journal().claim(stream).await
    }
    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        self.0.journal().append(claim, batch).await?;
        self.settle().await
    }
    async fn read(&self, key: &StreamKey, after: u64, limit: usize) -> Result<Page, JournalError> {
        self.0.journal().read(key, after, limit).await
    }
    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.0.journal().read_after(cursor, limit).await
    }
    fn watch_all(&self) -> watch::Receiver<u64> {
        self.0.journal().watch_all()
    }
    async fn watch(&self, stream: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        self.0.journal().watch(stream).await
    }
    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        self.0.journal().open(after, limit).await
    }
    async fn remove(&self, stream: &StreamKey) -> Result<bool, JournalError> {
        self.0.journal().remove(stream).await
    }
    async fn standing(
        &self,
        key: &StreamKey,
    ) -> Result<windlass_store::StreamStatus, JournalError> {
        self.0.journal().standing(key).await
    }
    async fn fork(
        &self,
        parent: &StreamKey,
        at: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        let head = self.0.journal().fork(parent, at, child, forked).await?;
        self.settle().await?;
        Ok(head)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_written_at_once_keep_the_rules() {
    let settled = check(async |_, store| Stored {
        journal: Arc::new(Settled(store.clone())),
        runs: Arc::new(store.runs()),
        queries: Arc::new(store.queries()),
    });
    settled.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_reads_beside_the_writer_keeps_the_rules() {
    let beside = check(async |home, store| {
        let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
        Stored {
            journal: Arc::new(Settled(store.clone())),
            runs: Arc::new(store.runs()),
            queries: Arc::new(reader.queries()),
        }
    });
    beside.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_keeps_its_rules_with_rows_that_are_written_at_once() {
    let homes = Mutex::new(Vec::new());
    conformance::journal(async || {
        let home = Home::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(Settled(store)) as Arc<dyn Journal>
    })
    .await
    .unwrap();
}
