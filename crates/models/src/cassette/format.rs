//! The file format. It is versioned and separate from the live types, so that old cassettes can be played.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::error::{AgentLoopError, AskedModel, ErrorKind, ProviderError};
use windlass_core::events::RetryMetadata;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmContentPart, LlmMessage, LlmMessageContent,
    LlmMessageRole, LlmStreamEvent,
};
use windlass_core::message::ExecutionPhase;
use windlass_core::tool_types::ToolCall;
use windlass_macros::omit_none;

pub(super) const VERSION: u32 = 1;

/// A recorded request with its response.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Exchange {
    pub(super) v: u32,
    pub(super) request: Value,
    pub(super) answer: Vec<StoredEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<StoredFailure>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StoredEvent {
    Text { delta: String },
    Thinking { delta: String },
    Signature { signature: String },
    ReasonItem { id: String, payload: Value },
    ToolCalls { calls: Vec<ToolCall> },
    Done(#[serde(with = "StoredEnd")] LlmCompletionMetadata),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, remote = "LlmCompletionMetadata")]
struct StoredEnd {
    total_tokens: Option<u32>,
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    cache_read_tokens: Option<u32>,
    cache_creation_tokens: Option<u32>,
    reasoning_tokens: Option<u32>,
    provider_cost_usd: Option<f64>,
    estimated_cost_usd: Option<f64>,
    model: Option<String>,
    finish_reason: Option<String>,
    response_id: Option<String>,
    phase: Option<ExecutionPhase>,
    #[serde(skip)]
    retry_metadata: Option<RetryMetadata>,
}

#[omit_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredFailure {
    kind: ErrorKind,
    message: String,
    status: Option<u16>,
    code: Option<String>,
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
    asked: Option<Box<AskedModel>>,
}

impl From<&AgentLoopError> for StoredFailure {
    fn from(error: &AgentLoopError) -> Self {
        match error {
            AgentLoopError::Provider(error) => Self {
                kind: error.kind,
                message: error.message.clone(),
                status: error.status,
                code: error.code.clone(),
                retry_after_ms: error
                    .retry_after
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                request_id: error.request_id.clone(),
                asked: error.asked.clone(),
            },
            other => Self {
                kind: other.kind(),
                message: other.to_string(),
                status: None,
                code: None,
                retry_after_ms: None,
                request_id: None,
                asked: None,
            },
        }
    }
}

impl From<StoredFailure> for AgentLoopError {
    fn from(failure: StoredFailure) -> Self {
        Self::provider(ProviderError {
            status: failure.status,
            code: failure.code,
            retry_after: failure.retry_after_ms.map(Duration::from_millis),
            request_id: failure.request_id,
            asked: failure.asked,
            ..ProviderError::new(failure.kind, failure.message)
        })
    }
}

impl StoredEvent {
    /// Converts an event to its stored form; `Err` if the event is a failure.
    pub(super) fn from_event(event: &LlmStreamEvent) -> Result<Self, StoredFailure> {
        Ok(match event.clone() {
            LlmStreamEvent::TextDelta(delta) => Self::Text { delta },
            LlmStreamEvent::ThinkingDelta(delta) => Self::Thinking { delta },
            LlmStreamEvent::ThinkingSignature(signature) => Self::Signature { signature },
            LlmStreamEvent::ReasonItem { id, payload } => Self::ReasonItem { id, payload },
            LlmStreamEvent::ToolCalls(calls) => Self::ToolCalls { calls },
            LlmStreamEvent::Done(done) => Self::Done(*done),
            LlmStreamEvent::Error(message) => {
                return Err(StoredFailure::from(&AgentLoopError::Llm(message)));
            }
        })
    }
}

impl From<StoredEvent> for LlmStreamEvent {
    fn from(piece: StoredEvent) -> Self {
        match piece {
            StoredEvent::Text { delta } => Self::TextDelta(delta),
            StoredEvent::Thinking { delta } => Self::ThinkingDelta(delta),
            StoredEvent::Signature { signature } => Self::ThinkingSignature(signature),
            StoredEvent::ReasonItem { id, payload } => Self::ReasonItem { id, payload },
            StoredEvent::ToolCalls { calls } => Self::ToolCalls(calls),
            StoredEvent::Done(done) => Self::Done(Box::new(done)),
        }
    }
}

/// Converts a request to its stored form, without varying values: times, and IDs of sessions, turns and messages.
pub(super) fn request(messages: &[LlmMessage], config: &LlmCallConfig) -> Value {
    let tools = config.tools.iter().map(|tool| {
        json!({ "name": tool.name(), "description": tool.description(), "parameters": tool.parameters() })
    });
    json!({
        "model": config.model,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "reasoning_effort": config.reasoning_effort,
        "output_schema": config.output_schema.as_ref().map(|output| &output.schema),
        "tools": tools.collect::<Vec<_>>(),
        "messages": messages.iter().map(message).collect::<Vec<_>>(),
    })
}

fn message(message: &LlmMessage) -> Value {
    let role = match message.role {
        LlmMessageRole::System => "system",
        LlmMessageRole::User => "user",
        LlmMessageRole::Assistant => "assistant",
        LlmMessageRole::Tool => "tool",
    };
    let content = match &message.content {
        LlmMessageContent::Text(text) => json!(text),
        LlmMessageContent::Parts(parts) => {
            let part = |part: &LlmContentPart| match part {
                LlmContentPart::Text(text) => json!({ "text": text }),
                LlmContentPart::Image { url } => json!({ "image": url }),
            };
            parts.iter().map(part).collect()
        }
    };
    let mut written = json!({ "role": role, "content": content });
    if let Some(calls) = &message.tool_calls {
        written["tool_calls"] = json!(calls);
    }
    if let Some(id) = &message.tool_call_id {
        written["tool_call_id"] = json!(id);
    }
    written
}
