//! Damage: of a row it stops the stream, of the structure it stops the writing.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use windlass_core::typed_id::TurnId;
use windlass_store::journal::all_events;
use windlass_store::sqlite::OpenCheck;
use windlass_store::{Journal, JournalError, SqliteError, SqliteStore};

use super::support::{StoreHome, custom, fill, key, read, started};

/// Creates a store with two streams, runs SQL on its database and reopens it.
async fn changed(sql: &str) -> (StoreHome, SqliteStore) {
    let home = StoreHome::new();
    let store = home.open().await;
    let big = custom(&"x".repeat(50_000));
    fill(
        &store,
        "bad",
        vec![custom("1"), custom("2"), big, custom("4")],
    )
    .await;
    fill(&store, "good", vec![custom("1")]).await;
    store.close().await;
    let connection = home.database();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    drop(connection);
    let store = home.open().await;
    (home, store)
}

#[tokio::test]
async fn damaged_record_stops_only_its_stream() {
    for (sql, seq, what) in [
        (
            "UPDATE records SET body = unhex(replace(hex(body), hex('\"2'), hex('\"3'))) \
             WHERE stream = 1 AND seq = 2",
            2,
            "it was changed",
        ),
        (
            "UPDATE records SET body = substr(body, 1, 5) WHERE stream = 1 AND seq = 2",
            2,
            "it was changed",
        ),
        (
            "UPDATE records SET form = 9 WHERE stream = 1 AND seq = 2",
            2,
            "it has a form that this version does not know",
        ),
        (
            "DELETE FROM records WHERE stream = 1 AND seq = 2",
            2,
            "it is missing",
        ),
        (
            "DELETE FROM records WHERE stream = 1 AND seq = 4",
            4,
            "it is missing",
        ),
        (
            "UPDATE records SET chain = x'00' WHERE stream = 1 AND seq = 3",
            3,
            "it was changed",
        ),
        ("UPDATE blobs SET bytes = x'00'", 3, "its blob was changed"),
        ("DELETE FROM blobs", 3, "its blob is missing"),
        (
            "UPDATE records SET body = (SELECT body FROM records WHERE stream = 1 AND seq = 1) \
             WHERE stream = 1 AND seq = 4",
            4,
            "it was changed",
        ),
    ] {
        let (_home, store) = changed(sql).await;
        let expected = JournalError::Damaged {
            stream: "bad".into(),
            seq,
            what: what.into(),
        };
        assert_eq!(read(&store, "bad").await.unwrap_err(), expected, "{sql}");
        let feed = all_events(&store.journal()).await;
        match (seq, what) {
            // The feed returns the existing records; reading the stream reveals that its newest record is gone.
            (4, "it is missing") => assert_eq!(feed.unwrap().len(), 4),
            _ => assert_eq!(feed.unwrap_err(), expected),
        }
        assert_eq!(read(&store, "good").await.unwrap().len(), 1);
        fill(&store, "good", vec![custom("2")]).await;
        assert_eq!(read(&store, "good").await.unwrap().len(), 2);

        let report = store.verify().await.unwrap();
        let found: Vec<_> = report
            .findings
            .iter()
            .filter(|finding| finding.stream == Some(key("bad")))
            .map(|finding| (finding.seq, finding.what.as_str()))
            .collect();
        assert!(found.contains(&(Some(seq), what)), "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn record_of_a_newer_version_stops_its_stream() {
    let (_home, store) =
        changed("UPDATE records SET version = 7 WHERE stream = 1 AND seq = 2").await;
    let expected = JournalError::UnknownVersion {
        stream: "bad".into(),
        seq: 2,
        version: 7,
    };
    assert_eq!(read(&store, "bad").await.unwrap_err(), expected);
    assert_eq!(read(&store, "good").await.unwrap().len(), 1);
    let report = store.verify().await.unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
}

#[tokio::test]
async fn stream_with_a_damaged_open_turn_cannot_be_claimed() {
    let home = StoreHome::new();
    let store = home.open().await;
    fill(
        &store,
        "s",
        vec![started(TurnId::new()), custom("2"), custom("3")],
    )
    .await;
    store.close().await;
    home.database()
        .execute("UPDATE records SET body = x'7b' WHERE seq = 2", [])
        .unwrap();
    let store = home.open().await;
    let refused = store.journal().claim(&key("s")).await.unwrap_err();
    assert!(
        matches!(refused, JournalError::Damaged { seq: 2, .. }),
        "{refused}"
    );
}

/// Creates a store with 20 streams of 20 records.
async fn filled() -> StoreHome {
    let home = StoreHome::new();
    let store = home.open().await;
    for stream in 0..20 {
        let texts = (0..20).map(|n| custom(&format!("{n}{}", "x".repeat(500))));
        fill(&store, &format!("s{stream:02}"), texts.collect()).await;
    }
    store.close().await;
    home
}

#[tokio::test]
async fn damaged_page_is_found_after_the_open_and_stops_writes() {
    let home = filled().await;
    let database = home.file("windlass.db");
    let mut file = fs::OpenOptions::new().write(true).open(&database).unwrap();
    // A page with records of a later stream than the one that is read below.
    let page = file.metadata().unwrap().len() / 4 * 3 / 4096 * 4096;
    file.seek(SeekFrom::Start(page)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    drop(file);

    let store = home.open().await;
    let error = store.checked().await.unwrap_err();
    assert!(matches!(&error, SqliteError::Damaged { .. }), "{error}");
    let refused = store.journal().claim(&key("new")).await.unwrap_err();
    let says = |why: &str| why.contains("is damaged") && why.contains("export what can be saved");
    assert!(
        matches!(&refused, JournalError::Unavailable(why) if says(why)),
        "{refused}"
    );
    assert_eq!(read(&store, "s00").await.unwrap().len(), 20);
    assert!(!store.verify().await.unwrap().findings.is_empty());
    store.close().await;

    let whole = home.options().with_check(OpenCheck::Structure);
    let error = SqliteStore::open(whole).await.unwrap_err();
    assert!(matches!(&error, SqliteError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn page_check_runs_during_use_and_ends_on_close() {
    let home = filled().await;
    let store = home.open().await;
    fill(&store, "s00", vec![custom("on")]).await;
    store.checked().await.unwrap();
    fill(&store, "s00", vec![custom("and on")]).await;
    store.close().await;
    let store = home.open().await;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.checked().await }
    });
    store.close().await;
    waiting.await.unwrap().unwrap();
    home.open().await.close().await;
}

#[tokio::test]
async fn truncated_database_is_read_only_and_exportable() {
    let home = filled().await;
    let database = home.file("windlass.db");
    let file = fs::OpenOptions::new().write(true).open(&database).unwrap();
    let cut = file.metadata().unwrap().len() * 3 / 4;
    file.set_len(cut).unwrap();

    let error = home.refusal().await;
    assert!(matches!(&error, SqliteError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains("export what can be saved"),
        "{error}"
    );
    assert_eq!(
        fs::metadata(&database).unwrap().len(),
        cut,
        "nothing was written"
    );

    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    let (saved, report) = reader.export(Vec::new()).await.unwrap();
    assert!(report.records > 100, "{} of 400 records", report.records);
    assert!(!report.findings.is_empty());
    reader.close().await;

    let new = StoreHome::new();
    let store = new.open().await;
    let taken = store.import(std::io::Cursor::new(saved)).await.unwrap();
    assert!(taken.streams > 0 && !taken.findings.is_empty(), "{taken:?}");
    assert_eq!(read(&store, "s00").await.unwrap().len(), 20);
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn damage_of_any_page_leaves_the_rest_readable() {
    let home = filled().await;
    let database = home.file("windlass.db");
    let whole = fs::read(&database).unwrap();
    let mut unreadable = Vec::new();
    for page in 0..whole.len() / 4096 {
        let mut bytes = whole.clone();
        // The header must still identify a database of Windlass.
        let from = page * 4096 + if page == 0 { 100 } else { 0 };
        bytes[from..(page + 1) * 4096].fill(0xff);
        fs::write(&database, bytes).unwrap();
        let reader = match SqliteStore::open_read_only(home.options()).await {
            Ok(reader) => reader,
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("nothing can be exported"), "{page}: {error}");
                assert!(error.contains("windlass store restore"), "{page}: {error}");
                unreadable.push(page);
                continue;
            }
        };
        let report = reader.verify().await.unwrap();
        assert!(!report.findings.is_empty(), "{page}");
        let (_, report) = reader.export(Vec::new()).await.unwrap();
        let saved = report.records;
        assert!(saved >= 380 || !report.findings.is_empty(), "{page}");
        reader.close().await;
    }
    // Without the pages of the schema no table can be read; after damage to any other page, some can.
    assert!(
        unreadable.len() < 8 && unreadable.contains(&0),
        "{unreadable:?}"
    );
}
