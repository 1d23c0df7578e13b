//! What a store lists of a stream, and what its events fold to, in the same words.

use std::sync::Arc;

use windlass_core::events::Event;
use windlass_core::items::{TurnLog, TurnView};
use windlass_core::transcript::Transcript;
use windlass_store::sqlite::{ThreadEntry, ThreadFilter, Window};
use windlass_store::{Batch, Journal, SqliteStore};

use super::super::support::key;

/// The turns and items of a thread, and its messages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) turns: Vec<TurnView>,
    pub(super) items: Vec<String>,
    pub(super) messages: Vec<String>,
}

/// Appends events to the end of a stream, so many at a time.
pub(super) async fn append(store: &SqliteStore, name: &str, events: &[Arc<Event>], group: usize) {
    let journal = store.journal();
    let claim = journal.claim(&key(name)).await.unwrap();
    for events in events.chunks(group) {
        let batch = Batch {
            first_seq: events[0].seq(),
            records: events.to_vec(),
        };
        journal.append(&claim, batch).await.unwrap();
    }
}

/// Lists all of a stream, a few entries at a time.
pub(super) async fn listed(store: &SqliteStore, name: &str) -> Shown {
    let stream = key(name);
    let (mut turns, mut items, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let mut window = Window::first(7);
    loop {
        let page = store.turns(&stream, window).await.unwrap();
        turns.extend(page.entries);
        match page.next {
            Some(next) => window = Window::after(next, 7),
            None => break,
        }
    }
    turns.reverse();
    for (turn, place) in turns.iter().zip(0..) {
        assert_eq!(turn.place, place);
        for item in store.items(&stream, turn.turn.id).await.unwrap().unwrap() {
            assert!(turn.first_seq <= item.first_seq && item.last_seq <= turn.last_seq);
            items.push(format!(
                "{} {} {:?} {:?} {:?} {:?} {:?} {} {}",
                item.id,
                item.turn_id,
                item.exec_id,
                item.kind,
                item.status,
                item.started_at,
                item.ended_at,
                item.summary,
                item.first_seq,
            ));
        }
    }
    let mut offset = 0;
    loop {
        let page = store.messages(&stream, offset, 9).await.unwrap();
        for message in page.entries {
            assert_eq!(message.index, messages.len() as u64);
            messages.push(format!("{} {} {}", message.id, message.role, message.seq));
        }
        match page.next {
            Some(next) => offset = next,
            None => break,
        }
    }
    Shown {
        turns: turns.into_iter().map(|entry| entry.turn).collect(),
        items,
        messages,
    }
}

/// Folds events with the folds of core. Text that streams is not listed.
pub(super) fn folded(events: &[Arc<Event>]) -> Shown {
    let whole: Vec<_> = events
        .iter()
        .filter(|event| !event.is_ephemeral())
        .collect();
    let log = TurnLog::fold(whole.iter().copied());
    let items = log.turns().iter().flat_map(|turn| log.items_of(turn.id));
    let items = items.map(|item| {
        format!(
            "{} {} {:?} {:?} {:?} {:?} {:?} {} {}",
            item.id,
            item.turn_id,
            item.exec_id,
            item.kind,
            item.status,
            item.started_at,
            item.ended_at,
            item.summary(),
            log.item_seqs(item.id).unwrap().0,
        )
    });
    let (mut transcript, mut messages) = (Transcript::default(), Vec::new());
    for event in whole {
        transcript.apply(event, |placed| {
            messages.push(format!(
                "{} {} {}",
                placed.message_id, placed.role, placed.seq
            ));
        });
    }
    Shown {
        turns: log.turns().to_vec(),
        items: items.collect(),
        messages,
    }
}

/// Returns the row of one thread.
pub(super) async fn thread(store: &SqliteStore, name: &str) -> ThreadEntry {
    let window = Window::first(1000);
    let threads = store.threads(ThreadFilter::All, window).await.unwrap();
    let mut threads = threads.entries.into_iter();
    threads.find(|thread| thread.stream == key(name)).unwrap()
}

pub(super) async fn findings(store: &SqliteStore) -> Vec<String> {
    let findings = store.verify().await.unwrap().findings;
    findings.iter().map(ToString::to_string).collect()
}
