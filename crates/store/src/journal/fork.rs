//! Creation of a stream that begins with the records of another one, up to a boundary between two turns.

use std::sync::Arc;

use windlass_core::derived_id::derive;
use windlass_core::events::{Event, EventContext, EventData, TurnCancelledData};
use windlass_core::typed_id::{EventId, TurnId};

use super::{JournalError, StreamKey};

const CANCELLED: &str = "the session was forked before its turn began";

pub const HAS_RECORDS: &str = "the new stream already has records";
pub const TOO_SHORT: &str = "it ends before";
pub const BUSY: &str = "a turn is open there";
pub const PRUNED: &str = "its record there was removed by retention";

pub fn refused(stream: &StreamKey, seq: u64, reason: &'static str) -> JournalError {
    JournalError::NotForkable {
        stream: stream.to_string(),
        seq,
        reason,
    }
}

/// The open turn and the waiting inputs at a record of a stream.
#[derive(Debug, Default)]
pub struct OpenInputs {
    running: Option<TurnId>,
    queued: Vec<TurnId>,
}

impl OpenInputs {
    pub fn apply(&mut self, data: &EventData) {
        match data {
            EventData::InputQueued(queued) => self.queued.push(queued.turn_id),
            EventData::TurnStarted(started) => {
                self.queued.retain(|queued| *queued != started.turn_id);
                self.running = Some(started.turn_id);
            }
            EventData::TurnCompleted(end) => self.end(end.turn_id),
            EventData::TurnFailed(end) => self.end(end.turn_id),
            EventData::TurnCancelled(end) => self.end(end.turn_id),
            _ => {}
        }
    }

    fn end(&mut self, turn_id: TurnId) {
        self.queued.retain(|queued| *queued != turn_id);
        self.running.take_if(|running| *running == turn_id);
    }

    /// Returns whether a turn is open.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the running turn, and then the waiting ones.
    pub fn turns(self) -> Vec<TurnId> {
        self.running.into_iter().chain(self.queued).collect()
    }
}

/// Returns the first own records of a fork: its origin, and the cancellation of the inputs that wait in the parent. Those inputs remain the parent's.
pub fn own_records(forked: &Event, at_seq: u64, waiting: OpenInputs) -> Vec<Arc<Event>> {
    let sequence = Some(at_seq + 1);
    let first = Event {
        sequence,
        ..forked.clone()
    };
    let cancelled = (at_seq + 2..).zip(waiting.turns()).map(|(seq, turn_id)| {
        let data = TurnCancelledData {
            turn_id,
            reason: Some(CANCELLED.to_owned()),
            usage: None,
            iterations: None,
            duration_ms: None,
            tool_call_count: None,
            llm_call_count: None,
            final_message_id: None,
            outline: None,
        };
        derived(forked, seq, EventContext::of_turn(turn_id), data.into())
    });
    std::iter::once(first)
        .chain(cancelled)
        .map(Arc::new)
        .collect()
}

/// Builds a record that accompanies `forked`, with an ID derived from that of `forked`.
fn derived(forked: &Event, seq: u64, context: EventContext, data: EventData) -> Event {
    Event {
        id: EventId::from_uuid(derive(forked.id.uuid(), seq)),
        event_type: data.event_type().to_owned(),
        context,
        data,
        sequence: Some(seq),
        ..forked.clone()
    }
}
