//! What is listed of a fork is what its events fold to, and is stored once.

use std::collections::HashSet;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;
use windlass_store::sqlite::SqliteRetention;
use windlass_store::{Batch, Journal, MemoryJournal, SqliteJournal, SqliteStore};

use super::super::support::{Home, fork, key, read};
use super::play::{plain_turns, play};
use super::shown::{append, findings, folded, listed, thread};

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

/// Numbers events on from somewhere.
fn renumbered(events: &[Arc<Event>], first: u64) -> Vec<Arc<Event>> {
    let numbered = (first..).zip(events);
    numbered
        .map(|(seq, event)| {
            Arc::new(Event {
                sequence: Some(seq),
                ..Event::clone(event)
            })
        })
        .collect()
}

#[tokio::test]
async fn a_fork_anywhere_lists_what_its_events_fold_to() {
    for seed in 0..4 {
        let home = Home::new();
        let events = play(seed, 60 + seed as usize * 240);
        let places = places(&events);
        let Some(last) = places.last() else { continue };
        let store = home.open().await;
        append(&store, "s", &events, 1 + seed as usize * 3 % 25).await;
        let journal = store.journal();
        let memory = MemoryJournal::new();
        let claim = memory.claim(&key("s")).await.unwrap();
        let batch = Batch {
            first_seq: 1,
            records: events.clone(),
        };
        memory.append(&claim, batch).await.unwrap();

        let mut names = Vec::new();
        for at in [places[0], places[places.len() / 2], *last] {
            let name = format!("at {at}");
            fork_both(&journal, &memory, "s", at, &name).await;
            let more = renumbered(&plain_turns(seed + 100, 3), at + 2);
            append(&store, &name, &more, 2).await;
            let claim = memory.claim(&key(&name)).await.unwrap();
            let batch = Batch {
                first_seq: at + 2,
                records: more,
            };
            memory.append(&claim, batch).await.unwrap();
            names.push(name);
        }
        // A fork of a fork, behind its own turns.
        let at = thread(&store, &names[1]).await.head;
        fork_both(&journal, &memory, &names[1], at, "deep").await;
        names.push("deep".to_owned());
        check(&store, &memory, &names, &format!("seed {seed}")).await;

        journal.remove(&key("s")).await.unwrap();
        memory.remove(&key("s")).await.unwrap();
        check(&store, &memory, &names, &format!("seed {seed}, removed")).await;
        store.rebuild(|_| {}).await.unwrap();
        check(&store, &memory, &names, &format!("seed {seed}, anew")).await;
        store.close().await;
        let store = home.open().await;
        check(&store, &memory, &names, &format!("seed {seed}, again")).await;

        let (lines, exported) = store.export(Vec::new()).await.unwrap();
        let other = Home::new();
        let copy = other.open().await;
        let taken = copy.import(Cursor::new(lines.clone())).await.unwrap();
        assert!(taken.findings.is_empty(), "{:?}", taken.findings);
        assert_eq!(taken.records, exported.records);
        check(&copy, &memory, &names, &format!("seed {seed}, imported")).await;
        assert_eq!(copy.export(Vec::new()).await.unwrap().0, lines);
    }
}

/// Forks a stream in both journals, with the same event.
async fn fork_both(
    disk: &SqliteJournal,
    memory: &MemoryJournal,
    parent: &str,
    at: u64,
    child: &str,
) {
    assert_eq!(fork(disk, parent, at, child).await.unwrap(), at + 1);
    let (parent, child) = (key(parent), key(child));
    let page = disk.read(&child, at, 1).await.unwrap();
    let forked = (*page.events[0]).clone();
    let head = memory.fork(&parent, at, &child, forked).await.unwrap();
    assert_eq!(head, at + 1);
}

/// Compares forks with what their events fold to, and with the same forks in memory.
async fn check(store: &SqliteStore, memory: &MemoryJournal, names: &[String], when: &str) {
    assert_eq!(findings(store).await, [""; 0], "{when}");
    for name in names {
        let events = read(store, name).await.unwrap();
        let page = memory.read(&key(name), 0, usize::MAX).await.unwrap();
        assert_eq!(events, page.events, "{when}: {name}");
        assert_eq!(listed(store, name).await, folded(&events), "{when}: {name}");
        let mut row = thread(store, name).await;
        let in_memory = memory.thread(&key(name)).await.unwrap().unwrap();
        row.cursor = in_memory.cursor;
        assert_eq!(row, in_memory, "{when}: {name}");
    }
}

