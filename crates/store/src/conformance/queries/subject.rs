//! A thread under test, and helpers that write its events.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use windlass_core::events::{Event, EventContext, EventData, EventRequest};
use windlass_core::message::Message;
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::{EventId, ExecId, MessageId, SessionId, TurnId};

use super::QueryStores;
use crate::conformance::check::Violation;
use crate::journal::{Batch, Claim, StreamKey};
use crate::queries::ThreadRow;

pub(super) type QueryStoresRef = Arc<QueryStores>;

/// Returns a moment, counted in milliseconds.
pub(super) fn at(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + millis).unwrap_or_default()
}

/// One thread and its claim. Each event is a separate commit, a millisecond after its predecessor.
pub(super) struct ThreadFixture {
    pub(super) store: QueryStoresRef,
    pub(super) key: StreamKey,
    claim: Claim,
    pub(super) head: u64,
    pub(super) clock: i64,
}

/// Returns the record of a thread that an agent owns.
pub(super) fn of_agent(owner: &str, archived: bool) -> ThreadRecord {
    ThreadRecord {
        owner: Some(owner.to_owned()),
        archived,
        ..ThreadRecord::default()
    }
}

impl ThreadFixture {
    pub(super) async fn new(store: &QueryStoresRef, key: &str) -> Result<Self, Violation> {
        let key = StreamKey::new(key);
        let claim = store.journal.claim(&key).await?;
        Ok(Self {
            store: Arc::clone(store),
            key,
            head: claim.head,
            claim,
            clock: 0,
        })
    }

    /// Appends an event of a type.
    pub(super) async fn say(
        &mut self,
        context: EventContext,
        event_type: &str,
        payload: Value,
    ) -> Result<u64, Violation> {
        let data = EventData::from_type(event_type, payload)
            .map_err(|error| Violation(format!("{event_type}: {error}")))?;
        let request = EventRequest::new(SessionId::from_seed(7), context, data);
        self.head += 1;
        self.clock += 1;
        let event = Event {
            ts: at(self.clock),
            ..request.into_event(EventId::new(), Some(self.head))
        };
        let batch = Batch {
            first_seq: self.head,
            records: vec![Arc::new(event)],
            ..Batch::default()
        };
        self.store.journal.append(&self.claim, batch).await?;
        Ok(self.head)
    }

    /// Appends an event of no turn.
    pub(super) async fn note(&mut self) -> Result<u64, Violation> {
        let payload = json!({"name": "conformance", "payload": 1});
        self.say(EventContext::default(), "custom", payload).await
    }

    /// Creates the thread with its host record.
    pub(super) async fn make(&mut self, record: ThreadRecord) -> Result<u64, Violation> {
        let payload = json!({ "record": record });
        self.say(EventContext::default(), "session.started", payload)
            .await
    }

    /// Begins a turn with an outline.
    pub(super) async fn start_with(&mut self, outline: Value) -> Result<TurnId, Violation> {
        let turn = TurnId::new();
        let mut outline = outline;
        if outline.get("input_summary").is_none() {
            outline["input_summary"] = json!("");
        }
        let payload = json!({
            "turn_id": turn, "input_message_id": MessageId::new(), "outline": outline,
        });
        self.say(EventContext::of_turn(turn), "turn.started", payload)
            .await?;
        Ok(turn)
    }

    pub(super) async fn start(&mut self) -> Result<TurnId, Violation> {
        self.start_with(json!({})).await
    }

    /// Ends a turn with its answer.
    pub(super) async fn end(&mut self, turn: TurnId) -> Result<u64, Violation> {
        let payload = json!({"turn_id": turn, "iterations": 1});
        self.say(EventContext::of_turn(turn), "turn.completed", payload)
            .await
    }

    /// Ends a turn with its usage, and with its outline if that is known.
    pub(super) async fn end_with(
        &mut self,
        turn: TurnId,
        outline: Option<Value>,
        usage: Value,
    ) -> Result<u64, Violation> {
        let mut fields = json!({"turn_id": turn, "iterations": 1, "usage": usage});
        if let Some(mut outline) = outline {
            outline["input_summary"] = json!("");
            fields["outline"] = outline;
        }
        self.say(EventContext::of_turn(turn), "turn.completed", fields)
            .await
    }

    /// Stops a turn.
    pub(super) async fn cancel(&mut self, turn: TurnId) -> Result<u64, Violation> {
        let payload = json!({"turn_id": turn, "iterations": 1});
        self.say(EventContext::of_turn(turn), "turn.cancelled", payload)
            .await
    }

    /// Writes an answer of the agent.
    pub(super) async fn answer(&mut self, turn: TurnId, text: &str) -> Result<u64, Violation> {
        let context = EventContext::of_step(turn, ExecId::new());
        let payload = json!({"message": Message::assistant(text)});
        self.say(context, "output.message.completed", payload).await
    }

    /// Begins a call.
    pub(super) async fn call(&mut self, turn: TurnId) -> Result<ExecId, Violation> {
        let exec = ExecId::new();
        let payload = json!({
            "tool_call": {"id": "c", "name": "shell", "arguments": {"command": "ls"}},
            "side_effects": "at_most_once",
        });
        self.say(EventContext::of_step(turn, exec), "tool.started", payload)
            .await?;
        Ok(exec)
    }

    /// Makes a call wait for an approval.
    pub(super) async fn ask(&mut self, turn: TurnId, exec: ExecId) -> Result<u64, Violation> {
        let payload = json!({
            "tool_call": {"id": "c", "name": "shell", "arguments": {"command": "ls"}}, "digest": "d",
        });
        let context = EventContext::of_step(turn, exec);
        self.say(context, "approval.required", payload).await
    }

    /// Returns the thread.
    pub(super) async fn thread(&self) -> Result<ThreadRow, Violation> {
        let thread = self.store.queries.thread(&self.key).await?;
        thread.ok_or_else(|| Violation(format!("{} is no thread", self.key)))
    }
}
