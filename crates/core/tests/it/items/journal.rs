//! A journal written by hand, and what people see of it in short words.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use windlass_core::events::*;
use windlass_core::items::{Change, Item, ItemStatus, ItemStep, SessionChange, WaitUpdate, change};
use windlass_core::message::{ContentPart, Message, MessageRole};
use windlass_core::tools::{SideEffectClass, ToolCall, ToolShape};
use windlass_core::typed_id::{EventId, ExecId, ItemId, MessageId, SessionId, TurnId};

pub(super) const TURN: TurnId = TurnId::from_seed(1);
pub(super) const INPUT: MessageId = MessageId::from_seed(2);
pub(super) const MODEL: ExecId = ExecId::from_seed(3);
pub(super) const ANSWER: MessageId = MessageId::from_seed(4);
pub(super) const CALL: ExecId = ExecId::from_seed(5);
pub(super) const STEER: MessageId = MessageId::from_seed(6);
pub(super) const COMPACTION: ExecId = ExecId::from_seed(7);

pub(super) fn item(id: impl AsRef<uuid::Uuid>) -> ItemId {
    ItemId::from_uuid(*id.as_ref())
}

/// The time of the event with a number.
pub(super) fn at(seq: u64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::from_secs(seq)
}

#[derive(Default)]
pub(super) struct Journal {
    pub(super) events: Vec<Arc<Event>>,
}

impl Journal {
    /// The beginning of a turn: it starts, hears its input and calls the model.
    pub(super) fn begun() -> Self {
        let mut journal = Self::default();
        let outline = TurnOutline {
            input_summary: "hello".to_owned(),
            model: Some("model".to_owned()),
            created_at: Some(at(0)),
            ..TurnOutline::default()
        };
        journal.turn(TurnStartedData {
            turn_id: TURN,
            input_message_id: INPUT,
            input_content: None,
            config: None,
            deadline: None,
            outline: Some(outline),
            discovered: None,
        });
        journal.input(INPUT, "hello");
        journal.turn(SessionActivatedData {
            input_message_id: INPUT,
            input_text: Some("hello".to_owned()),
        });
        journal.reason(1);
        journal
    }

    pub(super) fn add(&mut self, context: EventContext, data: impl Into<EventData>) {
        let data = data.into();
        let seq = self.events.len() as u64 + 1;
        self.events.push(Arc::new(Event {
            id: EventId::from_seed(u128::from(seq)),
            event_type: data.event_type().to_owned(),
            ts: at(seq),
            session_id: SessionId::from_seed(9),
            context,
            data,
            metadata: None,
            tags: None,
            sequence: Some(seq),
        }));
    }

    pub(super) fn turn(&mut self, data: impl Into<EventData>) {
        self.add(EventContext::of_turn(TURN), data);
    }

    pub(super) fn step(&mut self, exec_id: ExecId, data: impl Into<EventData>) {
        self.add(EventContext::of_step(TURN, exec_id), data);
    }

    pub(super) fn input(&mut self, id: MessageId, text: &str) {
        let context = EventContext {
            input_message_id: Some(INPUT),
            ..EventContext::of_turn(TURN)
        };
        let message = message(id, MessageRole::User, text);
        self.add(context, InputMessageData { message });
    }

    pub(super) fn reason(&mut self, iteration: usize) {
        self.step(MODEL, ReasonStartedData { iteration });
    }

    pub(super) fn text_starts(&mut self) {
        let message_id = ANSWER;
        self.step(MODEL, OutputMessageStartedData { message_id });
    }

    pub(super) fn text(&mut self, delta: &str) {
        let data = OutputMessageDeltaData {
            turn_id: TURN,
            delta: delta.to_owned(),
            message_id: Some(ANSWER),
        };
        self.step(MODEL, data);
    }

    pub(super) fn tool_starts(&mut self, shape: Option<ToolShape>) {
        let data = ToolStartedData {
            tool_call: call(),
            side_effects: SideEffectClass::Pure,
            display_name: None,
            narration: None,
            shape,
            external: None,
            origin: None,
        };
        self.step(CALL, data);
    }

    pub(super) fn descriptions(&self) -> Vec<String> {
        let changes = self.events.iter().map(|event| change(event));
        changes
            .map(|change| change.map_or_else(|| "-".to_owned(), |change| describe(&change)))
            .collect()
    }
}

pub(super) fn message(id: MessageId, role: MessageRole, text: &str) -> Message {
    let content = match text {
        "" => Vec::new(),
        text => vec![ContentPart::text(text)],
    };
    Message::from_parts(id, role, content, at(0))
}

pub(super) fn call() -> ToolCall {
    ToolCall {
        id: "c1".to_owned(),
        name: "look".to_owned(),
        arguments: json!({ "at": 1 }),
    }
}

