//! The suites that every store must pass.

use std::sync::Arc;

use windlass_store::Journal;
use windlass_store::conformance::{self, HostRecordStores, LedgerStores};

use super::server::shared;
use super::support::store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_conforms() {
    let Some(server) = shared("journal_conforms") else {
        return;
    };
    conformance::journal(async || Arc::new(store(server).await.journal()) as Arc<dyn Journal>)
        .await
        .unwrap();
}

#[tokio::test]
async fn host_records_conform() {
    let Some(server) = shared("host_records_conform") else {
        return;
    };
    conformance::host_records(async || {
        let store = store(server).await;
        Arc::new(HostRecordStores {
            records: Arc::new(store.host_records()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn ledger_conforms() {
    let Some(server) = shared("ledger_conforms") else {
        return;
    };
    conformance::ledger(async || {
        let store = store(server).await;
        Arc::new(LedgerStores {
            ledger: Arc::new(store.ledger()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}
