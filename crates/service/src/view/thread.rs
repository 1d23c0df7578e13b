//! Events about a thread itself. They contain its record.

use serde_json::json;
use windlass_core::events::{Event, EventData};
use windlass_core::items::SessionChange;
use windlass_protocol::events::{ThreadForkedPayload, ThreadStartedPayload, ThreadUpdatedPayload};
use windlass_protocol::{EventPayload, Thread};

use crate::ids;
use crate::operations::threads::thread_record;

/// Returns the thread whose record an event contains.
fn thread_in(event: &Event) -> Option<Thread> {
    let record = match &event.data {
        EventData::SessionStarted(data) => data.record.as_ref(),
        EventData::SessionUpdated(data) => data.record.as_ref(),
        EventData::SessionForked(data) => data.record.as_ref(),
        _ => None,
    };
    record.map(|record| thread_record::thread(event.session_id, record))
}

pub(super) fn session(event: &Event, change: SessionChange<'_>) -> Option<EventPayload> {
    let thread = thread_in(event)?;
    Some(match change {
        SessionChange::Started(_) => {
            EventPayload::ThreadStarted(Box::new(ThreadStartedPayload { thread }))
        }
        SessionChange::Updated(data) => {
            EventPayload::ThreadUpdated(Box::new(ThreadUpdatedPayload {
                changes: data.changes.clone().unwrap_or_else(|| json!({})),
                thread,
            }))
        }
        SessionChange::Forked(data) => EventPayload::ThreadForked(Box::new(ThreadForkedPayload {
            backtrack_depth_from_tail: data.depth.map(u64::from),
            dropped_turn_id: data.dropped_turn_id.map(|id| id.to_string()),
            source_seq: data.parent_sequence,
            source_thread_id: ids::thread(data.parent_session_id),
            thread,
        })),
    })
}
