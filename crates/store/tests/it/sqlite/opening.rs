//! Errors of an open, which leave the database unchanged.

use std::fs;
use std::io::ErrorKind;

use rusqlite::Connection;
use windlass_store::{Journal, JournalError, SqliteError, SqliteStore};

use super::support::{Home, custom, events, fill, key, read};

#[tokio::test]
async fn a_second_writer_is_told_who_the_first_is_and_may_read() {
    let home = Home::new();
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
async fn a_file_of_somebody_else_is_left_alone() {
    let foreign_database = |home: &Home| {
        let connection = home.database();
        connection
            .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
            .unwrap();
    };
    let text = |home: &Home| fs::write(home.file("windlass.db"), "a text of some length").unwrap();
    for (what, make) in [
        (
            "another program has made it",
            &foreign_database as &dyn Fn(&Home),
        ),
        ("it is not a SQLite file", &text),
    ] {
        let home = Home::new();
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
async fn a_newer_schema_is_left_alone() {
    let home = Home::new();
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
async fn a_place_that_cannot_be_written_is_named() {
    let home = Home::new();
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
async fn a_read_only_directory_can_be_read_and_says_why_it_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
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
async fn a_crash_while_the_database_is_made_leaves_one_that_opens() {
    let home = Home::new();
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
fn cut_off() -> Home {
    let (home, left) = (Home::new(), Home::new());
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
async fn a_crash_in_the_middle_of_making_the_database_is_taken_back() {
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
async fn a_crash_in_the_middle_of_making_the_database_is_told_to_readers() {
    let home = cut_off();
    let opened = SqliteStore::open_read_only(home.options()).await;
    let error = opened.unwrap_err();
    assert!(error.to_string().contains("open it for writing"), "{error}");
    home.open().await.close().await;
    let reader = SqliteStore::open_read_only(home.options()).await;
    reader.unwrap().close().await;
}

#[tokio::test]
async fn a_database_whose_first_opening_was_cut_off_is_not_there_for_readers() {
    let home = Home::new();
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
async fn a_database_that_has_no_name_yet_is_not_read() {
    let home = Home::new();
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
