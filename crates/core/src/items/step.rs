//! The effect of one event on an item.

use chrono::{DateTime, Utc};

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
    /// A delta of its text.
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
    let builder = ItemBuilder {
        event,
        turn_id: event.context.turn_id?,
    };
    match &event.data {
        EventData::InputMessage(data) => builder.input(data),
        EventData::SessionActivated(data) => {
            let text = data.input_text.as_deref();
            let body = text.map_or(ItemBody::Empty, ItemBody::Text);
            let id = item_of_message(data.input_message_id);
            // The input and this event have the same time.
            let item = builder.item(id, ItemKind::UserMessage, body);
            Some(builder.end(item, Some(event.ts), ItemStatus::Completed))
        }
        EventData::OutputMessageStarted(data) => {
            let id = item_of_message(data.message_id);
            Some(builder.start(id, ItemKind::AgentMessage, ItemBody::Empty))
        }
        EventData::OutputMessageDelta(data) => {
            let of_step = || event.context.exec_id.map(message_of_step);
            let id = item_of_message(data.message_id.or_else(of_step)?);
            Some(builder.delta(id, ItemKind::AgentMessage, &data.delta))
        }
        EventData::OutputMessageCompleted(data) => builder.answer(data),
        EventData::ReasonThinkingStarted(_) => {
            Some(builder.start(builder.step()?, ItemKind::AgentReasoning, ItemBody::Empty))
        }
        EventData::ReasonThinkingDelta(data) => {
            Some(builder.delta(builder.step()?, ItemKind::AgentReasoning, &data.delta))
        }
        EventData::ReasonThinkingCompleted(data) => {
            let body = ItemBody::Text(&data.thinking);
            let item = builder.item(builder.step()?, ItemKind::AgentReasoning, body);
            let status = match data.interrupted {
                Some(true) => ItemStatus::Interrupted,
                _ => ItemStatus::Completed,
            };
            Some(builder.end(item, data.started_at.or(Some(event.ts)), status))
        }
        EventData::ToolStarted(data) => {
            let kind = data.shape.unwrap_or_default().into();
            Some(builder.start(builder.step()?, kind, ItemBody::Tool(started_call(data))))
        }
        EventData::ToolOutputDelta(data) => {
            Some(builder.delta(builder.step()?, ItemKind::ToolCall, &data.delta))
        }
        EventData::ToolCompleted(data) => builder.tool_end(data),
        EventData::ContextCompacting(data) => {
            let body = ItemBody::Compaction {
                messages_before: data.message_count,
                messages_after: None,
                auto: data.auto,
            };
            Some(builder.start(builder.step()?, ItemKind::ContextCompaction, body))
        }
        EventData::ContextCompacted(data) => {
            let body = ItemBody::Compaction {
                messages_before: data.messages_before,
                messages_after: Some(data.messages_after),
                auto: data.auto,
            };
            let item = builder.item(builder.step()?, ItemKind::ContextCompaction, body);
            let status = match (&data.error, data.interrupted) {
                (Some(_), _) => ItemStatus::Failed,
                (None, Some(true)) => ItemStatus::Interrupted,
                (None, _) => ItemStatus::Completed,
            };
            Some(builder.end(item, data.started_at, status))
        }
        EventData::ToolsDiscovered(data) if !data.failures.is_empty() => {
            Some(builder.notice(ItemBody::McpFailures(&data.failures)))
        }
        EventData::BackendNotice(data) if is_visible(data.kind) => {
            Some(builder.notice(ItemBody::Text(&data.message)))
        }
        EventData::BackendWaiting(data) => {
            Some(builder.notice(ItemBody::Wait { until: data.until }))
        }
        _ => None,
    }
}

/// Diagnostic output of an external agent is visible only in the journal.
fn is_visible(kind: BackendNoticeKind) -> bool {
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

pub(super) fn item_of_message(id: MessageId) -> ItemId {
    ItemId::from_uuid(id.uuid())
}

/// Builds items from one event of a turn.
#[derive(Clone, Copy)]
struct ItemBuilder<'a> {
    event: &'a Event,
    turn_id: TurnId,
}

impl<'a> ItemBuilder<'a> {
    fn step(self) -> Option<ItemId> {
        let exec_id = self.event.context.exec_id?;
        Some(ItemId::from_uuid(exec_id.uuid()))
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

    fn end(
        self,
        item: Item<'a>,
        started_at: Option<DateTime<Utc>>,
        status: ItemStatus,
    ) -> ItemStep<'a> {
        ItemStep::Ended(Item {
            status,
            started_at,
            ended_at: Some(self.event.ts),
            ..item
        })
    }

    /// A notice of the runtime is complete at once; its ID is that of its record.
    fn notice(self, body: ItemBody<'a>) -> ItemStep<'a> {
        let id = ItemId::from_uuid(self.event.id.uuid());
        let item = self.item(id, ItemKind::Status, body);
        self.end(item, Some(self.event.ts), ItemStatus::Completed)
    }

    /// The turn's own input starts here and ends when the turn makes its first model call. A steering message is complete at once.
    fn input(self, data: &'a InputMessageData) -> Option<ItemStep<'a>> {
        let id = item_of_message(data.message.id);
        let body = ItemBody::Parts(&data.message.content);
        let started_by = self.event.context.input_message_id;
        if started_by.is_none_or(|input| input == data.message.id) {
            return Some(self.start(id, ItemKind::UserMessage, body));
        }
        let item = self.item(id, ItemKind::UserMessage, body);
        Some(self.end(item, Some(self.event.ts), ItemStatus::Completed))
    }

    /// A message that only calls tools produces no item.
    fn answer(self, data: &'a OutputMessageCompletedData) -> Option<ItemStep<'a>> {
        let message = &data.message;
        let mut parts = message.content.iter();
        let has_content = parts.any(|part| !matches!(part, ContentPart::ToolCall(_)));
        if !has_content && data.started_at.is_none() {
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
        let id = item_of_message(message.id);
        let item = Item {
            error_code: data.error_code.as_deref(),
            ..self.item(id, kind, ItemBody::Parts(&message.content))
        };
        Some(self.end(item, data.started_at.or(Some(self.event.ts)), status))
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
        let item = self.item(self.step()?, kind, ItemBody::Tool(ended_call(data)));
        Some(self.end(item, data.started_at, status))
    }
}

fn started_call(data: &ToolStartedData) -> ToolItem<'_> {
    ToolItem {
        tool_call_id: &data.tool_call.id,
        name: &data.tool_call.name,
        display_name: data.display_name.as_deref(),
        arguments: Some(&data.tool_call.arguments),
        is_external: data.external == Some(true),
        is_observed: data.origin == Some(ToolOrigin::Observed),
        ..ToolItem::default()
    }
}

fn ended_call(data: &ToolCompletedData) -> ToolItem<'_> {
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
