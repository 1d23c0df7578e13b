//! From one event of the library to at most one event of the wire, with the same number.
//!
//! The functions here are pure: they know one event and nothing else, so that any reader can start anywhere. What
//! clients do not know gives `None`; whoever sends the events links what is shown by `previous_seq`.

mod item;
mod shared;
mod thread;
mod turn;
mod wait;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::events::Event;
use windlass_core::items::{Change, Item, ItemKind, ItemStatus, ItemStep, change};
use windlass_core::typed_id::{ItemId, TurnId};
use windlass_protocol::{EventName, RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION, RuntimeEventEnvelope};

use crate::ids;

pub(crate) use item::item;
pub(crate) use shared::rename;
pub(crate) use turn::{status, turn, unapproved, waiting_for};
pub(crate) use wait::{pending_approval, pending_call, pending_input};

/// Numbered events that a stream shows only when it is asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Include {
    /// Output of tools while they run.
    pub tool_output: bool,
}

/// What one event is on the wire.
struct Shown {
    name: EventName,
    turn_id: Option<TurnId>,
    item_id: Option<ItemId>,
    payload: Value,
}

/// Shows one event, not yet linked with the one before it.
#[must_use]
pub fn view(event: &Event, include: Include) -> Option<RuntimeEventEnvelope> {
    let Shown {
        name,
        turn_id,
        item_id,
        payload,
    } = shown(event, include)?;
    let timestamp = ids::time(event.ts);
    Some(RuntimeEventEnvelope {
        schema_version: RUNTIME_EVENT_ENVELOPE_SCHEMA_VERSION,
        seq: event.seq(),
        event: name.as_str().to_owned(),
        kind: name.as_str().to_owned(),
        thread_id: ids::thread(event.session_id),
        turn_id: turn_id.map(|id| id.to_string()),
        item_id: item_id.map(|id| id.to_string()),
        created_at: Some(timestamp.clone()),
        timestamp,
        payload,
        extra: BTreeMap::new(),
    })
}

fn shown(event: &Event, include: Include) -> Option<Shown> {
    let of_turn = |name, turn_id, payload| Shown {
        name,
        turn_id: Some(turn_id),
        item_id: None,
        payload,
    };
    let thread_id = || ids::thread(event.session_id);
    match change(event)? {
        Change::Session(session) => {
            let (name, payload) = thread::session(event, session)?;
            Some(Shown {
                name,
                turn_id: None,
                item_id: None,
                payload,
            })
        }
        Change::TurnStarted(view) => {
            let mut payload = json!({ "turn": turn(&view) });
            if view.outline.compaction == Some(true) {
                payload["manual_compaction"] = true.into();
            }
            Some(of_turn(EventName::TurnStarted, view.id, payload))
        }
        Change::TurnWorks { turn_id } => {
            let payload = json!({ "status": "in_progress" });
            Some(of_turn(EventName::TurnLifecycle, turn_id, payload))
        }
        Change::TurnResumed { turn_id, count } => {
            let payload =
                json!({ "status": "in_progress", "resumed": true, "resumed_count": count });
            Some(of_turn(EventName::TurnLifecycle, turn_id, payload))
        }
        Change::TurnSteered {
            turn_id,
            item_id,
            input,
        } => Some(Shown {
            item_id: Some(item_id),
            ..of_turn(
                EventName::TurnSteered,
                turn_id,
                json!({"thread_id": thread_id(), "turn_id": turn_id, "input": input.unwrap_or_default()}),
            )
        }),
        Change::InterruptRequested { turn_id, .. } => Some(of_turn(
            EventName::TurnInterruptRequested,
            turn_id,
            json!({"thread_id": thread_id(), "turn_id": turn_id}),
        )),
        Change::TurnEnded(view) => {
            let mut payload = json!({ "turn": turn(&view) });
            if turn::is_end_of_process(&view) {
                payload["recovered"] = true.into();
            }
            Some(of_turn(EventName::TurnCompleted, view.id, payload))
        }
        Change::Item(step) => of_item(step, include),
        Change::Wait(change) => {
            let (name, payload) = wait::wait(event, &change)?;
            Some(Shown {
                item_id: Some(change.item_id),
                ..of_turn(name, change.turn_id, payload)
            })
        }
    }
}

fn of_item(step: ItemStep<'_>, include: Include) -> Option<Shown> {
    let whole = |name, item: &Item<'_>| Shown {
        name,
        turn_id: Some(item.turn_id),
        item_id: Some(item.id),
        payload: item::payload(item),
    };
    match step {
        ItemStep::Started(started) => Some(whole(EventName::ItemStarted, &started)),
        ItemStep::Ended(ended) => {
            let name = match ended.status {
                ItemStatus::Failed => EventName::ItemFailed,
                ItemStatus::Interrupted => EventName::ItemInterrupted,
                ItemStatus::Completed | ItemStatus::InProgress => EventName::ItemCompleted,
            };
            Some(whole(name, &ended))
        }
        ItemStep::Delta {
            turn_id,
            item_id,
            kind,
            delta,
        } => {
            let kind = match kind {
                ItemKind::AgentMessage => "agent_message",
                ItemKind::AgentReasoning => "agent_reasoning",
                _ if include.tool_output => "tool_call",
                _ => return None,
            };
            Some(Shown {
                name: EventName::ItemDelta,
                turn_id: Some(turn_id),
                item_id: Some(item_id),
                payload: json!({ "delta": delta, "kind": kind }),
            })
        }
    }
}
