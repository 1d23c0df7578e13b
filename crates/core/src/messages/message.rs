//! Messages, their parts, and the input that starts a turn.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use windlass_macros::omit_none;

use crate::tool_types::ToolCall;
use crate::turn_request::TurnRequest;
use crate::typed_id::{ImageId, MessageId, ModelId};

text_enum! {
    /// The author of a message.
    MessageRole {
        System = "system",
        /// The person or program that uses the agent.
        User = "user",
        Agent = "agent",
        /// A tool's answer to a call.
        ToolResult = "tool_result",
    }
}

/// The phase in which the agent wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionPhase {
    /// Commentary between tool calls.
    Commentary,
    /// The answer that ends the turn.
    FinalAnswer,
}

/// Text of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextContentPart {
    pub text: String,
}

/// An image, by address or as data.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImageContentPart {
    pub url: Option<String>,
    /// The image itself.
    pub base64: Option<String>,
    /// Its media type.
    pub media_type: Option<String>,
}

/// A stored image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageFileContentPart {
    /// Identifies the image.
    pub image_id: ImageId,
    /// The name it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallContentPart {
    /// The provider's id of the call.
    pub id: String,
    pub name: String,
    pub arguments: Value,
}

impl From<ToolCall> for ToolCallContentPart {
    fn from(call: ToolCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResultContentPart {
    /// The provider's id of the call.
    pub tool_call_id: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Reads a value that is present, including `null`: a tool that returned `null` has a result.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    Text(TextContentPart),
    Image(ImageContentPart),
    /// A stored image.
    ImageFile(ImageFileContentPart),
    /// A call of a tool.
    ToolCall(ToolCallContentPart),
    /// The answer to a call.
    ToolResult(ToolResultContentPart),
}

impl ContentPart {
    /// Makes a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContentPart { text: text.into() })
    }

    /// Tells whether the part is an image.
    #[must_use]
    pub fn is_image(&self) -> bool {
        matches!(self, Self::Image(_) | Self::ImageFile(_))
    }

    /// Returns the text of a text part.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(part) => Some(&part.text),
            _ => None,
        }
    }

    /// Returns the call of a call part.
    #[must_use]
    pub fn as_tool_call(&self) -> Option<&ToolCallContentPart> {
        match self {
            Self::ToolCall(part) => Some(part),
            _ => None,
        }
    }

    /// Returns the answer of a result part.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&ToolResultContentPart> {
        match self {
            Self::ToolResult(part) => Some(part),
            _ => None,
        }
    }
}

/// The reasoning effort of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReasoningConfig {
    /// The provider's word for it, such as `low` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

/// Options of one input. An unreadable option makes the whole input unreadable.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controls {
    /// The model to use from here on.
    pub model_id: Option<ModelId>,
    /// The language to answer in.
    pub locale: Option<String>,
    /// The reasoning effort.
    pub reasoning: Option<ReasoningConfig>,
    /// Anything else, by name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::turn_request::read_hints"
    )]
    pub hints: Option<HashMap<String, Value>>,
    /// The settings and permissions of the input's turn.
    pub turn: Option<Box<TurnRequest>>,
}

/// An external author who writes through a session.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalActor {
    /// The actor's ID in the source.
    pub id: String,
    /// The name to show.
    pub name: Option<String>,
    /// The system that the actor belongs to.
    pub source: Option<String>,
}

/// One entry of a conversation.
#[omit_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Identifies the message.
    pub id: MessageId,
    pub role: MessageRole,
    pub content: Vec<ContentPart>,
    /// The phase in which the agent wrote it.
    pub phase: Option<ExecutionPhase>,
    /// The model's reasoning before it.
    pub thinking: Option<String>,
    /// The provider's proof of that thinking, sent back unchanged.
    pub thinking_signature: Option<String>,
    /// The provider's own record of its reasoning, opaque, sent back unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning_items: Vec<Value>,
    /// Options of the input.
    pub controls: Option<Controls>,
    /// Anything else, by name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::turn_request::read_metadata"
    )]
    pub metadata: Option<HashMap<String, Value>>,
    /// The external author, if any.
    pub external_actor: Option<ExternalActor>,
    #[serde(with = "crate::moment")]
    pub created_at: DateTime<Utc>,
}

