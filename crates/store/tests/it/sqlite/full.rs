//! No space left.

use windlass_store::journal::all_events;
use windlass_store::{Journal, JournalError, SqliteStore};

use super::support::{StoreHome, custom, events, fill, key, read};

#[tokio::test]
async fn full_database_refuses_writes_until_space_is_free() {
    let home = StoreHome::new();
    let small = home.options().with_max_bytes(500_000);
    let store = SqliteStore::open(small).await.unwrap();
    fill(&store, "ballast", vec![custom(&"x".repeat(30_000)); 4]).await;
    let journal = store.journal();
    let claim = journal.claim(&key("s")).await.unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        let batch = events(acknowledged + 1, [custom(&"x".repeat(20_000))]);
        match journal.append(&claim, batch).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    let says = |why: &str| why.contains("no space");
    assert!(
        matches!(&refused, JournalError::Unavailable(why) if says(why)),
        "{refused}"
    );
    assert!(acknowledged > 2);
    let stored = read(&store, "s").await.unwrap();
    assert_eq!(stored.len() as u64, acknowledged);

    // Space is free again, and the same writer continues.
    assert!(journal.remove(&key("ballast")).await.unwrap());
    let batch = events(acknowledged + 1, [custom("on")]);
    journal.append(&claim, batch).await.unwrap();
    store.close().await;

    let store = home.open().await;
    assert_eq!(
        read(&store, "s").await.unwrap().len() as u64,
        acknowledged + 1
    );
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn group_on_a_full_disk_acknowledges_only_durable_appends() {
    let home = StoreHome::new();
    let small = home.options().with_max_bytes(300_000);
    let store = SqliteStore::open(small).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for stream in 0..8 {
        let journal = store.journal();
        writers.spawn(async move {
            let key = key(&format!("s{stream}"));
            let claim = journal.claim(&key).await.unwrap();
            let mut acknowledged = 0;
            for seq in 1..=8 {
                let batch = events(seq, [custom(&"x".repeat(9_000))]);
                if journal.append(&claim, batch).await.is_err() {
                    break;
                }
                acknowledged = seq;
            }
            acknowledged
        });
    }
    let acknowledged: u64 = writers.join_all().await.into_iter().sum();
    let all = all_events(&store.journal()).await.unwrap();
    assert_eq!(all.len() as u64, acknowledged);
    assert!(acknowledged < 64);
    store.close().await;
    let store = home.open().await;
    assert_eq!(all_events(&store.journal()).await.unwrap(), all);
}
