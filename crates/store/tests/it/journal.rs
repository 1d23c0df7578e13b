//! Conformance of the journal in memory, and its retention.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use windlass_core::events::{CustomData, Event, EventContext, EventRequest, SessionForkedData};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::journal::all_events;
use windlass_store::{
    Batch, EventSink, Journal, JournalError, MemoryJournal, Retention, StreamKey, conformance,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() {
    conformance::journal(async || Arc::new(MemoryJournal::new()) as Arc<dyn Journal>)
        .await
        .unwrap();
}

fn retaining(max_events: usize, sink: Option<Arc<dyn EventSink>>) -> MemoryJournal {
    MemoryJournal::with_retention(Retention {
        max_events: Some(max_events),
        sink,
    })
}

async fn append(journal: &MemoryJournal, name: &str, numbers: RangeInclusive<u64>) {
    let claim = journal.claim(&StreamKey::new(name)).await.unwrap();
    for seq in numbers {
        let data = CustomData {
            name: "n".into(),
            payload: seq.into(),
        };
        let request = EventRequest::new(SessionId::new(), EventContext::default(), data);
        let batch = Batch {
            first_seq: seq,
            records: vec![Arc::new(request.into_event(EventId::new(), Some(seq)))],
            ..Batch::default()
        };
        journal.append(&claim, batch).await.unwrap();
    }
}

async fn fork(journal: &MemoryJournal, parent: &str, at: u64, child: &str) {
    let data = SessionForkedData {
        parent_session_id: SessionId::from_seed(1),
        parent_sequence: at,
        record: None,
        dropped_turn_id: None,
        depth: None,
    };
    let session = SessionId::from_seed(2);
    let request = EventRequest::new(session, EventContext::default(), data);
    let forked = request.into_event(EventId::new(), None);
    let (parent, child) = (StreamKey::new(parent), StreamKey::new(child));
    journal.fork(&parent, at, &child, forked).await.unwrap();
}

async fn gaps(journal: &MemoryJournal, name: &str) -> Vec<RangeInclusive<u64>> {
    let key = StreamKey::new(name);
    conformance::gaps(journal, &key).await.unwrap()
}

#[tokio::test]
async fn pruned_events_are_reported_as_a_gap() {
    let journal = retaining(3, None);
    append(&journal, "s", 1..=8).await;
    assert_eq!(
        gaps(&journal, "s").await,
        [1..=5],
        "the newest three are retained"
    );
}

/// Collects the retired events.
#[derive(Default)]
struct RetiredNumbers(Mutex<Vec<u64>>);

impl EventSink for RetiredNumbers {
    fn retire(&self, events: &[Arc<Event>]) {
        let mut retired = self.0.lock().unwrap();
        retired.extend(events.iter().map(|event| event.seq()));
    }
}

#[tokio::test]
async fn retention_skips_shared_records_until_forks_are_removed() {
    let sink = Arc::new(RetiredNumbers::default());
    let journal = retaining(3, Some(sink.clone()));
    append(&journal, "s", 1..=3).await;
    fork(&journal, "s", 2, "fork").await;
    fork(&journal, "fork", 3, "fork of it").await;
    append(&journal, "s", 4..=8).await;
    append(&journal, "fork", 4..=8).await;
    assert_eq!(gaps(&journal, "s").await, [3..=5]);
    assert_eq!(gaps(&journal, "fork").await, [4..=5]);
    assert_eq!(gaps(&journal, "fork of it").await, []);
    let refused = journal
        .fork(
            &StreamKey::new("s"),
            4,
            &StreamKey::new("never"),
            (*all_events(&journal).await.unwrap()[0]).clone(),
        )
        .await;
    assert!(matches!(refused, Err(JournalError::NotForkable { .. })));
    assert_eq!(*sink.0.lock().unwrap(), [3, 4, 5, 4, 5]);

    journal.remove(&StreamKey::new("fork")).await.unwrap();
    append(&journal, "s", 9..=9).await;
    assert_eq!(gaps(&journal, "s").await, [3..=6], "one fork is left");
    journal.remove(&StreamKey::new("fork of it")).await.unwrap();
    append(&journal, "s", 10..=10).await;
    assert_eq!(gaps(&journal, "s").await, [1..=7]);
    assert_eq!(sink.0.lock().unwrap()[5..], [6, 1, 2, 7]);
}

#[tokio::test]
async fn unshared_records_return_to_their_stream() {
    let journal = retaining(4, None);
    append(&journal, "s", 1..=4).await;
    for (at, child) in [(1, "a"), (3, "b")] {
        fork(&journal, "s", at, child).await;
    }
    for child in ["a", "b"] {
        journal.remove(&StreamKey::new(child)).await.unwrap();
    }
    append(&journal, "s", 5..=9).await;
    assert_eq!(gaps(&journal, "s").await, [1..=5]);
}
