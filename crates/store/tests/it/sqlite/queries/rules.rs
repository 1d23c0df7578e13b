//! The suite, with rows in the tables, in memory, and in between.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_store::conformance::{
    self, HookedJournal, JournalHooks, JournalSuccess, Stored, Violations,
};
use windlass_store::{Journal, JournalError, SqliteStore};

use super::super::support::Home;

/// Runs the suite on stores; `shown` returns the journal and the queries of each.
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

/// Writes the rows after each change of the journal.
struct Settled(SqliteStore);

impl Settled {
    fn journal(store: &SqliteStore) -> HookedJournal<Self> {
        HookedJournal::with_hooks(Arc::new(store.journal()), Self(store.clone()))
    }

    async fn settle(&self) -> Result<(), JournalError> {
        let written = self.0.write_rows().await;
        written.map_err(|error| JournalError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl JournalHooks for Settled {
    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        match done {
            JournalSuccess::Append | JournalSuccess::Fork => self.settle().await,
            JournalSuccess::Read(_) => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_written_at_once_keep_the_rules() {
    let settled = check(async |_, store| Stored {
        journal: Arc::new(Settled::journal(store)),
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
            journal: Arc::new(Settled::journal(store)),
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
        Arc::new(Settled::journal(&store)) as Arc<dyn Journal>
    })
    .await
    .unwrap();
}
