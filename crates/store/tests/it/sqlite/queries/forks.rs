//! Forks show the turns that they share, wherever the rows of those are.

use std::collections::HashSet;
use std::io::Cursor;
use std::sync::Arc;

use windlass_core::events::{Event, EventData};
use windlass_core::items::TurnStatus;
use windlass_core::typed_id::TurnId;
use windlass_store::{Journal, MemoryJournal, MemoryQueries, MemoryRunLog, Queries};

use super::super::support::{StoreHome, completed, fill, findings, fork, key, started};
use super::play::play;
use super::shown::{append, assert_same, everything, thread};

/// Returns the places between turns of a play, as a journal sees them.
fn places(events: &[Arc<Event>]) -> Vec<u64> {
    let mut running: HashSet<TurnId> = HashSet::new();
    let mut places = Vec::new();
    for event in events {
        match &event.data {
            EventData::TurnStarted(data) => drop(running.insert(data.turn_id)),
            EventData::TurnCompleted(data) => drop(running.remove(&data.turn_id)),
            EventData::TurnFailed(data) => drop(running.remove(&data.turn_id)),
            EventData::TurnCancelled(data) => drop(running.remove(&data.turn_id)),
            _ => {}
        }
        if running.is_empty() && !event.is_ephemeral() {
            places.push(event.seq());
        }
    }
    places
}

/// The rows of a fork in memory.
async fn in_memory(events: &[Arc<Event>], at: u64) -> Vec<String> {
    let journal = Arc::new(MemoryJournal::new());
    append(journal.as_ref(), "s", events, 50).await;
    fork(journal.as_ref(), "s", at, "fork").await.unwrap();
    let queries = MemoryQueries::new(journal, Arc::new(MemoryRunLog::default()));
    thread(&queries, &key("fork")).await
}

#[tokio::test]
async fn fork_at_any_record_has_equal_answers_in_all_stores() {
    for seed in 0..4 {
        let home = StoreHome::new();
        let events = play(seed, 60 + seed as usize * 40);
        let places = places(&events);
        let at = places[places.len() / 2];
        let store = home.open().await;
        append(&store.journal(), "s", &events, 13).await;
        if seed % 2 == 0 {
            store.write_rows().await.unwrap();
        }
        fork(&store.journal(), "s", at, "fork").await.unwrap();
        // The moment of the fork is its own.
        let expected = in_memory(&events, at).await;
        let shown = async || thread(&store.queries(), &key("fork")).await;
        assert_eq!(shown().await[1..], expected[1..], "seed {seed}");
        store.write_rows().await.unwrap();
        assert_eq!(shown().await[1..], expected[1..], "seed {seed}, written");
        store.journal().remove(&key("s")).await.unwrap();
        assert_eq!(shown().await[1..], expected[1..], "seed {seed}, alone");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        store.rebuild(|_| {}).await.unwrap();
        assert_eq!(shown().await[1..], expected[1..], "seed {seed}, anew");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}, anew");

        let (lines, _) = store.export(Vec::new()).await.unwrap();
        let other = StoreHome::new();
        let copy = other.open().await;
        copy.import(Cursor::new(lines)).await.unwrap();
        let copied = thread(&copy.queries(), &key("fork")).await;
        assert_eq!(copied[1..], expected[1..], "seed {seed}, imported");
        assert_eq!(findings(&copy).await, [""; 0], "seed {seed}, imported");
        let all = everything(&copy.queries()).await;
        copy.write_rows().await.unwrap();
        assert_same(
            &everything(&copy.queries()).await,
            &all,
            &format!("seed {seed}"),
        );
        assert_eq!(findings(&copy).await, [""; 0], "seed {seed}, imported");
    }
}

#[tokio::test]
async fn shared_rows_survive_the_parents_removal_before_they_are_written() {
    let home = StoreHome::new();
    let store = home.open().await;
    let events = play(3, 120);
    let at = places(&events)[3];
    append(&store.journal(), "s", &events, 13).await;
    fork(&store.journal(), "s", at, "fork").await.unwrap();
    let before = thread(&store.queries(), &key("fork")).await;
    store.journal().remove(&key("s")).await.unwrap();
    store.write_rows().await.unwrap();
    assert_eq!(thread(&store.queries(), &key("fork")).await, before);
    assert_eq!(findings(&store).await, [""; 0]);
    assert_eq!(store.queries().counts().await.unwrap().unrecorded, 1);
    store.journal().remove(&key("fork")).await.unwrap();
    assert_eq!(findings(&store).await, [""; 0]);
    let rows = "SELECT count(*) FROM turns";
    let left: i64 = (home.database().query_row(rows, [], |row| row.get(0))).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn shared_turn_ends_after_its_thread_is_removed() {
    let home = StoreHome::new();
    let store = home.open().await;
    let turn = TurnId::new();
    fill(&store, "s", vec![started(turn)]).await;
    store.write_rows().await.unwrap();
    fill(&store, "s", vec![completed(turn)]).await;
    fork(&store.journal(), "s", 2, "fork").await.unwrap();
    store.journal().remove(&key("s")).await.unwrap();
    for _ in 0..2 {
        let shown = store.queries().turn(&key("fork"), turn).await.unwrap();
        let shown = shown.map(|turn| (turn.view.status, turn.last_seq));
        assert_eq!(shown, Some((TurnStatus::Completed, Some(2))));
        store.write_rows().await.unwrap();
    }
    assert_eq!(findings(&store).await, [""; 0]);
}
