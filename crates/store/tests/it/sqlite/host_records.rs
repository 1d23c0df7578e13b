//! Records of the host: the suite, and restarts.

use std::sync::{Arc, Mutex};

use chrono::Utc;
use windlass_store::conformance::{self, Hosted};
use windlass_store::{HostRecord, HostRecords};

use super::support::Home;

#[tokio::test]
async fn sqlite_keeps_the_rules() {
    let homes = Mutex::new(Vec::new());
    conformance::host_records(async || {
        let home = Home::new();
        let store = home.open().await;
        homes.lock().unwrap().push(home);
        Arc::new(Hosted {
            records: Arc::new(store.host_records()),
            journal: Arc::new(store.journal()),
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn records_of_the_host_survive_a_restart() {
    let home = Home::new();
    let record = HostRecord {
        name: "x".to_owned(),
        body: "1".into(),
    };
    let store = home.open().await;
    let records = store.host_records();
    records.put("a", record.clone(), Utc::now()).await.unwrap();
    store.close().await;
    let store = home.open().await;
    let kept = store.host_records().get("a", "x").await.unwrap();
    assert_eq!(kept, Some(record));
}