/// Metadata key for the code of the error that ended the message.
pub const ERROR_MARK: &str = "error";
/// Metadata key of a message that is not sent to the model.
pub const REPORT_MARK: &str = "error_report";

impl Message {
    /// Makes a message of parts with a given identity, for callers that own time and ids.
    #[must_use]
    pub fn from_parts(
        id: MessageId,
        role: MessageRole,
        content: Vec<ContentPart>,
        created_at: DateTime<Utc>,
    ) -> Self {
        Self {
            id,
            role,
            content,
            phase: None,
            thinking: None,
            thinking_signature: None,
            reasoning_items: Vec::new(),
            controls: None,
            metadata: None,
            external_actor: None,
            created_at,
        }
    }

    fn now(role: MessageRole, content: Vec<ContentPart>) -> Self {
        Self::from_parts(MessageId::new(), role, content, Utc::now())
    }

    /// Makes a user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self::now(MessageRole::User, vec![ContentPart::text(text)])
    }

    /// Makes an agent message.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::now(MessageRole::Agent, vec![ContentPart::text(text)])
    }

    /// Makes a system message.
    pub fn system(text: impl Into<String>) -> Self {
        Self::now(MessageRole::System, vec![ContentPart::text(text)])
    }

    /// Makes an agent message with calls; an empty text gives no part.
    pub fn assistant_with_tools(text: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        let text = text.into();
        let mut content = Vec::with_capacity(calls.len() + 1);
        if !text.is_empty() {
            content.push(ContentPart::text(text));
        }
        content.extend(
            calls
                .into_iter()
                .map(|call| ContentPart::ToolCall(call.into())),
        );
        Self::now(MessageRole::Agent, content)
    }

    /// Makes the answer to a call.
    pub fn tool_result(
        tool_call_id: impl Into<String>,
        result: Option<Value>,
        error: Option<String>,
    ) -> Self {
        let part = ToolResultContentPart {
            tool_call_id: tool_call_id.into(),
            result,
            error,
        };
        Self::now(MessageRole::ToolResult, vec![ContentPart::ToolResult(part)])
    }

    /// Returns the first text of the message.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.content.iter().find_map(ContentPart::as_text)
    }

    /// Tells whether the message calls tools.
    #[must_use]
    pub fn has_tool_calls(&self) -> bool {
        self.content
            .iter()
            .any(|part| part.as_tool_call().is_some())
    }

    /// Returns the calls in their order.
    #[must_use]
    pub fn tool_calls(&self) -> Vec<&ToolCallContentPart> {
        self.content
            .iter()
            .filter_map(ContentPart::as_tool_call)
            .collect()
    }

    /// Returns the tool result in the message.
    #[must_use]
    pub fn tool_result_content(&self) -> Option<&ToolResultContentPart> {
        self.content.iter().find_map(ContentPart::as_tool_result)
    }

    /// Returns the call that the message answers.
    #[must_use]
    pub fn tool_call_id(&self) -> Option<&str> {
        self.tool_result_content()
            .map(|part| part.tool_call_id.as_str())
    }

    /// Tells whether an error ended the message.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.has_mark(ERROR_MARK)
    }

    /// Returns whether the message is an error report; the model does not see it.
    #[must_use]
    pub fn is_error_report(&self) -> bool {
        self.has_mark(REPORT_MARK)
    }

    fn has_mark(&self, mark: &str) -> bool {
        self.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.contains_key(mark))
    }
}

/// An input that starts or steers a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputMessage {
    pub role: MessageRole,
    pub content: Vec<ContentPart>,
    /// Options of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Controls>,
    /// Anything else, by name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::turn_request::read_metadata"
    )]
    pub metadata: Option<HashMap<String, Value>>,
    /// Labels of the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl InputMessage {
    /// Makes the input of a user.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: MessageRole::User,
            content: vec![ContentPart::text(text)],
            controls: None,
            metadata: None,
            tags: Vec::new(),
        }
    }

    /// Converts the input to the message that is stored.
    #[must_use]
    pub fn into_message(self, id: MessageId, created_at: DateTime<Utc>) -> Message {
        Message {
            controls: self.controls,
            metadata: self.metadata,
            ..Message::from_parts(id, self.role, self.content, created_at)
        }
    }
}

impl From<&str> for InputMessage {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for InputMessage {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}
