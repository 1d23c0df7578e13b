//! Records of the host: the suite, and restarts.

use std::sync::{Arc, Mutex};

use chrono::Utc;
use windlass_store::conformance::{self, HostRecordStores};
use windlass_store::{HostRecord, HostRecords};

use super::support::StoreHome;

#[tokio::test]
async fn sqlite_conforms() {
    let homes = Mutex::new(Vec::new());
    conformance::host_records(async || {
        let home = StoreHome::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(HostRecordStores {
            records: Arc::new(store.host_records()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn records_of_the_host_survive_a_restart() {
    let home = StoreHome::new();
    let record = HostRecord {
        name: "x".to_owned(),
        body: "1".into(),
    };
    let store = home.open().await;
    let records = store.host_records();
    records.put("a", record.clone(), Utc::now()).await.unwrap();
    store.close().await;
    let store = home.open().await;
    let stored = store.host_records().get("a", "x").await.unwrap();
    assert_eq!(stored, Some(record));
}
