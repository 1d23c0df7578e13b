//! The effect of one event on an item.

use super::item::{Item, ItemBody, ItemKind, ItemStatus, ToolItem};
use crate::derived_id::message_of_step;
use crate::events::{
    BackendNoticeKind, Event, EventData, InputMessageData, OutputMessageCompletedData,
    ToolCompletedData, ToolOrigin, ToolStartedData, ToolStatus,
};
use crate::message::ContentPart;
use crate::typed_id::{ItemId, MessageId, TurnId};

/// The effect of one event on an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ItemStep<'a> {
    Started(Item<'a>),
    /// More of its text is there.
    Delta {
        turn_id: TurnId,
        item_id: ItemId,
        kind: ItemKind,
        delta: &'a str,
    },
    /// It has ended; the status contains the outcome. Some items have no start.
    Ended(Item<'a>),
}

/// Returns the effect of an event on an item; `None` if there is none.
#[must_use]
pub fn item_step(event: &Event) -> Option<ItemStep<'_>> {
    let reader = Reader {
        event,
        turn_id: event.context.turn_id?,
    };
    match &event.data {
        EventData::InputMessage(data) => reader.input(data),
        EventData::SessionActivated(data) => {
            let text = data.input_text.as_deref();
            let body = text.map_or(ItemBody::Empty, ItemBody::Text);
            let id = of_message(data.input_message_id);
            // The input and this event have the same time.
            let item = Item {
                started_at: Some(event.ts),
                ..reader.item(id, ItemKind::UserMessage, body)
            };
            Some(ItemStep::Ended(reader.end(item, ItemStatus::Completed)))
        }
        EventData::OutputMessageStarted(data) => {
            let id = of_message(data.message_id);
            Some(reader.start(id, ItemKind::AgentMessage, ItemBody::Empty))
        }
        EventData::OutputMessageDelta(data) => {
            let of_step = || event.context.exec_id.map(message_of_step);
            let id = of_message(data.message_id.or_else(of_step)?);
            Some(reader.delta(id, ItemKind::AgentMessage, &data.delta))
        }
        EventData::OutputMessageCompleted(data) => reader.answer(data),
        EventData::ReasonThinkingStarted(_) => {
            Some(reader.start(reader.step()?, ItemKind::AgentReasoning, ItemBody::Empty))
        }
        EventData::ReasonThinkingDelta(data) => {
            Some(reader.delta(reader.step()?, ItemKind::AgentReasoning, &data.delta))
        }
        EventData::ReasonThinkingCompleted(data) => {
            let body = ItemBody::Text(&data.thinking);
            let item = Item {
                started_at: data.started_at.or(Some(event.ts)),
                ..reader.item(reader.step()?, ItemKind::AgentReasoning, body)
            };
            let status = match data.interrupted {
                Some(true) => ItemStatus::Interrupted,
                _ => ItemStatus::Completed,
            };
            Some(ItemStep::Ended(reader.end(item, status)))
        }
        EventData::ToolStarted(data) => {
            let kind = data.shape.unwrap_or_default().into();
            Some(reader.start(reader.step()?, kind, ItemBody::Tool(begun(data))))
        }
        EventData::ToolOutputDelta(data) => {
            Some(reader.delta(reader.step()?, ItemKind::ToolCall, &data.delta))
        }
        EventData::ToolCompleted(data) => reader.tool_end(data),
        EventData::ContextCompacting(data) => {
            let body = ItemBody::Compaction {
                messages_before: data.message_count,
                messages_after: None,
                auto: data.auto,
            };
            Some(reader.start(reader.step()?, ItemKind::ContextCompaction, body))
        }
        EventData::ContextCompacted(data) => {
            let body = ItemBody::Compaction {
                messages_before: data.messages_before,
                messages_after: Some(data.messages_after),
                auto: data.auto,
            };
            let item = Item {
                started_at: data.started_at,
                ..reader.item(reader.step()?, ItemKind::ContextCompaction, body)
            };
            let status = match (&data.error, data.interrupted) {
                (Some(_), _) => ItemStatus::Failed,
                (None, Some(true)) => ItemStatus::Interrupted,
                (None, _) => ItemStatus::Completed,
            };
            Some(ItemStep::Ended(reader.end(item, status)))
        }
        EventData::ToolsDiscovered(data) if !data.failures.is_empty() => {
            Some(reader.remark(ItemBody::McpFailures(&data.failures)))
        }
        EventData::BackendNotice(data) if is_shown(data.kind) => {
            Some(reader.remark(ItemBody::Text(&data.message)))
        }
        EventData::BackendWaiting(data) => {
            Some(reader.remark(ItemBody::Wait { until: data.until }))
        }
        _ => None,
    }
}

/// Diagnostic output of an external agent is visible only in the journal.
fn is_shown(kind: BackendNoticeKind) -> bool {
    match kind {
        BackendNoticeKind::SessionLost
        | BackendNoticeKind::PromptRepeated
        | BackendNoticeKind::Retry
        | BackendNoticeKind::Limit
        | BackendNoticeKind::LimitNear
        | BackendNoticeKind::Warning => true,
        BackendNoticeKind::Raw | BackendNoticeKind::LineCut => false,
    }
}

pub(super) fn of_message(id: MessageId) -> ItemId {
    ItemId::from_uuid(id.uuid())
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    event: &'a Event,
    turn_id: TurnId,
}