pub(super) fn answered(text: &str) -> OutputMessageCompletedData {
    OutputMessageCompletedData {
        message: message(ANSWER, MessageRole::Agent, text),
        metadata: None,
        usage: None,
        error_code: None,
        error_fields: None,
        started_at: None,
        interrupted: None,
    }
}

pub(super) fn tool_done(status: ToolStatus) -> ToolCompletedData {
    let is_good = status == ToolStatus::Success;
    let message = Message::tool_result(
        "c1",
        is_good.then(|| json!("seen")),
        (!is_good).then(|| "blind".to_owned()),
    );
    ToolCompletedData {
        tool_call_id: "c1".to_owned(),
        tool_name: "look".to_owned(),
        success: is_good,
        status,
        result: Some(message.content),
        error: (!is_good).then(|| "blind".to_owned()),
        duration_ms: Some(7),
        capability_id: None,
        display_name: None,
        started_at: Some(at(5)),
        arguments: Some(json!({ "at": 1 })),
        shape: None,
        external: None,
        private: None,
        approval: None,
        origin: None,
        refused: None,
    }
}

pub(super) fn completed() -> TurnCompletedData {
    TurnCompletedData {
        turn_id: TURN,
        iterations: 1,
        duration_ms: Some(9),
        usage: None,
        input_content: None,
        final_message_id: Some(ANSWER),
        final_answer_preview: None,
        time_to_first_token_ms: None,
        tool_call_count: Some(0),
        llm_call_count: Some(1),
        status: None,
        outline: None,
    }
}

pub(super) fn cancelled(turn_id: TurnId) -> TurnCancelledData {
    TurnCancelledData {
        turn_id,
        reason: Some("enough".to_owned()),
        usage: None,
        iterations: Some(1),
        duration_ms: Some(9),
        tool_call_count: None,
        llm_call_count: None,
        final_message_id: None,
        outline: None,
    }
}

/// A change in the words of the table in the design.
fn describe(change: &Change<'_>) -> String {
    match change {
        Change::Session(SessionChange::Started(_)) => "session started".to_owned(),
        Change::Session(SessionChange::Updated(_)) => "session updated".to_owned(),
        Change::Session(SessionChange::Forked(_)) => "session forked".to_owned(),
        Change::TurnStarted(turn) => format!("turn started: {}", turn.outline.input_summary),
        Change::TurnWorks { .. } => "turn works".to_owned(),
        Change::InputQueued(data) => format!("input queued: {}", data.turn_id),
        Change::InputEdited(data) => format!("input edited: {}", data.turn_id),
        Change::InputRemoved { turn_id, .. } => format!("input removed: {turn_id}"),
        Change::TurnResumed { count, .. } => format!("turn resumed: {count}"),
        Change::TurnSteered { input, .. } => format!("turn steered: {}", input.unwrap_or("?")),
        Change::OutputRejected { errors, .. } => format!("output rejected: {}", errors.join("; ")),
        Change::InterruptRequested { reason, .. } => {
            format!("interrupt requested: {}", reason.unwrap_or("?"))
        }
        Change::TurnEnded(turn) => format!("turn ended: {:?}", turn.status),
        Change::Item(ItemStep::Started(item)) => format!("started {}", line(item)),
        Change::Item(ItemStep::Delta { kind, delta, .. }) => format!("delta {kind:?}: {delta}"),
        Change::Item(ItemStep::Ended(item)) => format!("ended {}", line(item)),
        Change::Wait(wait) => {
            assert_eq!(wait.item_id, item(CALL));
            match wait.wait {
                WaitUpdate::CallRequested(_) => "call requested".to_owned(),
                WaitUpdate::CallResolved(data) => format!("call resolved: {}", data.success),
                WaitUpdate::CallTimedOut(data) => format!("call timed out: {:?}", data.timeout_ms),
                WaitUpdate::CallCanceled(data) => format!("call canceled: {}", data.reason),
                WaitUpdate::ApprovalRequired(_) => "approval required".to_owned(),
                WaitUpdate::ApprovalDecided(data) => {
                    format!("approval decided: {:?}", data.decision)
                }
                WaitUpdate::ApprovalTimedOut(_) => "approval timed out".to_owned(),
                WaitUpdate::InputRequired(data) => format!("input required: {}", data.prompt),
                WaitUpdate::InputAnswered { request_id } => format!("input answered: {request_id}"),
                WaitUpdate::InputCanceled(data) => format!("input canceled: {}", data.reason),
            }
        }
    }
}

/// An item in one line: what, how far, and its summary.
pub(super) fn line(item: &Item<'_>) -> String {
    let status = match item.status {
        ItemStatus::InProgress => "",
        ItemStatus::Completed => " (completed)",
        ItemStatus::Failed => " (failed)",
        ItemStatus::Interrupted => " (interrupted)",
    };
    format!("{:?}{status}: {}", item.kind, item.summary())
}
