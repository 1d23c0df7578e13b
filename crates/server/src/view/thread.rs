//! What happens to a thread itself. The record that the server keeps of a thread travels in the event.

use serde_json::{Value, json};
use windlass_core::events::{Event, EventData};
use windlass_core::items::SessionChange;
use windlass_protocol::{EventName, Thread};

use crate::ids;

/// Returns the record of the thread that an event brings.
fn record_of(event: &Event) -> Option<Thread> {
    let record = match &event.data {
        EventData::SessionStarted(data) => data.record.as_ref(),
        EventData::SessionUpdated(data) => data.record.as_ref(),
        EventData::SessionForked(data) => data.record.as_ref(),
        _ => None,
    };
    serde_json::from_value(record?.clone()).ok()
}

pub(super) fn session(event: &Event, change: SessionChange<'_>) -> Option<(EventName, Value)> {
    let thread = record_of(event)?;
    Some(match change {
        SessionChange::Started(_) => (EventName::ThreadStarted, json!({ "thread": thread })),
        SessionChange::Updated(data) => (
            EventName::ThreadUpdated,
            json!({ "thread": thread, "changes": data.changes.clone().unwrap_or_else(|| json!({})) }),
        ),
        SessionChange::Forked(data) => {
            let mut payload = json!({
                "thread": thread,
                "source_thread_id": ids::thread(data.parent_session_id),
                "source_seq": data.parent_sequence,
            });
            if let Some(depth) = data.depth {
                payload["backtrack_depth_from_tail"] = depth.into();
            }
            if let Some(turn_id) = data.dropped_turn_id {
                payload["dropped_turn_id"] = turn_id.to_string().into();
            }
            (EventName::ThreadForked, payload)
        }
    })
}
