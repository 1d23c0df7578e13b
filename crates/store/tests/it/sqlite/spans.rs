//! The spans of records: a small table for the newest, a large one for the rest.

use windlass_store::{Journal, SqliteStore};

use super::support::{Home, custom, fill, key, read};

/// More spans than the small table takes, of streams that take turns.
async fn filled(home: &Home) -> SqliteStore {
    let store = home.open().await;
    for round in 0..400 {
        for name in ["a", "b", "c"] {
            let records = (0..3).map(|n| custom(&format!("{name} {round} {n}")));
            fill(&store, name, records.collect()).await;
        }
    }
    store
}

/// Counts spans, and the records that they say there are.
fn spans(home: &Home, table: &str) -> [i64; 2] {
    let query = format!("SELECT count(*), coalesce(sum(count), 0) FROM {table}");
    let database = home.database();
    let read = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    database.query_row(&query, [], read).unwrap()
}

fn count(home: &Home, table: &str) -> i64 {
    let query = format!("SELECT count(*) FROM {table}");
    let database = home.database();
    database.query_row(&query, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn streams_read_the_same_from_both_tables() {
    let home = Home::new();
    let store = filled(&home).await;
    let (settled, recent) = (spans(&home, "spans"), spans(&home, "recent_spans"));
    assert_eq!(
        [settled[0] + recent[0], settled[1] + recent[1]],
        [1200, 3600]
    );
    assert!(
        settled[0] > 0 && recent[0] > 0,
        "{settled:?} and {recent:?}"
    );
    for name in ["a", "b", "c"] {
        let all = read(&store, name).await.unwrap();
        let numbers: Vec<_> = all.iter().map(|event| event.seq()).collect();
        assert_eq!(numbers, (1..=1200).collect::<Vec<_>>());
        // Pages of every kind: within one table, and over the place where one ends.
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
async fn a_removed_stream_leaves_no_span() {
    let home = Home::new();
    let store = filled(&home).await;
    assert!(store.journal().remove(&key("b")).await.unwrap());
    let left = spans(&home, "spans")[1] + spans(&home, "recent_spans")[1];
    assert_eq!((left, count(&home, "records")), (2400, 2400));
    assert!(store.verify().await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn spans_that_are_lost_are_found_and_made_anew() {
    let home = Home::new();
    filled(&home).await.close().await;
    home.database()
        .execute_batch(
            "DELETE FROM spans WHERE stream = 2 AND last = 6; UPDATE recent_spans SET position = 1",
        )
        .unwrap();
    let store = home.open().await;
    assert!(read(&store, "b").await.is_err());
    let findings = store.verify().await.unwrap().findings;
    let named: Vec<_> = findings.iter().map(ToString::to_string).collect();
    let has = |what: &str| named.iter().any(|finding| finding.contains(what));
    assert!(has("records have no place in their stream"), "{named:?}");
    assert!(has("are those of no record"), "{named:?}");
    assert!(has("stream b, record 4: it is missing"), "{named:?}");

    store.rebuild(|_| {}).await.unwrap();
    assert!(store.verify().await.unwrap().findings.is_empty());
    for name in ["a", "b", "c"] {
        assert_eq!(read(&store, name).await.unwrap().len(), 1200);
    }
    fill(&store, "c", vec![custom("after")]).await;
    assert!(store.verify().await.unwrap().findings.is_empty());
}
