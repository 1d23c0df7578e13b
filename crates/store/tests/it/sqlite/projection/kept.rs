//! Rows outlive their records, and text chunks touch none.

use std::time::Duration;

use chrono::{DateTime, Utc};
use windlass_core::items::TurnView;
use windlass_store::SqliteStore;
use windlass_store::sqlite::SqliteRetention;

use super::super::support::{Home, read};
use super::play::{Play, plain_turns, play};
use super::shown::{append, findings, folded, listed, thread};

fn later() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_secs(1_700_001_000)
}

#[tokio::test]
async fn retention_takes_records_and_leaves_what_is_listed() {
    let retention = SqliteRetention {
        text_chunks: Some(Duration::from_secs(60)),
        max_age: Some(Duration::from_secs(60)),
        max_bytes: None,
    };
    for seed in 0..8 {
        let home = Home::new();
        let options = home.options().with_retention(retention);
        let store = SqliteStore::open(options).await.unwrap();
        let events = play(seed, 150);
        let (first, second) = events.split_at(events.len() / 2);
        append(&store, "s", first, 20).await;
        let done = store.maintain(later()).await.unwrap();
        assert!(done.records > 0 && read(&store, "s").await.unwrap().len() < first.len());
        assert_eq!(listed(&store, "s").await, folded(first), "seed {seed}");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");

        append(&store, "s", second, 20).await;
        store.maintain(later()).await.unwrap();
        let all = folded(&events);
        assert_eq!(listed(&store, "s").await, all, "seed {seed}");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        let before = thread(&store, "s").await;
        store.rebuild(|_| {}).await.unwrap();
        assert_eq!(listed(&store, "s").await, all, "seed {seed}, anew");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}, anew");
        let after = thread(&store, "s").await;
        assert_eq!((after.turns, after.usage), (before.turns, before.usage));
        assert_eq!(after.open_turn(), before.open_turn());
    }
}

#[tokio::test]
async fn thousands_of_old_records_go_in_steps() {
    let retention = SqliteRetention {
        max_age: Some(Duration::from_secs(60)),
        ..SqliteRetention::default()
    };
    let home = Home::new();
    let options = home.options().with_retention(retention);
    let store = SqliteStore::open(options).await.unwrap();
    let events = plain_turns(1, 400);
    append(&store, "s", &events, 500).await;
    let done = store.maintain(later()).await.unwrap();
    assert!(done.records > 2000, "{}", done.records);
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(listed(&store, "s").await, folded(&events));
    assert_eq!(findings(&store).await, [""; 0]);
}

#[tokio::test]
async fn text_chunks_touch_no_row() {
    let home = Home::new();
    let store = home.open().await;
    let mut play = Play::new(1);
    play.start();
    let begun = play.events.len();
    (0..200).for_each(|_| play.delta());
    let rows = || {
        let database = home.database();
        let count = |table| -> i64 {
            let query = format!("SELECT count(*) FROM {table}");
            database.query_row(&query, [], |row| row.get(0)).unwrap()
        };
        ["threads", "turns", "items", "messages"].map(count)
    };
    append(&store, "s", &play.events[..begun], begun).await;
    let before = rows();
    append(&store, "s", &play.events[begun..], 1).await;
    assert_eq!(rows(), before);
    let shown = listed(&store, "s").await;
    assert_eq!(shown, folded(&play.events));
    assert!(!shown.turns.iter().all(TurnView::is_ended));
}

#[tokio::test]
async fn a_removed_stream_leaves_no_row() {
    use windlass_store::Journal;
    let home = Home::new();
    let store = home.open().await;
    append(&store, "s", &plain_turns(1, 90), 100).await;
    append(&store, "t", &plain_turns(2, 90), 100).await;
    let stream = super::super::support::key("s");
    store.journal().remove(&stream).await.unwrap();
    assert_eq!(findings(&store).await, [""; 0]);
    assert_eq!(listed(&store, "s").await, folded(&[]));
    assert_eq!(listed(&store, "t").await, folded(&plain_turns(2, 90)));
    append(&store, "s", &plain_turns(3, 3), 100).await;
    assert_eq!(listed(&store, "s").await, folded(&plain_turns(3, 3)));
}
