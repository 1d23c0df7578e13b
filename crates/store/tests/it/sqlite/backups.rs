//! Copies of a store that open as separate stores.

use std::fs;

use windlass_store::sqlite::OnLostCommits;
use windlass_store::{SqliteError, SqliteStore};

use super::support::{StoreHome, custom, fill, fill_slowly, read};

async fn filled(home: &StoreHome) -> SqliteStore {
    let store = home.open().await;
    let texts = (0..20).map(|number| custom(&number.to_string()));
    fill_slowly(&store, "s", texts.collect()).await;
    store
}

/// Opens a store and appends to it; returns how many events it had.
async fn open_and_append(home: &StoreHome) -> usize {
    let store = home.open().await;
    let found = read(&store, "s").await.unwrap().len();
    assert!(store.verify().await.unwrap().findings.is_empty());
    fill(&store, "s", vec![custom("on")]).await;
    store.close().await;
    let store = home.open().await;
    assert_eq!(read(&store, "s").await.unwrap().len(), found + 1);
    store.close().await;
    found
}

#[tokio::test]
async fn backup_of_the_database_alone_opens() {
    let (home, by_vacuum, by_backup) = (StoreHome::new(), StoreHome::new(), StoreHome::new());
    let store = filled(&home).await;
    let database = home.database();
    let copy = by_vacuum.file("windlass.db");
    database
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    drop(database);
    store.close().await;
    // Equivalent to `.backup` of the SQLite shell: the same pages in one file.
    copy_file(&home, &by_backup, "windlass.db");
    assert_eq!(open_and_append(&by_vacuum).await, 20);
    assert_eq!(open_and_append(&by_backup).await, 20);
}

fn copy_file(from: &StoreHome, to: &StoreHome, name: &str) {
    fs::copy(from.file(name), to.file(name)).unwrap();
}

#[tokio::test]
async fn directory_copied_during_writes_opens() {
    let (home, copied) = (StoreHome::new(), StoreHome::new());
    let store = filled(&home).await;
    for name in ["windlass.db", "windlass.db-wal"] {
        copy_file(&home, &copied, name);
    }
    // The counter is copied last, so it is ahead of the copied log.
    fill(&store, "s", vec![custom("later")]).await;
    copy_file(&home, &copied, "windlass.commits");
    store.close().await;
    assert_eq!(open_and_append(&copied).await, 20);
}

#[tokio::test]
async fn copy_without_its_log_is_refused() {
    let (home, copied) = (StoreHome::new(), StoreHome::new());
    let store = filled(&home).await;
    for name in ["windlass.db", "windlass.commits"] {
        copy_file(&home, &copied, name);
    }
    store.close().await;
    let error = copied.refusal().await;
    assert!(matches!(error, SqliteError::LostCommits { .. }), "{error}");
}

#[tokio::test]
async fn older_database_opens_after_accepting_lost_commits() {
    let home = StoreHome::new();
    let store = filled(&home).await;
    let older = home.file("older");
    home.database()
        .execute("VACUUM INTO ?1", [older.to_str().unwrap()])
        .unwrap();
    fill(&store, "s", vec![custom("later")]).await;
    store.close().await;
    fs::rename(older, home.file("windlass.db")).unwrap();

    let error = home.refusal().await.to_string();
    assert!(error.contains("--accept-lost-commits"), "{error}");
    let accepting = home.options().on_lost_commits(OnLostCommits::Accept);
    let store = SqliteStore::open(accepting).await.unwrap();
    store.close().await;
    assert_eq!(
        open_and_append(&home).await,
        20,
        "the accepted state is valid from now on"
    );
}
