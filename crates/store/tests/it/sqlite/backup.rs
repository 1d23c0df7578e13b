//! Online backups.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use windlass_store::sqlite::{BackupError, SqliteOptions};
use windlass_store::{Journal, SqliteError, SqliteStore};

use super::support::{StoreHome, custom, fill, fill_slowly, key, read};

fn words(count: usize) -> Vec<windlass_core::events::EventData> {
    (0..count).map(|n| custom(&n.to_string())).collect()
}

/// Opens a directory for writing and returns how many records of a stream are in it, after it was verified.
async fn sound(directory: &Path, stream: &str) -> usize {
    let store = SqliteStore::open(SqliteOptions::new(directory)).await;
    let store = store.unwrap();
    assert_eq!(store.verify().await.unwrap().findings, []);
    let count = read(&store, stream).await.unwrap().len();
    fill(&store, stream, words(1)).await;
    store.close().await;
    count
}

#[tokio::test]
async fn backup_is_a_private_data_directory() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill_slowly(&store, "s", words(20)).await;
    let beside = StoreHome::new();
    fs::write(home.file("tokens.json"), "{}").unwrap();
    let to = beside.file("backup");
    let files = vec![home.file("tokens.json")];
    let report = store.back_up(&to, files, |_| {}).await.unwrap();
    assert!(report.commits >= 21 && report.commits <= store.commits());
    assert_eq!(report.files, ["tokens.json", "windlass.db"]);

    let mut names = Vec::new();
    for entry in fs::read_dir(&to).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    let expected = [
        "backup.json",
        "tokens.json",
        "windlass.commits",
        "windlass.db",
    ];
    assert_eq!(names, expected);
    let mode = fs::metadata(&to).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let left: Vec<_> = fs::read_dir(beside.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let header = fs::read(to.join("windlass.db")).unwrap();
    assert_eq!(header[18..20], [1, 1], "it needs no log to be read");
    assert_eq!(sound(&to, "s").await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_during_writes_is_a_snapshot() {
    let home = StoreHome::new();
    let store = home.open().await;
    let long = "long ".repeat(20_000);
    fill_slowly(&store, "s", (0..200).map(|_| custom(&long)).collect()).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (store, is_done) = (store.clone(), Arc::clone(&is_done));
        async move {
            let mut written = 0;
            while written == 0 || !is_done.load(Ordering::SeqCst) {
                fill(&store, "s", words(1)).await;
                written += 1;
            }
            written
        }
    });
    let beside = StoreHome::new();
    // A reader in another program is unknown to the writer.
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    let to = beside.file("backup");
    reader.back_up(&to, Vec::new(), |_| {}).await.unwrap();
    is_done.store(true, Ordering::SeqCst);
    let written = writing.await.unwrap();
    let copied = sound(&to, "s").await;
    assert!((200..=200 + written).contains(&copied), "{copied} records");
    assert_eq!(read(&store, "s").await.unwrap().len(), 200 + written);
}

#[tokio::test]
async fn existing_destination_is_not_replaced() {
    let (home, beside) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    fill(&store, "s", words(3)).await;
    let file = beside.file("file");
    fs::write(&file, "mine").unwrap();
    let full = beside.file("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "mine").unwrap();
    let link = beside.file("link");
    fs::create_dir(beside.file("empty")).unwrap();
    std::os::unix::fs::symlink("empty", &link).unwrap();
    for taken in [file, full, link, home.path().to_owned()] {
        let refused = store.back_up(&taken, Vec::new(), |_| {}).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, BackupError::Exists(_)), "{refused}");
    }
    assert_eq!(fs::read_dir(beside.path()).unwrap().count(), 4);
    let empty = beside.file("empty");
    store.back_up(&empty, Vec::new(), |_| {}).await.unwrap();
    assert_eq!(sound(&empty, "s").await, 3);
}

#[tokio::test]
async fn leftovers_of_a_killed_backup_are_removed() {
    let (home, beside) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    fill(&store, "s", words(3)).await;
    let to = beside.file("backup");
    let left = beside.file(".backup.backup-in-progress");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("windlass.unfinished"), "").unwrap();
    fs::write(left.join("windlass.db"), "half").unwrap();

    let at_work = fs::File::create(left.join("windlass.lock")).unwrap();
    at_work.lock().unwrap();
    let refused = store.back_up(&to, Vec::new(), |_| {}).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, BackupError::Store(SqliteError::Locked { .. })),
        "{refused}"
    );
    drop(at_work);
    store.back_up(&to, Vec::new(), |_| {}).await.unwrap();
    assert!(!left.exists());
    assert_eq!(sound(&to, "s").await, 3);

    // A directory of that name without the mark is a user's.
    let mine = beside.file(".second.backup-in-progress");
    fs::create_dir(&mine).unwrap();
    let second = beside.file("second");
    assert!(store.back_up(&second, Vec::new(), |_| {}).await.is_err());
    assert!(mine.exists() && !second.exists());
}

#[tokio::test]
async fn damaged_database_is_not_backed_up() {
    let (home, beside) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    fill(
        &store,
        "s",
        (0..200).map(|_| custom(&"x".repeat(2000))).collect(),
    )
    .await;
    store.close().await;
    let file = home.file("windlass.db");
    let mut bytes = fs::read(&file).unwrap();
    let from = bytes.len() / 2;
    bytes[from..from + 16 * 1024].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    let store = SqliteStore::open_read_only(home.options()).await.unwrap();
    let to = beside.file("backup");
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let progress = move |progress| heard.lock().unwrap().push(progress);
    let refused = store.back_up(&to, Vec::new(), progress).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, BackupError::Damaged(_)), "{refused}");
    assert!(refused.to_string().contains("windlass store export"));
    assert_eq!(fs::read_dir(beside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn backup_contains_no_free_pages() {
    let (home, beside) = (StoreHome::new(), StoreHome::new());
    let store = home.open().await;
    fill(&store, "removed", vec![custom(&"x".repeat(50_000)); 100]).await;
    fill(&store, "s", words(10)).await;
    store.journal().remove(&key("removed")).await.unwrap();
    store.maintain(chrono::Utc::now()).await.unwrap();
    let to = beside.file("backup");
    let report = store.back_up(&to, Vec::new(), |_| {}).await.unwrap();
    assert!(report.bytes < 1_000_000, "{} bytes", report.bytes);
    assert_eq!(sound(&to, "s").await, 10);
}
