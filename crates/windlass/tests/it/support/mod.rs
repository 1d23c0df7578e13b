//! Shared fixtures of the daemon's tests: a process that can be killed, a client, and a scripted model.

mod model;
mod relay;
mod sandbox;
mod signal;
mod terminal;
mod user;

pub(crate) use model::{ModelRequests, ScriptedModel};
pub(crate) use relay::Relay;
pub(crate) use sandbox::Sandbox;
pub(crate) use signal::Signal;
pub(crate) use terminal::{Terminal, open as open_terminal};
pub(crate) use user::{OTHER_USER, given_to_other_user, is_root};
pub(crate) use windlass_testkit::{Client, Daemon, EventReader, Frame, Home, TOKEN};

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the text of a JSON string.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

/// Checks that the events have no gaps, and that everything that starts ends exactly once.
#[track_caller]
pub(crate) fn assert_sound(frames: &[Frame], cursor: u64) {
    let mut previous = cursor;
    let (mut open_items, mut ended_items) = (BTreeSet::new(), BTreeSet::new());
    let mut open_waits = BTreeSet::new();
    let mut open_turn: Option<String> = None;
    for Frame { seq, event, data } in frames {
        assert_eq!(data["previous_seq"].as_u64(), Some(previous), "{data}");
        assert!(*seq > previous, "{data}");
        previous = *seq;
        let item = data["item_id"].as_str().map(str::to_owned);
        match event.as_str() {
            "turn.started" => assert_eq!(open_turn.replace(text(&data["turn_id"])), None),
            "turn.completed" => {
                assert!(open_items.is_empty(), "{open_items:?}");
                assert!(open_waits.is_empty(), "{open_waits:?}");
                assert_eq!(open_turn.take(), Some(text(&data["turn_id"])));
            }
            "item.started" => assert!(open_items.insert(item), "{data}"),
            "item.completed" | "item.failed" | "item.interrupted" => {
                open_items.remove(&item);
                assert!(ended_items.insert(item), "an item ends once: {data}");
            }
            "approval.required" | "tool_call.requested" | "user_input.required" => {
                assert!(open_items.contains(&item), "{data}");
                assert!(open_waits.insert(item), "{data}");
            }
            "approval.decided"
            | "tool_call.resolved"
            | "tool_call.timeout"
            | "tool_call.canceled"
            | "user_input.answered"
            | "user_input.canceled" => assert!(open_waits.remove(&item), "{data}"),
            _ => {}
        }
    }
}
