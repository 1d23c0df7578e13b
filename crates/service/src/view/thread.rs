//! Events about a thread itself. They contain its record.

use serde_json::{Map, Value};
use windlass_core::events::{Event, EventData, SessionUpdatedData};
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
                changes: changes(&thread, data),
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

fn changes(thread: &Thread, data: &SessionUpdatedData) -> Value {
    let fields = fields(thread).unwrap_or_default();
    let changed = data.changed_fields.iter().flat_map(|changed| &changed.0);
    changed
        .map(|name| (name.clone(), fields.get(name).cloned().unwrap_or_default()))
        .collect()
}

/// The fields of a thread on the wire by name.
pub(crate) fn fields(thread: &Thread) -> serde_json::Result<Map<String, Value>> {
    serde_json::to_value(thread).and_then(serde_json::from_value)
}