impl<'a> Reader<'a> {
    fn step(self) -> Option<ItemId> {
        self.event
            .context
            .exec_id
            .map(|exec_id| ItemId::from_uuid(exec_id.uuid()))
    }

    fn item(self, id: ItemId, kind: ItemKind, body: ItemBody<'a>) -> Item<'a> {
        Item {
            id,
            turn_id: self.turn_id,
            kind,
            status: ItemStatus::InProgress,
            exec_id: self.event.context.exec_id,
            started_at: None,
            ended_at: None,
            error_code: None,
            body,
        }
    }

    fn start(self, id: ItemId, kind: ItemKind, body: ItemBody<'a>) -> ItemStep<'a> {
        ItemStep::Started(Item {
            started_at: Some(self.event.ts),
            ..self.item(id, kind, body)
        })
    }

    fn delta(self, item_id: ItemId, kind: ItemKind, delta: &'a str) -> ItemStep<'a> {
        ItemStep::Delta {
            turn_id: self.turn_id,
            item_id,
            kind,
            delta,
        }
    }

    fn end(self, item: Item<'a>, status: ItemStatus) -> Item<'a> {
        Item {
            status,
            ended_at: Some(self.event.ts),
            ..item
        }
    }

    /// A notice of the runtime is complete at once; its ID is that of its record.
    fn remark(self, body: ItemBody<'a>) -> ItemStep<'a> {
        let id = ItemId::from_uuid(self.event.id.uuid());
        let item = Item {
            started_at: Some(self.event.ts),
            ..self.item(id, ItemKind::Status, body)
        };
        ItemStep::Ended(self.end(item, ItemStatus::Completed))
    }

    /// The turn's own input starts here and ends when the turn makes its first model call. A steering message is complete at once.
    fn input(self, data: &'a InputMessageData) -> Option<ItemStep<'a>> {
        let (id, body) = (
            of_message(data.message.id),
            ItemBody::Parts(&data.message.content),
        );
        let started_by = self.event.context.input_message_id;
        if started_by.is_none_or(|input| input == data.message.id) {
            return Some(self.start(id, ItemKind::UserMessage, body));
        }
        let item = Item {
            started_at: Some(self.event.ts),
            ..self.item(id, ItemKind::UserMessage, body)
        };
        Some(ItemStep::Ended(self.end(item, ItemStatus::Completed)))
    }

    /// A message that only calls tools produces no item.
    fn answer(self, data: &'a OutputMessageCompletedData) -> Option<ItemStep<'a>> {
        let message = &data.message;
        let says_something = message
            .content
            .iter()
            .any(|part| !matches!(part, ContentPart::ToolCall(_)));
        if !says_something && data.started_at.is_none() {
            return None;
        }
        let status = match (data.interrupted, message.is_error()) {
            (Some(true), _) => ItemStatus::Interrupted,
            (_, true) => ItemStatus::Failed,
            (_, false) => ItemStatus::Completed,
        };
        // An interrupted message is the agent's own, even if the model does not see it again.
        let is_report = message.is_error_report() && status == ItemStatus::Failed;
        let kind = if is_report {
            ItemKind::Error
        } else {
            ItemKind::AgentMessage
        };
        let item = Item {
            started_at: data.started_at.or(Some(self.event.ts)),
            error_code: data.error_code.as_deref(),
            ..self.item(
                of_message(message.id),
                kind,
                ItemBody::Parts(&message.content),
            )
        };
        Some(ItemStep::Ended(self.end(item, status)))
    }

    /// A call that is cancelled before it began was never shown.
    fn tool_end(self, data: &'a ToolCompletedData) -> Option<ItemStep<'a>> {
        let status = match data.status {
            ToolStatus::Success => ItemStatus::Completed,
            ToolStatus::Error | ToolStatus::Timeout | ToolStatus::Unknown => ItemStatus::Failed,
            ToolStatus::Cancelled if data.started_at.is_none() => return None,
            ToolStatus::Cancelled => ItemStatus::Interrupted,
        };
        let kind = data.shape.unwrap_or_default().into();
        let item = Item {
            started_at: data.started_at,
            ..self.item(self.step()?, kind, ItemBody::Tool(done(data)))
        };
        Some(ItemStep::Ended(self.end(item, status)))
    }
}

fn begun(data: &ToolStartedData) -> ToolItem<'_> {
    ToolItem {
        tool_call_id: &data.tool_call.id,
        name: &data.tool_call.name,
        display_name: data.display_name.as_deref(),
        arguments: Some(&data.tool_call.arguments),
        status: None,
        result: None,
        error: None,
        duration_ms: None,
        capability_id: None,
        is_external: data.external == Some(true),
        is_private: false,
        is_observed: data.origin == Some(ToolOrigin::Observed),
        approval: None,
    }
}

fn done(data: &ToolCompletedData) -> ToolItem<'_> {
    ToolItem {
        tool_call_id: &data.tool_call_id,
        name: &data.tool_name,
        display_name: data.display_name.as_deref(),
        arguments: data.arguments.as_ref(),
        status: Some(data.status),
        result: data.result.as_deref(),
        error: data.error.as_deref(),
        duration_ms: data.duration_ms,
        capability_id: data.capability_id.as_deref(),
        is_external: data.external == Some(true),
        is_private: data.private == Some(true),
        is_observed: data.origin == Some(ToolOrigin::Observed),
        approval: data.approval,
    }
}
