//! Filters for the messages of a session.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::events::{INPUT_MESSAGE, OUTPUT_MESSAGE_COMPLETED, TOOL_COMPLETED};
use crate::message::{ContentPart, Message, MessageRole};
use crate::typed_id::{EventId, MessageId, SessionId};

/// A condition on a message.
pub type MessagePredicate = Arc<dyn Fn(&Message) -> bool + Send + Sync>;

/// One condition; a message must meet all of a query.
#[derive(Clone)]
pub enum MessageFilter {
    /// Created within a time range.
    TimeRange {
        /// Inclusive lower bound.
        from: Option<DateTime<Utc>>,
        /// Inclusive upper bound.
        to: Option<DateTime<Utc>>,
    },
    /// Recorded by an event of one of these types.
    EventTypes(Vec<String>),
    /// Calls this tool.
    ToolName(String),
    /// Contains this text, case-insensitively.
    Search(String),
    /// Has none of these IDs.
    ExcludeIds(Vec<EventId>),
    /// Has one of these IDs.
    IncludeIds(Vec<EventId>),
    /// Meets a condition of the application.
    Custom(MessagePredicate),
}

impl fmt::Debug for MessageFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimeRange { from, to } => f
                .debug_struct("TimeRange")
                .field("from", from)
                .field("to", to)
                .finish(),
            Self::EventTypes(types) => f.debug_tuple("EventTypes").field(types).finish(),
            Self::ToolName(name) => f.debug_tuple("ToolName").field(name).finish(),
            Self::Search(text) => f.debug_tuple("Search").field(text).finish(),
            Self::ExcludeIds(ids) => f.debug_tuple("ExcludeIds").field(ids).finish(),
            Self::IncludeIds(ids) => f.debug_tuple("IncludeIds").field(ids).finish(),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

impl MessageFilter {
    /// Tells whether a message meets the condition.
    ///
    /// A message and the event that recorded it have the same UUID, so that IDs of either kind match.
    #[must_use]
    pub fn accepts(&self, message: &Message) -> bool {
        let is_one_of = |ids: &[EventId]| ids.iter().any(|id| id.uuid() == message.id.uuid());
        match self {
            Self::TimeRange { from, to } => {
                from.is_none_or(|from| message.created_at >= from)
                    && to.is_none_or(|to| message.created_at <= to)
            }
            Self::EventTypes(types) => types.iter().any(|name| name == event_type_of(message)),
            Self::ToolName(name) => message.tool_calls().iter().any(|call| call.name == *name),
            Self::Search(text) => contains(message, &text.to_lowercase()),
            Self::ExcludeIds(ids) => !is_one_of(ids),
            Self::IncludeIds(ids) => is_one_of(ids),
            Self::Custom(accepts) => accepts(message),
        }
    }
}

fn event_type_of(message: &Message) -> &'static str {
    match message.role {
        MessageRole::System | MessageRole::User => INPUT_MESSAGE,
        MessageRole::Agent => OUTPUT_MESSAGE_COMPLETED,
        MessageRole::ToolResult => TOOL_COMPLETED,
    }
}

fn contains(message: &Message, needle: &str) -> bool {
    let in_text = |text: &str| text.to_lowercase().contains(needle);
    let in_value = |value: &Value| in_text(&value.to_string());
    message.content.iter().any(|part| match part {
        ContentPart::Text(text) => in_text(&text.text),
        ContentPart::ToolCall(call) => in_text(&call.name) || in_value(&call.arguments),
        ContentPart::ToolResult(result) => {
            result.result.as_ref().is_some_and(in_value)
                || result.error.as_deref().is_some_and(in_text)
        }
        ContentPart::Image(_) | ContentPart::ImageFile(_) => false,
    })
}

/// The position of an injected message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectionPosition {
    /// Before all others.
    Start,
    /// After all others.
    End,
    /// Before one message; at the end if that message is missing.
    Before(MessageId),
}

/// A message that is shown among the stored ones but not stored.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageInjection {
    pub position: InjectionPosition,
    pub message: Message,
}

/// A query for a session's messages.
#[must_use]
#[derive(Debug, Clone)]
pub struct MessageQuery {
    pub session_id: SessionId,
    /// The conditions; a message must meet all of them.
    pub filters: Vec<MessageFilter>,
    /// Messages to show among the stored ones.
    pub injections: Vec<MessageInjection>,
    /// The maximum number of messages.
    pub limit: Option<usize>,
    /// How many of the matching messages to skip.
    pub offset: Option<usize>,
}

impl MessageQuery {
    /// Creates a query for all messages of a session.
    pub fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            filters: Vec::new(),
            injections: Vec::new(),
            limit: None,
            offset: None,
        }
    }
    setters! {
        /// Adds a condition.
        with_filter(MessageFilter) |builder, filter| builder.filters.push(filter);
        /// Sets the maximum number of messages.
        with_limit(usize) |builder, limit| builder.limit = Some(limit);
        /// Skips the first matching messages.
        with_offset(usize) |builder, offset| builder.offset = Some(offset);
        /// Adds a message to show among the stored ones.
        with_injection(MessageInjection) |builder, injection| builder.injections.push(injection);
    }

    /// Tells whether a message meets all conditions.
    #[must_use]
    pub fn accepts(&self, message: &Message) -> bool {
        self.filters.iter().all(|filter| filter.accepts(message))
    }

    /// Selects from messages in their order.
    pub fn answer<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) -> Vec<Message> {
        let mut selected: Vec<Message> = messages
            .into_iter()
            .filter(|message| self.accepts(message))
            .skip(self.offset.unwrap_or(0))
            .take(self.limit.unwrap_or(usize::MAX))
            .cloned()
            .collect();
        let mut at_start = 0;
        for injection in &self.injections {
            let index = match injection.position {
                InjectionPosition::Start => {
                    at_start += 1;
                    at_start - 1
                }
                InjectionPosition::End => selected.len(),
                InjectionPosition::Before(id) => selected
                    .iter()
                    .position(|message| message.id == id)
                    .unwrap_or(selected.len()),
            };
            selected.insert(index, injection.message.clone());
        }
        selected
    }
}

/// Changes which messages the model sees.
pub trait MessageFilterProvider: Send + Sync {
    /// Adds conditions to the query for the history.
    fn apply_filters(&self, query: &mut MessageQuery, config: &Value);
    /// Changes the messages after they were loaded.
    fn post_load(&self, _messages: &mut Vec<Message>, _config: &Value) {}
    /// Order of the providers; lower values come first.
    fn priority(&self) -> i32 {
        0
    }
}
