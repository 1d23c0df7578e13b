//! Shared helpers: a scripted model, closure tools, a manual clock and a counting journal.

mod bundle;
mod clock;
mod fixture;
mod journal;
mod model;
mod stores;

use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::message::{Message, MessageRole};
use windlass_core::tools::ToolCall;
use windlass_runtime::EventStream;

pub(crate) use bundle::{Bundle, FnTool, Trap, directory, tool};
pub(crate) use clock::TestClock;
pub(crate) use fixture::{Fixture, Setup, scripted_model};
pub(crate) use journal::SpyJournal;
pub(crate) use model::{AnswerPiece, ScriptedCall, ScriptedModel};
pub(crate) use stores::each_store;

/// Awaits a future with a generous timeout, which only turns a hang into a failure.
#[expect(
    clippy::disallowed_methods,
    reason = "a hang of the runtime must end the test, whatever the test's own clock says"
)]
#[track_caller]
pub(crate) fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(Duration::from_secs(20), future).await {
            Ok(output) => output,
            Err(_) => panic!("nothing happened at {place}"),
        }
    }
}

/// A gate that a test opens; it counts the tasks that have reached it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    arrived: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn shut() -> Self {
        Self {
            arrived: watch::Sender::new(0),
            open: watch::Sender::new(false),
        }
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }

    /// Waits until this many tasks have reached the gate.
    #[track_caller]
    pub(crate) fn reached(&self, count: usize) -> impl Future<Output = ()> {
        let mut arrived = self.arrived.subscribe();
        soon(async move {
            let _ = arrived.wait_for(|arrived| *arrived >= count).await;
        })
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

/// Waits for an event of a type and returns it.
#[track_caller]
pub(crate) fn event<'a>(
    stream: &'a mut EventStream,
    event_type: &'a str,
) -> impl Future<Output = std::sync::Arc<Event>> + 'a {
    soon(async move {
        loop {
            let event = stream.next().await.expect("the session is there");
            if event.event_type == event_type {
                return event;
            }
        }
    })
}

/// Roles of the messages, in order.
pub(crate) fn roles(messages: &[Message]) -> Vec<&'static str> {
    messages
        .iter()
        .map(|message| message.role.as_str())
        .collect()
}

/// The types of events, in order.
pub(crate) fn types<E: std::borrow::Borrow<Event>>(events: &[E]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event.borrow().event_type.as_str())
        .collect()
}

/// Every call must be followed by exactly its results, in order, before any other message.
pub(crate) fn assert_well_formed(messages: &[Message]) {
    let mut open: std::collections::VecDeque<String> = std::collections::VecDeque::new();
    for message in messages {
        match message.tool_call_id() {
            Some(id) => assert_eq!(
                open.pop_front().as_deref(),
                Some(id),
                "{:?}",
                roles(messages)
            ),
            None => assert!(
                open.is_empty(),
                "{open:?} unanswered: {:?}",
                roles(messages)
            ),
        }
        if message.role == MessageRole::Agent {
            open.extend(message.tool_calls().iter().map(|call| call.id.clone()));
        }
    }
    assert!(
        open.is_empty(),
        "{open:?} unanswered: {:?}",
        roles(messages)
    );
}

/// Invariants of the journal of a session without an open turn.
pub(crate) fn assert_sound(events: &[std::sync::Arc<Event>]) {
    use windlass_core::events::EventData as Data;
    let mut open_turn = None;
    let mut open_tools = Vec::new();
    for (place, event) in events.iter().enumerate() {
        assert_eq!(
            event.sequence,
            Some(place as u64 + 1),
            "a gap before {event:?}"
        );
        match &event.data {
            Data::TurnStarted(data) => assert_eq!(open_turn.replace(data.turn_id), None),
            Data::ToolStarted(_) => open_tools.push(event.context.exec_id),
            Data::ToolCompleted(_) => open_tools.retain(|id| *id != event.context.exec_id),
            // An input that waited can end while another turn runs; only the end of that one closes anything.
            data if data.ends_turn() && event.context.turn_id == open_turn => {
                open_turn = None;
                let around = types(&events[place.saturating_sub(20)..events.len().min(place + 2)]);
                assert!(open_tools.is_empty(), "a tool has no end: {around:?}");
                assert_eq!(around.last(), Some(&"session.idled"), "{around:?}");
            }
            _ => {}
        }
    }
    let newest = types(&events[events.len().saturating_sub(20)..]);
    assert_eq!(open_turn, None, "a turn has no end: {newest:?}");
}
