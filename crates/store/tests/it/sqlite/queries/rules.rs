//! The suite, with rows in the tables, in memory, and in between.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_store::conformance::{
    self, HookedJournal, JournalHooks, JournalSuccess, QueryStores, Violations,
};
use windlass_store::{Journal, JournalError, SqliteStore};

use super::super::support::StoreHome;

/// Runs the suite on stores; `shown` returns the journal and the queries of each.
async fn check(
    shown: impl AsyncFn(&StoreHome, &SqliteStore) -> QueryStores,
) -> Result<(), Violations> {
    let current = Mutex::new(None::<(StoreHome, SqliteStore)>);
    let checked = conformance::queries(async || {
        // One at a time: each has about a dozen files open.
        let previous = current.lock().unwrap().take();
        if let Some((_home, store)) = previous {
            store.close().await;
        }
        let home = StoreHome::new();
        let store = home.open().await;
        let stored = shown(&home, &store).await;
        *current.lock().unwrap() = Some((home, store));
        Arc::new(stored)
    });
    checked.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_conforms() {
    let plain = check(async |_, store| QueryStores {
        journal: Arc::new(store.journal()),
        runs: Arc::new(store.runs()),
        queries: Arc::new(store.queries()),
    });
    plain.await.unwrap();
}

/// Writes the rows after each change of the journal.
struct SettledJournal(SqliteStore);

impl SettledJournal {
    fn journal(store: &SqliteStore) -> HookedJournal<Self> {
        HookedJournal::with_hooks(Arc::new(store.journal()), Self(store.clone()))
    }

    async fn settle(&self) -> Result<(), JournalError> {
        let written = self.0.write_rows().await;
        written.map_err(|error| JournalError::Unavailable(error.to_string()))
    }
}

#[async_trait]
impl JournalHooks for SettledJournal {
    async fn after(&self, done: JournalSuccess) -> Result<(), JournalError> {
        match done {
            JournalSuccess::Append | JournalSuccess::Fork => self.settle().await,
            JournalSuccess::Read(_) => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn immediately_written_rows_conform() {
    let settled = check(async |_, store| QueryStores {
        journal: Arc::new(SettledJournal::journal(store)),
        runs: Arc::new(store.runs()),
        queries: Arc::new(store.queries()),
    });
    settled.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_store_conforms_during_writes() {
    let beside = check(async |home, store| {
        let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
        QueryStores {
            journal: Arc::new(SettledJournal::journal(store)),
            runs: Arc::new(store.runs()),
            queries: Arc::new(reader.queries()),
        }
    });
    beside.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_conforms_with_immediately_written_rows() {
    let homes = Mutex::new(Vec::new());
    conformance::journal(async || {
        let home = StoreHome::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(SettledJournal::journal(&store)) as Arc<dyn Journal>
    })
    .await
    .unwrap();
}
