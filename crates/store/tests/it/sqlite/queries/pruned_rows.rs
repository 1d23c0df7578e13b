//! Rows outlive pruned records.

use std::time::Duration;

use chrono::{DateTime, Utc};
use windlass_store::queries::{Order, TurnQuery, UsageBy, UsageQuery};
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{Queries, RunFilter, SqliteStore, TurnRow};

use super::super::support::{StoreHome, findings, key, read};
use super::play::{plain_turns, play};
use super::shown::append;

fn later() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_secs(1_700_001_000)
}

async fn turns(store: &SqliteStore) -> Vec<TurnRow> {
    let query = TurnQuery {
        stream: key("s"),
        order: Order::OldestFirst,
        upto: None,
        after: None,
        limit: 9999,
    };
    store.queries().turns(query).await.unwrap().entries
}

fn unpruned(turns: Vec<TurnRow>) -> Vec<TurnRow> {
    let plain = turns.into_iter().map(|turn| TurnRow {
        is_pruned: false,
        ..turn
    });
    plain.collect()
}

async fn used(store: &SqliteStore) -> u64 {
    let query = UsageQuery {
        since: None,
        until: None,
        by: UsageBy::Day,
    };
    store.queries().usage(query).await.unwrap().total.turns
}

#[tokio::test]
async fn rows_outlive_pruned_records() {
    let retention = SqliteRetention {
        text_chunks: Some(Duration::from_secs(60)),
        max_age: Some(Duration::from_secs(60)),
        max_bytes: None,
    };
    for seed in 0..4 {
        let home = StoreHome::new();
        let options = home.options().with_retention(retention);
        let store = SqliteStore::open(options).await.unwrap();
        let events = play(seed, 150);
        let (first, second) = events.split_at(events.len() / 2);
        append(&store.journal(), "s", first, 20).await;
        append(&store.journal(), "s", second, 20).await;
        let before = store.queries().thread(&key("s")).await.unwrap();
        let (listed, sum) = (turns(&store).await, used(&store).await);
        let done = store.maintain(later()).await.unwrap();
        assert!(done.records > 0 && read(&store, "s").await.unwrap().len() < events.len());
        for anew in [false, true] {
            if anew {
                store.rebuild(|_| {}).await.unwrap();
            }
            let after = store.queries().thread(&key("s")).await.unwrap();
            assert_eq!(after, before, "seed {seed}");
            assert_eq!(unpruned(turns(&store).await), listed, "seed {seed}");
            assert_eq!(used(&store).await, sum, "seed {seed}");
            assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        }
        let pruned = turns(&store)
            .await
            .iter()
            .filter(|turn| turn.is_pruned)
            .count();
        let runs = store.queries().runs(RunFilter::default(), 9999).await;
        assert_eq!(runs.unwrap().len(), listed.len() - pruned, "seed {seed}");
        assert!(pruned > 0, "seed {seed}");
        let gone = &turns(&store).await[0];
        assert!(gone.is_pruned);
        let run = store.queries().run(&gone.view.id.to_string()).await;
        assert_eq!(run.unwrap(), None, "no run without records");
        let detail = store.queries().turn_detail(&key("s"), gone.view.id).await;
        let detail = detail.unwrap().unwrap();
        assert!(!detail.pruned.is_empty(), "seed {seed}: {:?}", detail.row);
        assert!(detail.log.turns().is_empty(), "seed {seed}");
    }
}

#[tokio::test]
async fn old_records_are_pruned_in_steps() {
    let retention = SqliteRetention {
        max_age: Some(Duration::from_secs(60)),
        ..SqliteRetention::default()
    };
    let home = StoreHome::new();
    let options = home.options().with_retention(retention);
    let store = SqliteStore::open(options).await.unwrap();
    append(&store.journal(), "s", &plain_turns(1, 400), 500).await;
    let before = turns(&store).await;
    let done = store.maintain(later()).await.unwrap();
    assert!(done.records > 2000, "{}", done.records);
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(unpruned(turns(&store).await), before);
    assert_eq!(findings(&store).await, [""; 0]);
}
