//! `verify` finds rows that are not what the events say, and `rebuild` puts them right.

use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::Window;

use super::super::support::{Home, custom, fill, key, started};
use super::play::plain_turns;
use super::shown::{append, findings, folded, listed};

/// Changes the database behind the store's back; says what is found.
async fn check(change: &str, expected: &[&str]) {
    let home = Home::new();
    let store = home.open().await;
    let events = plain_turns(1, 80);
    append(&store, "s", &events, 50).await;
    fill(&store, "other", vec![custom("x")]).await;
    store.close().await;
    home.database().execute_batch(change).unwrap();
    let store = home.open().await;
    assert_eq!(findings(&store).await, expected, "{change}");
    store.rebuild(|_| {}).await.unwrap();
    let left = findings(&store).await;
    assert!(left.is_empty(), "{change}: {left:?}");
    assert_eq!(listed(&store, "s").await, folded(&events), "{change}");
}

#[tokio::test]
async fn a_changed_row_is_found_and_named() {
    check("", &[]).await;
    check(
        "UPDATE turns SET status = 2 WHERE key & 0xffffffff = 3",
        &["stream s: the row of turn 3 is not what the journal says"],
    )
    .await;
    check(
        "UPDATE turns SET detail = replace(detail, 'asked', 'said') WHERE key & 0xffffffff = 4",
        &["stream s: the row of turn 4 is not what the journal says"],
    )
    .await;
    check(
        "UPDATE items SET summary = 'other' WHERE key & 0xffffffff = 5",
        &["stream s: the row of item 5 is not what the journal says"],
    )
    .await;
    check(
        "UPDATE messages SET seq = 1 WHERE key & 0xffffffff = 6",
        &["stream s: the row of message 6 is not what the journal says"],
    )
    .await;
    check(
        "UPDATE threads SET turns = 7 WHERE stream = 1",
        &["stream s: the row of the thread is not what the journal says"],
    )
    .await;
    check(
        "UPDATE threads SET upto_items = 7 WHERE stream = 1",
        &["stream s: the row of the thread says wrongly how much is listed"],
    )
    .await;
}

#[tokio::test]
async fn a_row_that_is_missing_or_too_many_is_found() {
    check(
        "DELETE FROM items WHERE key & 0xffffffff = 5",
        &["stream s: the row of item 5 is not what the journal says"],
    )
    .await;
    check(
        "DELETE FROM turns",
        &["stream s: the row of turn 0 is missing"],
    )
    .await;
    check(
        "DELETE FROM threads WHERE stream = 2",
        &["stream other: the row of the thread does not know record 1"],
    )
    .await;
    check(
        "INSERT INTO messages VALUES ((1 << 32) + 999, zeroblob(16), 1, 1)",
        &["stream s: 1 rows of messages are too many"],
    )
    .await;
    check(
        "INSERT INTO messages VALUES (99 << 32, zeroblob(16), 1, 1)",
        &["1 rows of messages belong to no batch"],
    )
    .await;
    check(
        "UPDATE turns SET status = 77 WHERE key & 0xffffffff = 3",
        &["stream s: the row of a turn cannot be read: Conversion error from type Integer at index: 2, 77 stands for nothing"],
    )
    .await;
    check(
        "UPDATE threads SET upto = upto + 1 WHERE stream = 1",
        &["stream s: the row of the thread names no place between turns"],
    )
    .await;
}

#[tokio::test]
async fn a_damaged_stream_is_not_listed_and_others_are() {
    let home = Home::new();
    let store = home.open().await;
    let data = || vec![started(TurnId::new()), custom("a"), custom("b")];
    fill(&store, "bad", data()).await;
    fill(&store, "good", data()).await;
    store.close().await;
    home.database()
        .execute_batch("UPDATE records SET body = x'00' WHERE stream = 1 AND seq = 2")
        .unwrap();
    let store = home.open().await;
    let turns = async |name| store.turns(&key(name), Window::first(5)).await;
    assert!(turns("bad").await.is_err());
    assert_eq!(turns("good").await.unwrap().entries.len(), 1);
    let report = store.rebuild(|_| {}).await.unwrap();
    assert_eq!((report.streams, report.findings.len()), (1, 1));
    assert_eq!(report.findings[0].stream, Some(key("bad")));
}