fn later() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_secs(1_700_001_000)
}

#[tokio::test]
async fn retention_leaves_what_is_shared_and_all_that_is_listed() {
    let retention = SqliteRetention {
        text_chunks: Some(Duration::from_secs(60)),
        max_age: Some(Duration::from_secs(60)),
        max_bytes: None,
    };
    for seed in 0..4 {
        let home = Home::new();
        let options = home.options().with_retention(retention);
        let store = SqliteStore::open(options).await.unwrap();
        let events = play(seed, 400);
        let places = places(&events);
        append(&store, "s", &events, 20).await;
        let at = places[places.len() / 3];
        let journal = store.journal();
        fork(&journal, "s", at, "fork").await.unwrap();
        let more = renumbered(&plain_turns(seed + 100, 30), at + 2);
        append(&store, "fork", &more, 20).await;
        let whole = read(&store, "fork").await.unwrap();
        let of_fork = folded(&whole);

        let done = store.maintain(later()).await.unwrap();
        assert!(done.records > 0, "seed {seed}");
        for (name, events) in [("s", &events), ("fork", &whole)] {
            let kept = read(&store, name).await.unwrap();
            let shared = usize::try_from(at).unwrap();
            assert_eq!(kept[..shared], events[..shared], "seed {seed}: {name}");
            assert!(kept.len() < events.len(), "seed {seed}: {name}");
        }
        let compare = async |when: &str| {
            assert_eq!(findings(&store).await, [""; 0], "seed {seed}, {when}");
            let (ours, theirs) = (listed(&store, "s").await, listed(&store, "fork").await);
            assert_eq!(ours, folded(&events), "seed {seed}, {when}");
            assert_eq!(theirs, of_fork, "seed {seed}, {when}");
        };
        compare("pruned").await;
        store.rebuild(|_| {}).await.unwrap();
        compare("anew").await;
        // Behind what is gone, and before it.
        let head = thread(&store, "fork").await.head;
        for (name, at) in [("late", head), ("early", at)] {
            fork(&journal, "fork", at, name).await.unwrap();
            let end = usize::try_from(at).unwrap();
            let expected = folded(&whole[..end]);
            let shown = listed(&store, name).await;
            assert_eq!(shown.messages, expected.messages, "seed {seed}, {name}");
            assert_eq!(shown.items, expected.items, "seed {seed}, {name}");
            let row = thread(&store, name).await;
            assert_eq!(row.turns, expected.turns.len() as u64);
        }
        compare("forked again").await;
        let (lines, _) = store.export(Vec::new()).await.unwrap();
        let other = Home::new();
        let copy = other.open().await;
        let taken = copy.import(Cursor::new(lines)).await.unwrap();
        assert!(taken.findings.is_empty(), "{:?}", taken.findings);
        assert_eq!(findings(&copy).await, [""; 0], "seed {seed}, imported");
        for name in ["s", "fork", "late", "early"] {
            let (ours, theirs) = (read(&copy, name).await, read(&store, name).await);
            assert_eq!(ours.unwrap(), theirs.unwrap(), "seed {seed}, {name}");
        }
    }
}

#[tokio::test]
async fn a_changed_mark_is_found_and_made_anew() {
    let home = Home::new();
    let store = home.open().await;
    append(&store, "s", &plain_turns(1, 400), 100).await;
    let at = thread(&store, "s").await.head;
    let journal = store.journal();
    fork(&journal, "s", at, "fork").await.unwrap();
    store.close().await;
    for (change, stream, what) in [
        ("key >> 32 = 1", "stream s:", "the mark at record"),
        ("key >> 32 = 2", "stream fork:", "where the fork begins"),
    ] {
        let change = format!("UPDATE marks SET items = items + 1 WHERE {change}");
        assert!(home.database().execute(&change, []).unwrap() > 0);
        let store = home.open().await;
        let found = findings(&store).await;
        let is_it = |found: &String| found.contains(stream) && found.contains(what);
        assert!(found.iter().any(is_it), "{found:?}");
        store.rebuild(|_| {}).await.unwrap();
        assert_eq!(findings(&store).await, [""; 0]);
        let events = read(&store, "fork").await.unwrap();
        assert_eq!(listed(&store, "fork").await, folded(&events));
        store.close().await;
    }
}
