//! Usage outlives its rows, and is never counted twice.

use windlass_store::queries::{UsageBy, UsageQuery, UsageReport, UsageSum};
use windlass_store::{Journal, Queries, SqliteStore};

use super::super::support::{StoreHome, key};
use super::play::plain_turns;
use super::shown::append;

async fn usage(store: &SqliteStore) -> UsageReport {
    let all = UsageQuery {
        since: None,
        until: None,
        by: UsageBy::Thread,
    };
    let mut report = store.queries().usage(all).await.unwrap();
    // The last digit of a sum depends on its order.
    let round = |sum: &mut UsageSum| sum.cost_usd = (sum.cost_usd * 1e9).round();
    round(&mut report.total);
    report.groups.values_mut().for_each(round);
    report
}

#[tokio::test]
async fn usage_of_a_removed_thread_survives_restarts_and_rebuilds() {
    let home = StoreHome::new();
    let store = home.open().await;
    for name in ["gone", "there"] {
        append(&store.journal(), name, &plain_turns(1, 20), 50).await;
    }
    let before = usage(&store).await;
    assert!(before.total.turns >= 40 && before.total.input_tokens > 0);
    store.journal().remove(&key("gone")).await.unwrap();
    assert_eq!(usage(&store).await, before);
    store.close().await;
    let store = home.open().await;
    assert_eq!(usage(&store).await, before, "after a restart");
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(usage(&store).await, before, "after a rebuild");
    assert_eq!(store.verify().await.unwrap().findings, []);
}

#[tokio::test]
async fn reimported_thread_counts_once() {
    let home = StoreHome::new();
    let store = home.open().await;
    append(&store.journal(), "s", &plain_turns(1, 20), 50).await;
    let before = usage(&store).await;
    let exported = store.export(Vec::new()).await.unwrap().0;
    store.journal().remove(&key("s")).await.unwrap();
    store.import(std::io::Cursor::new(exported)).await.unwrap();
    assert_eq!(usage(&store).await, before);
}
