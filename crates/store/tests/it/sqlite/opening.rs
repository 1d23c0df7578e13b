//! Errors of an open, which leave the database unchanged.

use std::fs;
use std::io::ErrorKind;

use rusqlite::Connection;
use windlass_store::{Journal, JournalError, SqliteError, SqliteStore};

use super::support::{StoreHome, custom, events, fill, key, read};

#[tokio::test]
async fn second_writer_is_refused_and_may_read() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("a")]).await;
    let error = home.refusal().await;
    let pid = std::process::id().to_string();
    assert!(matches!(&error, SqliteError::Locked { holder, .. } if *holder == pid));
    assert!(
        error.to_string().contains(&format!("process {pid}")),
        "{error}"
    );

    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(read(&reader, "s").await.unwrap().len(), 1);
    fill(&store, "s", vec![custom("b")]).await;
    assert_eq!(
        read(&reader, "s").await.unwrap().len(),
        2,
        "it sees what is new"
    );
    let refused = reader.journal().claim(&key("s")).await;
    let says = |why: &str| why.contains("for reading only");
    assert!(matches!(refused, Err(JournalError::Unavailable(why)) if says(&why)));
    reader.close().await;

    store.close().await;
    home.open().await.close().await;
}

#[tokio::test]
async fn file_of_another_program_is_unchanged() {
    let foreign_database = |home: &StoreHome| {
        let connection = home.database();
        connection
            .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
            .unwrap();
    };
    let text =
        |home: &StoreHome| fs::write(home.file("windlass.db"), "a text of some length").unwrap();
    for (what, make) in [
        (
            "another program has made it",
            &foreign_database as &dyn Fn(&StoreHome),
        ),
        ("it is not a SQLite file", &text),
    ] {
        let home = StoreHome::new();
        make(&home);
        let before = fs::read(home.file("windlass.db")).unwrap();
        let error = home.refusal().await;
        assert!(matches!(&error, SqliteError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(fs::read(home.file("windlass.db")).unwrap(), before);
        assert!(SqliteStore::open_read_only(home.options()).await.is_err());
    }
}

#[tokio::test]
async fn newer_schema_is_refused() {
    let home = StoreHome::new();
    home.open().await.close().await;
    home.database()
        .execute("INSERT INTO schema_versions VALUES (99, 0)", [])
        .unwrap();
    let before = fs::read(home.file("windlass.db")).unwrap();
    let error = home.refusal().await;
    assert!(
        matches!(error, SqliteError::NewerSchema { found: 99, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("newer Windlass"), "{error}");
    assert_eq!(fs::read(home.file("windlass.db")).unwrap(), before);
}

#[tokio::test]
async fn unwritable_path_is_named() {
    let home = StoreHome::new();
    fs::write(home.file("file"), "").unwrap();
    let mut options = home.options();
    options.directory = home.file("file").join("below");
    let error = SqliteStore::open(options).await.unwrap_err();
    assert!(matches!(error, SqliteError::Io { .. }), "{error}");
    assert!(error.to_string().contains("below"), "{error}");

    let mut options = home.options();
    options.directory = home.file("nothing");
    let error = SqliteStore::open_read_only(options).await.unwrap_err();
    assert!(matches!(error, SqliteError::Io { .. }), "{error}");
    assert!(!home.file("nothing").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn read_only_directory_can_be_read() {
    use std::os::unix::fs::PermissionsExt;

    let home = StoreHome::new();
    let store = home.open().await;
    fill(&store, "s", vec![custom("a")]).await;
    store.close().await;
    let writable = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(home.path(), mode).unwrap();
    };
    for file in fs::read_dir(home.path()).unwrap() {
        let mode = fs::Permissions::from_mode(0o444);
        fs::set_permissions(file.unwrap().path(), mode).unwrap();
    }
    writable(0o555);
    // For the superuser nothing is read-only.
    if fs::write(home.file("probe"), "").is_err() {
        let error = home.refusal().await;
        assert!(matches!(error, SqliteError::Io { .. }), "{error}");
    }
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(read(&reader, "s").await.unwrap().len(), 1);
    reader.close().await;
    writable(0o755);
}

#[tokio::test]
async fn database_opens_after_a_crash_during_creation() {
    let home = StoreHome::new();
    // The state after the first step of creation.
    let connection = Connection::open(home.file("windlass.db")).unwrap();
    connection
        .pragma_update(None, "application_id", i32::from_be_bytes(*b"WNDL"))
        .unwrap();
    drop(connection);
    let store = home.open().await;
    let claim = store.journal().claim(&key("s")).await.unwrap();
    store
        .journal()
        .append(&claim, events(1, [custom("a")]))
        .await
        .unwrap();
}

/// Leaves the files of a process that is killed while it writes the first tables: some of their pages, and a rollback journal.
fn cut_off() -> StoreHome {
    let (home, left) = (StoreHome::new(), StoreHome::new());
    let connection = Connection::open(home.file("windlass.db")).unwrap();
    connection
        .pragma_update(None, "application_id", i32::from_be_bytes(*b"WNDL"))
        .unwrap();
    // With so little memory, pages go to the file before the commit.
    connection.pragma_update(None, "cache_size", 1).unwrap();
    connection
        .execute_batch(
            "BEGIN; CREATE TABLE half (text TEXT);
             INSERT INTO half WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 999) \
             SELECT hex(zeroblob(900)) FROM n;",
        )
        .unwrap();
    for name in ["windlass.db", "windlass.db-journal"] {
        fs::copy(home.file(name), left.file(name)).unwrap();
    }
    left
}

#[tokio::test]
async fn interrupted_creation_is_rolled_back() {
    let home = cut_off();
    let store = home.open().await;
    fill(&store, "s", vec![custom("a")]).await;
    assert_eq!(read(&store, "s").await.unwrap().len(), 1);
    assert!(store.verify().await.unwrap().findings.is_empty());
    store.close().await;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'half'";
    let half: i64 = (home.database().query_row(tables, [], |row| row.get(0))).unwrap();
    assert_eq!(half, 0);
}

#[tokio::test]
async fn interrupted_creation_is_an_error_for_readers() {
    let home = cut_off();
    let opened = SqliteStore::open_read_only(home.options()).await;
    let error = opened.unwrap_err();
    assert!(error.to_string().contains("open it for writing"), "{error}");
    home.open().await.close().await;
    let reader = SqliteStore::open_read_only(home.options()).await;
    reader.unwrap().close().await;
}

#[tokio::test]
async fn database_without_tables_is_an_error_for_readers() {
    let home = StoreHome::new();
    let connection = Connection::open(home.file("windlass.db")).unwrap();
    connection
        .pragma_update(None, "application_id", i32::from_be_bytes(*b"WNDL"))
        .unwrap();
    drop(connection);
    let error = SqliteStore::open_read_only(home.options())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SqliteError::Io { source, .. } if source.kind() == ErrorKind::NotFound),
        "{error}"
    );
    assert!(error.to_string().contains("open it for writing"), "{error}");
    home.open().await.close().await;
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    reader.close().await;
}

#[tokio::test]
async fn database_without_identity_is_an_error_for_readers() {
    let home = StoreHome::new();
    home.open().await.close().await;
    // As between the two steps of a first opening.
    let connection = Connection::open(home.file("windlass.db")).unwrap();
    connection.execute("DELETE FROM state", []).unwrap();
    drop(connection);
    let error = SqliteStore::open_read_only(home.options())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("first opening"), "{error}");
}
