//! Shared test support: a daemon on a loopback port, a small client, and a model that answers by keyword.

mod daemon;
mod home;
mod model;
mod query_log;
mod tap;
mod tools;

use std::time::Duration;

use serde_json::Value;

pub(crate) use daemon::{Setup, TOKEN, TestDaemon, other_model};
pub(crate) use home::MultiTokenDaemon;
pub(crate) use model::FakeModel;
pub(crate) use query_log::QueryLog;
pub(crate) use tap::Tap;
pub(crate) use windlass_testkit::{
    AsyncClient as Client, FrameStream as Stream, HttpReply as Reply, StreamFrame as Frame, soon,
};

/// Polls a path until the response matches. Background work has no event stream of its own.
pub(crate) async fn until(client: &Client, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let seen = client.get(path).await.expect(200);
        if is_so(&seen) {
            return seen;
        }
        assert!(tokio::time::Instant::now() < end, "it stays {seen:#}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the text of a JSON string.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

/// Checks that each numbered event links to the previous one, and that every started turn and item ends.
pub(crate) fn assert_sound(frames: &[Frame], cursor: u64) {
    let mut previous = cursor;
    let mut open_items = std::collections::BTreeSet::new();
    let mut open_waits = std::collections::BTreeSet::new();
    let mut open_turn: Option<Value> = None;
    for frame in frames {
        let data = &frame.data;
        assert_eq!(data["seq"].as_u64(), frame.id, "{data}");
        assert_eq!(data["event"], frame.event);
        assert_eq!(data["kind"], frame.event);
        assert_eq!(data["previous_seq"].as_u64(), Some(previous), "{data}");
        assert!(frame.id > Some(previous), "{data}");
        previous = frame.id.unwrap_or_default();
        let item = data["item_id"].as_str().map(str::to_owned);
        match frame.event.as_str() {
            "turn.started" => assert_eq!(open_turn.replace(data["turn_id"].clone()), None),
            "turn.completed" => {
                assert!(open_items.is_empty(), "{open_items:?}");
                assert!(open_waits.is_empty(), "{open_waits:?}");
                assert_eq!(open_turn.take(), Some(data["turn_id"].clone()));
            }
            "item.started" => assert!(open_items.insert(item), "{data}"),
            "item.completed" | "item.failed" | "item.interrupted" => {
                open_items.remove(&item);
            }
            "approval.required" | "tool_call.requested" | "user_input.required" => {
                assert!(
                    open_items.contains(&item),
                    "an item comes before its wait: {data}"
                );
                assert!(open_waits.insert(item), "{data}");
            }
            "approval.decided"
            | "tool_call.resolved"
            | "tool_call.timeout"
            | "tool_call.canceled"
            | "user_input.answered"
            | "user_input.canceled" => {
                assert!(open_waits.remove(&item), "{data}");
            }
            _ => {}
        }
    }
}
