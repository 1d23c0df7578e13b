//! The spans of records.

use windlass_store::{Journal, SqliteStore};

use super::support::{StoreHome, custom, fill, key, read};

/// Many spans, of streams that take turns.
async fn filled(home: &StoreHome) -> SqliteStore {
    let store = home.open().await;
    for round in 0..400 {
        for name in ["a", "b", "c"] {
            let records = (0..3).map(|n| custom(&format!("{name} {round} {n}")));
            fill(&store, name, records.collect()).await;
        }
    }
    store
}

/// Counts the spans, and their records.
fn spans(home: &StoreHome) -> [i64; 2] {
    let query = "SELECT count(*), coalesce(sum(count), 0) FROM spans";
    let database = home.database();
    let read = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    database.query_row(query, [], read).unwrap()
}

fn count(home: &StoreHome, table: &str) -> i64 {
    let query = format!("SELECT count(*) FROM {table}");
    let database = home.database();
    database.query_row(&query, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn streams_are_read_by_their_spans() {
    let home = StoreHome::new();
    let store = filled(&home).await;
    assert_eq!(spans(&home), [1200, 3600]);
    for name in ["a", "b", "c"] {
        let all = read(&store, name).await.unwrap();
        let numbers: Vec<_> = all.iter().map(|event| event.seq()).collect();
        assert_eq!(numbers, (1..=1200).collect::<Vec<_>>());
        for (after, limit) in [(0, 7), (600, 500), (900, 299), (1000, 1000), (1199, 5)] {
            let page = store
                .journal()
                .read(&key(name), after, limit)
                .await
                .unwrap();
            let end = all.len().min(after as usize + limit);
            assert_eq!(page.events, all[after as usize..end]);
            assert_eq!(page.head, 1200);
        }
    }
    store.close().await;
    let store = home.open().await;
    fill(&store, "b", vec![custom("after")]).await;
    assert_eq!(read(&store, "b").await.unwrap().len(), 1201);
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn removed_stream_has_no_spans() {
    let home = StoreHome::new();
    let store = filled(&home).await;
    assert!(store.journal().remove(&key("b")).await.unwrap());
    assert_eq!((spans(&home)[1], count(&home, "records")), (2400, 2400));
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn lost_spans_are_found_and_rebuilt() {
    let home = StoreHome::new();
    filled(&home).await.close().await;
    home.database()
        .execute_batch(
            "DELETE FROM spans WHERE stream = 2 AND last = 6; UPDATE spans SET position = 1 WHERE stream = 3 AND last = 1200",
        )
        .unwrap();
    let store = home.open().await;
    assert!(read(&store, "b").await.is_err());
    let findings = store.verify().await.unwrap().findings;
    let named: Vec<_> = findings.iter().map(ToString::to_string).collect();
    let has = |what: &str| named.iter().any(|finding| finding.contains(what));
    assert!(has("records have no span in their stream"), "{named:?}");
    assert!(has("refer to no record"), "{named:?}");
    assert!(has("stream b, record 4: it is missing"), "{named:?}");

    store.rebuild(|_| {}).await.unwrap();
    assert!(store.verify().await.unwrap().findings.is_empty());
    for name in ["a", "b", "c"] {
        assert_eq!(read(&store, name).await.unwrap().len(), 1200);
    }
    fill(&store, "c", vec![custom("after")]).await;
    assert!(store.verify().await.unwrap().findings.is_empty());
}
