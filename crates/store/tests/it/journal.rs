//! The journal in memory: the suite, and what retention leaves.

use std::sync::Arc;

use windlass_core::events::{CustomData, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::{Batch, Journal, MemoryJournal, Retention, StreamKey, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_rules() {
    conformance::journal(async || Arc::new(MemoryJournal::new()) as Arc<dyn Journal>)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_retention_removes_is_reported_as_a_gap() {
    let journal = MemoryJournal::with_retention(Retention {
        max_events: Some(3),
        sink: None,
    });
    let key = StreamKey::new("s");
    let claim = journal.claim(&key).await.unwrap();
    for seq in 1..=8 {
        let data = CustomData {
            name: "n".into(),
            payload: seq.into(),
        };
        let request = EventRequest::new(SessionId::new(), EventContext::default(), data);
        let batch = Batch {
            first_seq: seq,
            records: vec![Arc::new(request.into_event(EventId::new(), Some(seq)))],
        };
        journal.append(&claim, batch).await.unwrap();
    }
    assert_eq!(
        conformance::gaps(&journal, &key).await.unwrap(),
        [1..=5],
        "the newest three are kept"
    );
}
