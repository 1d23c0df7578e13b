//! A stream under test, and events to put into it.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::events::{CustomData, Event, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};

use crate::conformance::check::Violation;
use crate::journal::{Batch, Claim, Journal, JournalError, StreamKey};

pub(super) type JournalRef = Arc<dyn Journal>;

/// Builds an event with a number.
pub(super) fn event(seq: u64, payload: Value) -> Arc<Event> {
    let data = CustomData {
        name: "conformance".to_owned(),
        payload,
    };
    let request = EventRequest::new(SessionId::from_seed(7), EventContext::default(), data);
    Arc::new(request.into_event(EventId::new(), Some(seq)))
}

/// Builds a batch of `count` events.
pub(super) fn batch(first_seq: u64, count: u64) -> Batch {
    let records = (first_seq..first_seq + count).map(|seq| event(seq, json!(seq)));
    Batch {
        first_seq,
        records: records.collect(),
        ..Batch::default()
    }
}

/// One stream and the right to write it.
#[derive(Clone)]
pub(super) struct StreamFixture {
    pub(super) store: JournalRef,
    pub(super) key: StreamKey,
    pub(super) claim: Claim,
}

impl StreamFixture {
    pub(super) async fn new(store: JournalRef, key: &str) -> Result<Self, Violation> {
        let key = StreamKey::new(key);
        let claim = store.claim(&key).await?;
        Ok(Self { store, key, claim })
    }

    pub(super) async fn append(&self, first_seq: u64, count: u64) -> Result<(), JournalError> {
        let batch = batch(first_seq, count);
        self.store.append(&self.claim, batch).await
    }

    pub(super) async fn numbers(&self, after: u64, limit: usize) -> Result<Vec<u64>, JournalError> {
        let page = self.store.read(&self.key, after, limit).await?;
        Ok(page.events.iter().map(|event| event.seq()).collect())
    }
}
