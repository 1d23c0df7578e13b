//! Streams with an open turn or a waiting input.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::events::{EventContext, EventData, EventRequest};
use windlass_core::message::Message;
use windlass_core::typed_id::{EventId, MessageId, SessionId, TurnId};

use super::subject::{JournalRef, StreamFixture};
use crate::conformance::check::{CheckOutcome, Violation};
use crate::journal::{Batch, StreamKey, StreamStatus};

fn data(event_type: &str, mut fields: Value, turn_id: TurnId) -> Result<EventData, Violation> {
    fields["turn_id"] = json!(turn_id);
    EventData::from_type(event_type, fields).map_err(|error| Violation(error.to_string()))
}

pub(super) fn started(turn_id: TurnId) -> Result<EventData, Violation> {
    let payload = json!({"input_message_id": MessageId::new()});
    data("turn.started", payload, turn_id)
}

pub(super) fn queued(turn_id: TurnId) -> Result<EventData, Violation> {
    let payload = json!({"message": Message::user("later")});
    data("input.queued", payload, turn_id)
}

pub(super) fn ended(turn_id: TurnId) -> Result<EventData, Violation> {
    // A turn that never began has no iterations.
    data("turn.cancelled", json!({"iterations": 1}), turn_id)
}

pub(super) async fn put(
    stream: &StreamFixture,
    seq: u64,
    data: EventData,
) -> Result<(), Violation> {
    let request = EventRequest::new(SessionId::from_seed(7), EventContext::default(), data);
    let batch = Batch {
        first_seq: seq,
        records: vec![Arc::new(request.into_event(EventId::new(), Some(seq)))],
        ..Batch::default()
    };
    Ok(stream.store.append(&stream.claim, batch).await?)
}

pub(super) async fn open_lists_streams_with_open_turns(store: JournalRef) -> CheckOutcome {
    let open = StreamFixture::new(store.clone(), "open").await?;
    let quiet = StreamFixture::new(store.clone(), "quiet").await?;
    quiet.append(1, 2).await?;
    let (one, two) = (TurnId::new(), TurnId::new());
    for (seq, data, is_open) in [
        (1, started(one)?, true),
        (2, queued(two)?, true),
        (3, ended(one)?, true),
        (4, started(two)?, true),
        (5, ended(two)?, false),
    ] {
        put(&open, seq, data).await?;
        let unfinished = store.open(None, 9).await?;
        let expected: &[_] = if is_open {
            std::slice::from_ref(&open.key)
        } else {
            &[]
        };
        require_eq!(unfinished, expected, "unfinished after record {seq}");
    }
    put(&open, 6, started(TurnId::new())?).await?;
    store.remove(&open.key).await?;
    require!(
        store.open(None, 9).await?.is_empty(),
        "a removed stream is listed as open"
    );
    Ok(())
}

pub(super) async fn status_returns_head_and_open_turns(store: JournalRef) -> CheckOutcome {
    let stream = StreamFixture::new(store.clone(), "s").await?;
    let (one, two, three) = (TurnId::new(), TurnId::new(), TurnId::new());
    for (seq, data, open) in [
        (1, started(one)?, vec![one]),
        (2, queued(two)?, vec![one, two]),
        (3, queued(three)?, vec![one, two, three]),
        (4, ended(one)?, vec![two, three]),
        (5, started(three)?, vec![three, two]),
        (6, ended(three)?, vec![two]),
        (7, ended(two)?, vec![]),
    ] {
        put(&stream, seq, data).await?;
        let expected = StreamStatus { head: seq, open };
        let status = store.status(&stream.key).await?;
        require_eq!(status, expected, "after record {seq}");
    }
    let nowhere = store.status(&StreamKey::new("nowhere")).await?;
    require_eq!(nowhere, StreamStatus::default(), "a missing stream");
    Ok(())
}
