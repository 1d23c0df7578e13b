//! Rows are written in batches, and a stream finds its own among those of others.

use std::sync::Arc;

use windlass_core::events::Event;
use windlass_store::{Batch, Journal, SqliteStore};

use super::super::support::{Home, custom, events, fork, key, read};
use super::play::plain_turns;
use super::shown::{append, findings, folded, listed};

const STREAMS: [&str; 3] = ["a", "b", "c"];

/// Appends turns to three streams by turns, so that their batches alternate.
async fn fill(store: &SqliteStore, turns: usize) -> Vec<Vec<Arc<Event>>> {
    let events: Vec<_> = (1..=3).map(|seed| plain_turns(seed, turns)).collect();
    let mut at = 0;
    while at < events[0].len() {
        for (name, events) in STREAMS.iter().zip(&events) {
            let end = events.len().min(at + 300);
            append(store, name, &events[at..end], 50).await;
        }
        at += 300;
    }
    events
}

fn count(home: &Home, what: &str) -> i64 {
    let database = home.database();
    database.query_row(what, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn streams_find_their_rows_in_batches_that_alternate() {
    let home = Home::new();
    let store = home.open().await;
    let events = fill(&store, 250).await;
    let batches = count(&home, "SELECT count(*) FROM batches WHERE stream = 1");
    assert!(batches > 2, "{batches}");
    for (name, events) in STREAMS.iter().zip(&events) {
        assert_eq!(listed(&store, name).await, folded(events), "{name}");
    }
    // A page that begins anywhere is found without those before it.
    let all = store.messages(&key("b"), 0, 10_000).await.unwrap().entries;
    for offset in (0..all.len()).step_by(37) {
        let page = store.messages(&key("b"), offset as u64, 5).await.unwrap();
        let end = all.len().min(offset + 5);
        assert_eq!(page.entries, all[offset..end], "{offset}");
    }
    assert_eq!(findings(&store).await, [""; 0]);
    let at_seq = events[1].len() as u64 / 2;
    let at_seq = (at_seq..).find(|seq| ends_a_turn(&events[1][*seq as usize - 1]));
    let at_seq = at_seq.unwrap();
    fork(&store.journal(), "b", at_seq, "fork").await.unwrap();
    let (ours, theirs) = (listed(&store, "fork").await, listed(&store, "b").await);
    assert_eq!(ours.messages[..], theirs.messages[..ours.messages.len()]);
    assert_eq!(ours.items[..], theirs.items[..ours.items.len()]);
    assert!(!ours.items.is_empty() && ours.items.len() < theirs.items.len());
    assert_eq!(findings(&store).await, [""; 0]);
}

fn ends_a_turn(event: &Event) -> bool {
    event.data.ends_turn()
}

/// Makes a database of version 8 of one of this version.
fn step_back(home: &Home, rows: &str) {
    let change = format!(
        "{rows}
         DROP TABLE batches;
         DROP INDEX turns_by_id;
         ALTER TABLE turns DROP COLUMN stream;
         CREATE INDEX turns_by_id ON turns (key >> 32, id);
         DELETE FROM schema_versions WHERE version = 9;"
    );
    home.step_back_to_9();
    home.database().execute_batch(&change).unwrap();
}

/// Goes on with three streams that have 100 turns, and with one that has a few events and no rows.
async fn go_on(home: &Home) {
    let store = home.open().await;
    assert_eq!(findings(&store).await, [""; 0]);
    for (seed, name) in (1..).zip(["a", "b", "c", "short"]) {
        let all = plain_turns(seed, 250);
        let head = read(&store, name).await.unwrap().len();
        append(&store, name, &all[head..], 50).await;
    }
    for (seed, name) in (1..).zip(["a", "b", "c", "short"]) {
        let all = plain_turns(seed, 250);
        assert_eq!(listed(&store, name).await, folded(&all), "{name}");
    }
    assert_eq!(findings(&store).await, [""; 0]);
    store.rebuild(|_| {}).await.unwrap();
    assert_eq!(findings(&store).await, [""; 0]);
}

async fn begin(home: &Home) {
    let store = home.open().await;
    fill(&store, 100).await;
    append(&store, "short", &plain_turns(4, 3), 50).await;
    store.close().await;
}

#[tokio::test]
async fn rows_of_an_earlier_version_are_a_batch_too() {
    let home = Home::new();
    begin(&home).await;
    let mut rows = String::new();
    for table in ["turns", "items", "messages"] {
        rows += &format!(
            "UPDATE {table} SET key = -((SELECT stream FROM batches WHERE batch = key >> 32) << 32) - (key & 0xffffffff);
             UPDATE {table} SET key = -key;"
        );
    }
    step_back(&home, &rows);
    go_on(&home).await;
}

#[tokio::test]
async fn an_earlier_version_without_rows_gets_them() {
    let home = Home::new();
    begin(&home).await;
    let rows = "DELETE FROM turns; DELETE FROM items; DELETE FROM messages; DELETE FROM marks; DELETE FROM threads;
                UPDATE state SET projected = 0;";
    step_back(&home, rows);
    go_on(&home).await;
}

#[tokio::test]
async fn who_only_reads_sees_what_became_of_an_earlier_version() {
    let home = Home::new();
    begin(&home).await;
    step_back(
        &home,
        "DELETE FROM turns; DELETE FROM items; DELETE FROM messages; DELETE FROM marks; DELETE FROM threads;",
    );
    let reader = SqliteStore::open_read_only(home.options()).await.unwrap();
    assert_eq!(read(&reader, "short").await.unwrap(), plain_turns(4, 3));
    go_on(&home).await;
    for (seed, name) in (1..).zip(["a", "b", "c", "short"]) {
        let all = plain_turns(seed, 250);
        assert_eq!(listed(&reader, name).await, folded(&all), "{name}");
    }
}

#[tokio::test]
async fn what_is_removed_leaves_no_batch() {
    let home = Home::new();
    let store = home.open().await;
    fill(&store, 150).await;
    for name in STREAMS {
        store.journal().remove(&key(name)).await.unwrap();
    }
    for table in ["batches", "turns", "items", "messages"] {
        let left = count(&home, &format!("SELECT count(*) FROM {table}"));
        assert_eq!(left, 0, "{table}");
    }
}

/// Changes the batches of three streams behind the store's back; says what is found.
async fn check(change: &str, expected: &[&str]) {
    let home = Home::new();
    let store = home.open().await;
    let events = fill(&store, 150).await;
    store.close().await;
    home.database().execute_batch(change).unwrap();
    let store = home.open().await;
    let found = findings(&store).await;
    for what in expected {
        assert!(
            found.iter().any(|found| found.starts_with(what)),
            "{change}: {found:#?}"
        );
    }
    store.rebuild(|_| {}).await.unwrap();
    let left = findings(&store).await;
    assert!(left.is_empty(), "{change}: {left:?}");
    for (name, events) in STREAMS.iter().zip(&events) {
        assert_eq!(
            listed(&store, name).await,
            folded(events),
            "{name}: {change}"
        );
    }
}

#[tokio::test]
async fn a_changed_batch_is_found_and_made_anew() {
    check(
        "DELETE FROM batches WHERE batch = (SELECT min(batch) FROM batches WHERE stream = 2)",
        &["stream b: the row of turn 0 is not what the journal says"],
    )
    .await;
    check(
        "UPDATE batches SET stream = 3 WHERE batch = (SELECT max(batch) FROM batches WHERE stream = 2)",
        &["stream b: the row of turn ", "stream c: the row of turn "],
    )
    .await;
    check(
        "UPDATE batches SET turns = turns + 1 WHERE stream = 1",
        &["stream a: 2 rows of turns are too many"],
    )
    .await;
    check(
        "DELETE FROM turns; DELETE FROM items; DELETE FROM messages",
        &["stream a: the row of turn 0 is missing"],
    )
    .await;
    check(
        "UPDATE turns SET stream = 3 WHERE stream = 1 AND first = 1",
        &["stream a: 1 rows of turns name another stream"],
    )
    .await;
}

#[tokio::test]
async fn appends_that_overlap_or_are_refused_leave_the_lists_exact() {
    let home = Home::new();
    let store = home.open().await;
    let (journal, events) = (store.journal(), plain_turns(1, 200));
    let claim = journal.claim(&key("s")).await.unwrap();
    let batch = |events: &[Arc<Event>]| Batch {
        first_seq: events[0].seq(),
        records: events.to_vec(),
    };
    let mut overlapped = 0;
    for (n, four) in events.chunks(4).enumerate() {
        let (one, two) = four.split_at(four.len() / 2);
        // The second one is handed over before the first one is durable, and may come too early.
        let (first, second) = tokio::join!(
            journal.append(&claim, batch(one)),
            journal.append(&claim, batch(two)),
        );
        first.unwrap();
        match second {
            Ok(()) => overlapped += 1,
            Err(_) => journal.append(&claim, batch(two)).await.unwrap(),
        }
        if n % 7 == 0 {
            let refused = journal.append(&claim, batch(one)).await;
            assert!(refused.is_err(), "it is there already");
        }
    }
    assert!(overlapped > 0);
    assert_eq!(listed(&store, "s").await, folded(&events));
    assert_eq!(findings(&store).await, [""; 0]);
}

/// What lies behind the rows is read by whoever lists, and by the writer when it has forgotten the fold. So it is bounded in
/// bytes too: large events go to the tables before they are many.
#[tokio::test]
async fn large_events_do_not_wait_until_they_are_many() {
    let home = Home::new();
    let store = home.open().await;
    let claim = store.journal().claim(&key("s")).await.unwrap();
    let text = "x".repeat(300_000);
    for seq in 1..=9 {
        let batch = events(seq, [custom(&text)]);
        store.journal().append(&claim, batch).await.unwrap();
    }
    assert_eq!(count(&home, "SELECT upto FROM threads WHERE stream = 1"), 8);
    assert_eq!(findings(&store).await, [""; 0]);
}
