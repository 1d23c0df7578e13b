//! The database file becomes smaller after deletions.

use std::fs;

use chrono::Utc;
use windlass_store::{Journal, Maintenance, SqliteStore};

use super::support::{StoreHome, custom, fill, findings, key, read};

const LARGE: u64 = 5_000_000;
const SMALL: u64 = 1_000_000;

fn size(home: &StoreHome) -> u64 {
    fs::metadata(home.file("windlass.db")).unwrap().len()
}

/// Fills a store with a large stream and a small one, and removes the large one.
async fn with_free_pages(home: &StoreHome) -> SqliteStore {
    let store = home.open().await;
    fill(&store, "s", vec![custom("small"); 10]).await;
    fill(&store, "removed", vec![custom(&"x".repeat(50_000)); 110]).await;
    store.write_back().await.unwrap();
    assert!(size(home) > LARGE, "{} bytes", size(home));
    store.journal().remove(&key("removed")).await.unwrap();
    store
}

#[tokio::test]
async fn maintenance_returns_free_pages_to_the_file_system() {
    let home = StoreHome::new();
    let store = with_free_pages(&home).await;
    store.maintain_store(Utc::now()).await.unwrap();
    assert!(size(&home) < 2 * SMALL, "{} bytes", size(&home));
    assert_eq!(read(&store, "s").await.unwrap().len(), 10);
    assert_eq!(findings(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn compacting_rewrites_the_file_without_free_pages() {
    let home = StoreHome::new();
    // A database of an earlier version does not return pages.
    home.open().await.close().await;
    let connection = home.database();
    connection
        .pragma_update(None, "auto_vacuum", "NONE")
        .unwrap();
    connection.execute_batch("VACUUM").unwrap();
    drop(connection);
    let store = with_free_pages(&home).await;
    store.maintain_store(Utc::now()).await.unwrap();
    assert!(size(&home) > LARGE, "{} bytes", size(&home));
    let report = store.compact(|_| {}).await.unwrap();
    assert!(report.before > LARGE && report.after < SMALL, "{report:?}");
    assert_eq!(size(&home), report.after);
    // The open store continues, and from now on maintenance returns free pages.
    fill(&store, "s", vec![custom("after")]).await;
    assert_eq!(read(&store, "s").await.unwrap().len(), 11);
    assert_eq!(findings(&store).await, Vec::<String>::new());
    store.close().await;
    let store = with_free_pages(&home).await;
    store.maintain_store(Utc::now()).await.unwrap();
    assert!(size(&home) < 2 * SMALL, "{} bytes", size(&home));
}
