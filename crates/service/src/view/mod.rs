//! Conversion of one library event to at most one wire event with the same number.
//!
//! The functions here are pure: each sees a single event, so that a reader can start anywhere. Events without a wire form give `None`; the sender
//! links visible events by `previous_seq`.

mod item;
mod queue;
mod shared;
mod thread;
mod turn;
mod wait;

use windlass_core::events::Event;
use windlass_core::items::{Change, Item, ItemKind, ItemStatus, ItemStep, change};
use windlass_core::typed_id::{ItemId, TurnId};
use windlass_protocol::events::{
    DeltaKind, ItemDeltaPayload, ItemPayload, OutputRejectedPayload, TurnCompletedPayload,
    TurnInterruptRequestedPayload, TurnLifecyclePayload, TurnStartedPayload, TurnSteeredPayload,
};
use windlass_protocol::{EventPayload, RuntimeEventEnvelope, Status};

use crate::ids;

pub(crate) use item::item;
pub(crate) use queue::{queued_input, queued_turn};
pub(crate) use shared::{use_fork_ids, use_fork_item_ids};
pub(crate) use thread::fields;
pub(crate) use turn::{has_output, status, turn, unapproved, usage, wait_kind, waiting_for};
pub(crate) use wait::{pending_approval, pending_call, pending_input};

/// Numbered events that a stream contains only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Include {
    /// Output of running tools.
    pub tool_output: bool,
    /// Events about queued inputs.
    pub queue: bool,
}

/// The turn, the item and the payload of a wire event.
type EventParts = (Option<TurnId>, Option<ItemId>, EventPayload);

/// Converts one event, not yet linked to the previous one.
#[must_use]
pub fn view(event: &Event, include: Include) -> Option<RuntimeEventEnvelope> {
    let (turn_id, item_id, payload) = event_parts(event, include)?;
    Some(RuntimeEventEnvelope {
        seq: event.seq(),
        thread_id: ids::thread(event.session_id),
        turn_id: turn_id.map(|id| id.to_string()),
        item_id: item_id.map(|id| id.to_string()),
        timestamp: ids::time(event.ts),
        payload,
        previous_seq: None,
        received: None,
    })
}

fn event_parts(event: &Event, include: Include) -> Option<EventParts> {
    let thread_id = || ids::thread(event.session_id);
    Some(match change(event)? {
        Change::Session(session) => (None, None, thread::session(event, session)?),
        Change::InputQueued(_) | Change::InputEdited(_) | Change::InputRemoved { .. }
            if !include.queue =>
        {
            return None;
        }
        Change::InputQueued(data) => {
            let payload = queue::queued(event.session_id, data);
            (Some(data.turn_id), None, payload)
        }
        Change::InputEdited(data) => {
            let payload = queue::edited(event.session_id, data);
            (Some(data.turn_id), None, payload)
        }
        Change::InputRemoved { turn_id, reason } => {
            let payload = queue::removed(event.session_id, turn_id, reason);
            (Some(turn_id), None, payload)
        }
        Change::TurnStarted(view) => {
            let payload = TurnStartedPayload {
                manual_compaction: view.outline.compaction.filter(|is_manual| *is_manual),
                turn: turn(&view),
            };
            let payload = EventPayload::TurnStarted(Box::new(payload));
            (Some(view.id), None, payload)
        }
        Change::TurnWorks { turn_id } => (Some(turn_id), None, lifecycle(None)),
        Change::TurnResumed { turn_id, count } => (Some(turn_id), None, lifecycle(Some(count))),
        Change::TurnSteered {
            turn_id,
            item_id,
            input,
        } => {
            let payload = TurnSteeredPayload {
                input: input.unwrap_or_default().to_owned(),
                thread_id: thread_id(),
                turn_id: turn_id.to_string(),
            };
            let payload = EventPayload::TurnSteered(Box::new(payload));
            (Some(turn_id), Some(item_id), payload)
        }
        Change::OutputRejected {
            turn_id,
            item_id,
            errors,
        } => {
            let payload = OutputRejectedPayload {
                errors: errors.to_vec(),
                thread_id: thread_id(),
                turn_id: turn_id.to_string(),
            };
            let payload = EventPayload::OutputRejected(Box::new(payload));
            (Some(turn_id), Some(item_id), payload)
        }
        Change::InterruptRequested { turn_id, .. } => {
            let payload = TurnInterruptRequestedPayload {
                thread_id: thread_id(),
                turn_id: turn_id.to_string(),
            };
            let payload = EventPayload::TurnInterruptRequested(Box::new(payload));
            (Some(turn_id), None, payload)
        }
        Change::TurnEnded(view) => {
            let payload = TurnCompletedPayload {
                recovered: turn::is_end_of_process(&view).then_some(true),
                turn: turn(&view),
            };
            let payload = EventPayload::TurnCompleted(Box::new(payload));
            (Some(view.id), None, payload)
        }
        Change::Item(step) => item_event(step, include)?,
        Change::Wait(change) => {
            let payload = wait::wait(event, &change)?;
            (Some(change.turn_id), Some(change.item_id), payload)
        }
    })
}

fn lifecycle(resumed_count: Option<u32>) -> EventPayload {
    EventPayload::TurnLifecycle(Box::new(TurnLifecyclePayload {
        resumed: resumed_count.map(|_| true),
        resumed_count,
        status: Status::InProgress,
    }))
}

fn item_event(step: ItemStep<'_>, include: Include) -> Option<EventParts> {
    let item_parts = |item: &Item<'_>, payload: fn(Box<ItemPayload>) -> EventPayload| {
        let payload = payload(Box::new(item::payload(item)));
        (Some(item.turn_id), Some(item.id), payload)
    };
    Some(match step {
        ItemStep::Started(started) => item_parts(&started, EventPayload::ItemStarted),
        ItemStep::Ended(ended) => {
            let payload = match ended.status {
                ItemStatus::Failed => EventPayload::ItemFailed,
                ItemStatus::Interrupted => EventPayload::ItemInterrupted,
                ItemStatus::Completed | ItemStatus::InProgress => EventPayload::ItemCompleted,
            };
            item_parts(&ended, payload)
        }
        ItemStep::Delta {
            turn_id,
            item_id,
            kind,
            delta,
        } => {
            let kind = match kind {
                ItemKind::AgentMessage => DeltaKind::AgentMessage,
                ItemKind::AgentReasoning => DeltaKind::AgentReasoning,
                _ if include.tool_output => DeltaKind::ToolCall,
                _ => return None,
            };
            let delta = delta.to_owned();
            let payload = EventPayload::ItemDelta(Box::new(ItemDeltaPayload { delta, kind }));
            (Some(turn_id), Some(item_id), payload)
        }
    })
}
