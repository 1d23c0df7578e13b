//! Whatever is appended, in whatever groups: lists are the fold.

use std::io::Cursor;
use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::items::TurnStatus;
use windlass_store::{Batch, Journal, MemoryJournal, ThreadEntry};

use super::super::support::{Home, key};
use super::play::play;
use super::shown::{append, findings, folded, listed, thread};

const SEEDS: std::ops::Range<u64> = 0..16;

fn choices(seed: u64) -> usize {
    40 + seed as usize * 44
}

#[tokio::test]
async fn lists_are_what_the_events_fold_to() {
    for seed in SEEDS {
        let home = Home::new();
        let events = play(seed, choices(seed));
        let (first, second) = events.split_at(events.len() * 2 / 3);
        let group = 1 + seed as usize * 3 % 25;
        let store = home.open().await;
        append(&store, "s", first, group).await;
        assert_eq!(listed(&store, "s").await, folded(first), "seed {seed}");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        store.close().await;

        // The writer has forgotten all, and makes its fold again.
        let store = home.open().await;
        append(&store, "s", second, group).await;
        let all = folded(&events);
        assert_eq!(listed(&store, "s").await, all, "seed {seed}");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}");
        let row = thread(&store, "s").await;
        let is_open = |turn: &&_| !windlass_core::items::TurnView::is_ended(turn);
        let open = all.turns.iter().rfind(is_open).map(|turn| turn.id);
        assert_eq!(row.open_turn(), open);
        assert_eq!(row.head, events.len() as u64);
        assert_eq!(row.turns, all.turns.len() as u64);
        assert_eq!(row.latest_turn, all.turns.last().map(|turn| turn.id));
        assert_eq!(row.latest_status, all.turns.last().map(|turn| turn.status));
        assert_eq!(row, in_memory(&events).await, "seed {seed}");
        if open.is_none() {
            assert_eq!(row.messages, all.messages.len() as u64);
            assert_eq!(row.items, all.items.len() as u64);
        }

        let mut heard = Vec::new();
        let report = store.rebuild(|done| heard.push((done.done, done.total)));
        assert_eq!(report.await.unwrap().streams, 1);
        assert_eq!(heard, [(1, 1)]);
        assert_eq!(listed(&store, "s").await, all, "seed {seed}, anew");
        assert_eq!(findings(&store).await, [""; 0], "seed {seed}, anew");
        let anew = thread(&store, "s").await;
        assert_eq!((anew.open_turn(), anew.usage), (row.open_turn(), row.usage));

        let (lines, _) = store.export(Vec::new()).await.unwrap();
        let other = Home::new();
        let copy = other.open().await;
        let taken = copy.import(Cursor::new(lines)).await.unwrap();
        assert_eq!(taken.streams, 1);
        assert_eq!(listed(&copy, "s").await, all, "seed {seed}, imported");
        assert_eq!(findings(&copy).await, [""; 0], "seed {seed}, imported");
    }
}

/// What a journal in memory says of the same events.
async fn in_memory(events: &[Arc<Event>]) -> ThreadEntry {
    let (journal, stream) = (MemoryJournal::new(), key("s"));
    let claim = journal.claim(&stream).await.unwrap();
    for part in events.chunks(50) {
        let batch = Batch {
            first_seq: part[0].seq(),
            records: part.to_vec(),
        };
        journal.append(&claim, batch).await.unwrap();
        journal.thread(&stream).await.unwrap();
    }
    journal.thread(&stream).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_plays_reach_every_end_and_many_flushes() {
    let mut ends = Vec::new();
    let mut longest = 0;
    for seed in SEEDS {
        let events = play(seed, choices(seed));
        let whole = events.iter().filter(|event| !event.is_ephemeral());
        longest = longest.max(whole.count());
        let shown = folded(&events);
        ends.extend(shown.turns.iter().map(|turn| turn.status));
    }
    for status in [
        TurnStatus::InProgress,
        TurnStatus::Completed,
        TurnStatus::Failed,
        TurnStatus::Interrupted,
    ] {
        assert!(ends.contains(&status), "{status:?}");
    }
    assert!(
        longest > 2 * 512,
        "{longest} events are too few for two flushes"
    );
}
