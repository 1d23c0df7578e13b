//! Commits that were acknowledged and are gone.

use std::fs;
use std::path::Path;

use windlass_store::sqlite::OnLostCommits;
use windlass_store::{SqliteError, SqliteStore};

use super::support::{StoreHome, custom, fill, fill_slowly, read};

/// Copies the current files of a store, as a killed process leaves them.
fn copy_of(home: &StoreHome) -> StoreHome {
    let copy = StoreHome::new();
    for name in ["windlass.db", "windlass.db-wal", "windlass.commits"] {
        fs::copy(home.file(name), copy.file(name)).unwrap();
    }
    copy
}

/// The minimum number of its commits; rows of lists sometimes need further ones.
const COMMITS: u64 = 21;

async fn killed() -> StoreHome {
    let home = StoreHome::new();
    let store = home.open().await;
    fill_slowly(
        &store,
        "s",
        (0..20).map(|n| custom(&n.to_string())).collect(),
    )
    .await;
    let copy = copy_of(&home);
    store.close().await;
    copy
}

#[tokio::test]
async fn store_of_a_killed_process_opens() {
    let home = killed().await;
    let store = home.open().await;
    assert_eq!(read(&store, "s").await.unwrap().len(), 20);
    assert!(store.commits() >= COMMITS, "{}", store.commits());
}

#[tokio::test]
async fn deleted_log_is_detected() {
    let home = killed().await;
    fs::remove_file(home.file("windlass.db-wal")).unwrap();
    let error = home.refusal().await;
    let lost = |found, expected| found < expected && expected >= COMMITS;
    assert!(
        matches!(&error, SqliteError::LostCommits { found, expected, .. } if lost(*found, *expected)),
        "{error}"
    );
    assert!(
        error.to_string().contains("windlass.db-wal is missing"),
        "{error}"
    );
    assert!(
        matches!(home.refusal().await, SqliteError::LostCommits { .. }),
        "it stays refused"
    );

    let accepting = home.options().on_lost_commits(OnLostCommits::Accept);
    let store = SqliteStore::open(accepting).await.unwrap();
    assert!(read(&store, "s").await.unwrap().len() < 20);
    fill(&store, "s", vec![custom("on")]).await;
    store.close().await;
    home.open().await.close().await;
}

#[tokio::test]
async fn truncated_log_is_detected() {
    let home = killed().await;
    let log = fs::OpenOptions::new()
        .write(true)
        .open(home.file("windlass.db-wal"))
        .unwrap();
    log.set_len(log.metadata().unwrap().len() / 2).unwrap();
    let error = home.refusal().await;
    assert!(matches!(error, SqliteError::LostCommits { .. }), "{error}");
    assert!(error.to_string().contains("was truncated"), "{error}");
}

#[tokio::test]
async fn missing_database_is_not_recreated() {
    let home = killed().await;
    for name in ["windlass.db", "windlass.db-wal"] {
        fs::remove_file(home.file(name)).unwrap();
    }
    let error = home.refusal().await;
    assert!(
        matches!(
            error,
            SqliteError::LostCommits {
                expected: COMMITS..,
                ..
            }
        ),
        "{error}"
    );
    assert!(!home.file("windlass.db").exists());
}

#[tokio::test]
async fn invalid_counter_is_detected() {
    let other = killed().await;
    let blank = |counter: &Path| fs::write(counter, [0; 40]).unwrap();
    let cut = |counter: &Path| fs::write(counter, "windlass").unwrap();
    let foreign = |counter: &Path| {
        fs::copy(other.file("windlass.commits"), counter).unwrap();
    };
    for (what, damage) in [
        ("was truncated", &blank as &dyn Fn(&Path)),
        ("was truncated", &cut),
        ("another database", &foreign),
    ] {
        let home = killed().await;
        damage(&home.file("windlass.commits"));
        let error = home.refusal().await;
        assert!(matches!(error, SqliteError::LostCommits { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[tokio::test]
async fn old_copy_of_the_database_is_detected() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("old")]).await;
    store.close().await;
    let old = fs::read(home.file("windlass.db")).unwrap();
    let store = home.open().await;
    fill(&store, "s", vec![custom("new")]).await;
    store.close().await;
    fs::write(home.file("windlass.db"), old).unwrap();
    let error = home.refusal().await;
    assert!(error.to_string().contains("an old copy"), "{error}");
}

#[tokio::test]
async fn incomplete_counter_of_a_first_open_is_accepted() {
    for left in [&[][..], &[0; 40], &[0; 48]] {
        let home = StoreHome::new();
        home.open().await.close().await;
        fs::write(home.file("windlass.commits"), left).unwrap();
        let store = home.open().await;
        fill(&store, "s", vec![custom("a")]).await;
        store.close().await;
    }
}
