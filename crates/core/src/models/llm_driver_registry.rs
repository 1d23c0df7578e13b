//! How a model is called: the driver trait, its request and stream, and the registry of providers.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::error::{AgentLoopError, Result};
use crate::events::{RetryMetadata, TokenUsage};
use crate::history::History;
use crate::llm_models::{LlmProviderType, ModelWithProvider, masked};
use crate::message::{ContentPart, ExecutionPhase, Message, MessageRole};
use crate::tool_types::{ToolCall, ToolDefinition};
use crate::typed_id::{ExecId, SessionId, TurnId};

/// A driver of any provider.
pub type BoxedLlmDriver = Box<dyn LlmDriver>;
/// An answer as a stream of deltas.
pub type LlmResponseStream = Pin<Box<dyn Stream<Item = Result<LlmStreamEvent>> + Send>>;

/// The provider that a driver is registered for: the same type as the provider of a model.
pub type ProviderType = LlmProviderType;

/// The parameters of a driver. `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProviderConfig {
    pub provider_type: ProviderType,
    pub api_key: Option<String>,
    /// The base URL; `None` is the provider's own.
    pub base_url: Option<String>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("provider_type", &self.provider_type)
            .field("api_key", &masked(self.api_key.as_ref()))
            .field("base_url", &self.base_url)
            .finish()
    }
}

impl From<&ModelWithProvider> for ProviderConfig {
    fn from(model: &ModelWithProvider) -> Self {
        Self {
            provider_type: model.provider_type,
            api_key: model.api_key.clone(),
            base_url: model.base_url.clone(),
        }
    }
}

/// The role of a message in a provider's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmMessageRole {
    System,
    User,
    Assistant,
    /// A tool result.
    Tool,
}

/// One part of a message to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmContentPart {
    Text(String),
    /// An image, by address or as a data URL.
    Image {
        url: String,
    },
}

/// The content of a message to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmMessageContent {
    Text(String),
    /// Text and images.
    Parts(Vec<LlmContentPart>),
}

/// A message in the form of the providers' APIs.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmMessage {
    pub role: LlmMessageRole,
    pub content: LlmMessageContent,
    /// The calls of an assistant message.
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<String>,
    /// The phase in which the model wrote it.
    pub phase: Option<ExecutionPhase>,
    /// The model's reasoning before it.
    pub thinking: Option<String>,
    /// The provider's proof of that thinking.
    pub thinking_signature: Option<String>,
}

impl LlmMessage {
    /// Makes a text message.
    pub fn text(role: LlmMessageRole, text: impl Into<String>) -> Self {
        Self {
            role,
            content: LlmMessageContent::Text(text.into()),
            tool_calls: None,
            tool_call_id: None,
            phase: None,
            thinking: None,
            thinking_signature: None,
        }
    }

    /// Returns the text parts, joined by line feeds.
    #[must_use]
    pub fn content_as_text(&self) -> String {
        match &self.content {
            LlmMessageContent::Text(text) => text.clone(),
            LlmMessageContent::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    LlmContentPart::Text(text) => Some(text.as_str()),
                    LlmContentPart::Image { .. } => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl From<&Message> for LlmMessage {
    fn from(message: &Message) -> Self {
        let role = match message.role {
            MessageRole::System => LlmMessageRole::System,
            MessageRole::User => LlmMessageRole::User,
            MessageRole::Agent => LlmMessageRole::Assistant,
            MessageRole::ToolResult => LlmMessageRole::Tool,
        };
        let mut parts = Vec::new();
        let mut calls = Vec::new();
        for part in &message.content {
            match part {
                ContentPart::Text(text) => parts.push(LlmContentPart::Text(text.text.clone())),
                ContentPart::Image(image) => {
                    let data_url = |data| {
                        let media_type = image.media_type.as_deref().unwrap_or("image/png");
                        format!("data:{media_type};base64,{data}")
                    };
                    let data = || image.base64.as_ref().map(data_url);
                    let url = image.url.clone().or_else(data);
                    parts.extend(url.map(|url| LlmContentPart::Image { url }));
                }
                ContentPart::ImageFile(_) => {}
                ContentPart::ToolCall(call) => calls.push(ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                }),
                ContentPart::ToolResult(result) => {
                    let value = result.result.as_ref().map(ToString::to_string);
                    let text = value.or_else(|| result.error.clone());
                    parts.push(LlmContentPart::Text(text.unwrap_or_default()));
                }
            }
        }
        let content = match parts.as_slice() {
            [] => LlmMessageContent::Text(String::new()),
            [LlmContentPart::Text(text)] => LlmMessageContent::Text(text.clone()),
            _ => LlmMessageContent::Parts(parts),
        };
        Self {
            role,
            content,
            tool_calls: (!calls.is_empty()).then_some(calls),
            tool_call_id: message.tool_call_id().map(str::to_owned),
            phase: message.phase,
            thinking: message.thinking.clone(),
            thinking_signature: message.thinking_signature.clone(),
        }
    }
}

/// Settings for tool search by the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSearchConfig {
    /// The minimum number of tools.
    pub threshold: usize,
}

/// Settings for prompt caching by the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptCacheConfig {
    /// The provider's key of the cache.
    pub key: Option<String>,
}

/// The JSON Schema that the final answer of a turn must match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSchema {
    /// The name that providers require; ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON Schema.
    pub schema: serde_json::Value,
}

/// Size limit of an output schema, in bytes. The schema is recorded with the input and sent with each model call.
pub const MAX_OUTPUT_SCHEMA_BYTES: usize = 64 * 1024;

/// The keywords that all providers accept in a schema which they enforce.
const STRICT_KEYWORDS: [&str; 13] = [
    "$schema",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
];

impl OutputSchema {
    /// Makes the schema with the name `answer`.
    #[must_use]
    pub fn new(schema: serde_json::Value) -> Self {
        Self {
            name: "answer".to_owned(),
            schema,
        }
    }

    /// Returns whether the schema describes an object, the only form of answer that some providers accept.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.schema.get("type").is_some_and(|kind| kind == "object")
    }

    /// Returns whether providers can enforce the schema exactly: each object requires all its properties and allows no others, and
    /// only common keywords occur.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.is_object() && is_strict(&self.schema)
    }
}

fn is_strict(schema: &serde_json::Value) -> bool {
    let Some(fields) = schema.as_object() else {
        return false;
    };
    let is_known = fields
        .keys()
        .all(|name| STRICT_KEYWORDS.contains(&name.as_str()));
    let nested = |name: &str| fields.get(name).and_then(serde_json::Value::as_object);
    let mut properties = nested("properties").into_iter().flatten();
    let mut definitions = nested("$defs").into_iter().flatten();
    let required = fields.get("required").and_then(|names| names.as_array());
    let requires = |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
    let is_object = fields.get("type").is_some_and(|kind| match kind {
        serde_json::Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        kind => kind == "object",
    }) || fields.contains_key("properties");
    let is_closed = fields.get("additionalProperties") == Some(&serde_json::Value::Bool(false));
    let mut choices = fields
        .get("anyOf")
        .and_then(|it| it.as_array())
        .into_iter()
        .flatten();
    is_known
        && (!is_object || is_closed)
        && properties.all(|(name, property)| requires(name) && is_strict(property))
        && definitions.all(|(_, definition)| is_strict(definition))
        && fields.get("items").is_none_or(is_strict)
        && choices.all(is_strict)
}

/// The settings of a model call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LlmCallConfig {
    /// The provider's name of the model.
    pub model: String,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The maximum length of an answer, in tokens.
    pub max_tokens: Option<u32>,
    /// The tools that are offered.
    pub tools: Vec<ToolDefinition>,
    pub reasoning_effort: Option<String>,
    /// Metadata of the call; always contains `session_id` if a turn calls [`LlmDriver::chat_completion_stream`].
    pub metadata: HashMap<String, String>,
    /// The provider's id of the answer before.
    pub previous_response_id: Option<String>,
    /// Tool search by the provider; `None` disables it.
    pub tool_search: Option<ToolSearchConfig>,
    /// Prompt caching by the provider; `None` disables it.
    pub prompt_cache: Option<PromptCacheConfig>,
    /// The schema that an answer without calls must match; `None` allows any text. The system prompt contains it too, so a driver may ignore it if
    /// the provider cannot enforce it.
    pub output_schema: Option<OutputSchema>,
}

/// Metadata key of a call's session.
pub const SESSION_ID_KEY: &str = "session_id";

/// A model call that shares the conversation with the runtime instead of copying it.
#[derive(Debug, Clone)]
pub struct LlmRequest {
    /// The session that calls.
    pub session_id: SessionId,
    /// The turn; `None` for a call outside of a turn.
    pub turn_id: Option<TurnId>,
    /// The step; `None` for a call outside of a turn.
    pub exec_id: Option<ExecId>,
    /// The system prompt; empty when there is none.
    pub system_prompt: Arc<str>,
    pub history: History,
    pub config: Arc<LlmCallConfig>,
}

impl LlmRequest {
    /// Returns the settings with the session in their metadata. The shared settings do not contain it, so that all sessions of an agent share them.
    #[must_use]
    pub fn config_of_session(&self) -> LlmCallConfig {
        let mut config = (*self.config).clone();
        let session_id = config.metadata.entry(SESSION_ID_KEY.to_owned());
        session_id.or_insert_with(|| self.session_id.to_string());
        config
    }

    /// Returns the messages in the providers' format, the system prompt first.
    ///
    /// Error reports are left out, because the model did not write them. Answers without content are left out too, because providers reject empty
    /// messages.
    #[must_use]
    pub fn to_llm_messages(&self) -> Vec<LlmMessage> {
        let system = (!self.system_prompt.is_empty())
            .then(|| LlmMessage::text(LlmMessageRole::System, &*self.system_prompt));
        let sent = self
            .history
            .iter()
            .filter(|message| !message.is_error_report() && !is_empty_answer(message));
        system
            .into_iter()
            .chain(sent.map(|message| LlmMessage::from(&**message)))
            .collect()
    }
}

/// Returns whether a message is an answer without text, image or call. Providers reject a message that contains only reasoning.
fn is_empty_answer(message: &Message) -> bool {
    let is_empty = |part: &ContentPart| match part {
        ContentPart::Text(part) => part.text.is_empty(),
        ContentPart::Image(image) => image.url.is_none() && image.base64.is_none(),
        ContentPart::ImageFile(_) => true,
        ContentPart::ToolCall(_) | ContentPart::ToolResult(_) => false,
    };
    message.role == MessageRole::Agent && message.content.iter().all(is_empty)
}

/// The result of a model call apart from its content.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LlmCompletionMetadata {
    pub total_tokens: Option<u32>,
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    /// Input tokens that were read from a cache.
    pub cache_read_tokens: Option<u32>,
    /// Input tokens that were written to a cache.
    pub cache_creation_tokens: Option<u32>,
    /// The part of the output tokens that is reasoning.
    pub reasoning_tokens: Option<u32>,
    /// The provider's charge, in US dollars.
    pub provider_cost_usd: Option<f64>,
    /// The cost according to a price list; `None` if no list contains the model.
    pub estimated_cost_usd: Option<f64>,
    /// The model that answered.
    pub model: Option<String>,
    /// Why it stopped.
    pub finish_reason: Option<String>,
    /// The driver's retries.
    pub retry_metadata: Option<RetryMetadata>,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// The phase in which the model wrote the answer.
    pub phase: Option<ExecutionPhase>,
}

impl LlmCompletionMetadata {
    /// Returns the tokens as usage; `None` if the provider did not report them.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        if self.prompt_tokens.is_none() && self.completion_tokens.is_none() {
            return None;
        }
        Some(TokenUsage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
            cache_read_tokens: self.cache_read_tokens,
            cache_creation_tokens: self.cache_creation_tokens,
            actual_cost_usd: self.provider_cost_usd,
            estimated_cost_usd: self.estimated_cost_usd,
            reasoning_tokens: self.reasoning_tokens,
        })
    }
}

/// One event of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmStreamEvent {
    TextDelta(String),
    ThinkingDelta(String),
    /// The provider's proof of the thinking.
    ThinkingSignature(String),
    /// An opaque item of reasoning to send back unchanged.
    ReasonItem {
        /// The provider's id of the item.
        id: String,
        /// Its content, as the provider sent it.
        payload: serde_json::Value,
    },
    /// Calls with their complete arguments.
    ToolCalls(Vec<ToolCall>),
    /// The answer is complete.
    Done(Box<LlmCompletionMetadata>),
    /// A failure of unknown kind.
    Error(String),
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LlmResponse {
    pub text: String,
    pub thinking: Option<String>,
    /// The provider's proof of the thinking.
    pub thinking_signature: Option<String>,
    /// The provider's own record of its reasoning, to send back unchanged.
    pub reasoning_items: Vec<serde_json::Value>,
    pub tool_calls: Option<Vec<ToolCall>>,
    pub metadata: LlmCompletionMetadata,
}

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredModel {
    /// The provider's name of the model.
    pub id: String,
    /// The name to show.
    pub display_name: Option<String>,
}

/// A client of a model provider's API.
#[async_trait]
pub trait LlmDriver: Send + Sync {
    /// Calls the model and streams its answer.
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream>;

    /// Calls the model with a shared conversation. Override this in a driver that can read the messages in place.
    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        self.chat_completion_stream(request.to_llm_messages(), &request.config_of_session())
            .await
    }

    /// Calls the model and waits for the complete answer.
    async fn chat_completion(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponse> {
        collect(self.chat_completion_stream(messages, config).await?).await
    }

    /// Lists the models; `None` if the provider does not support it.
    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        Ok(None)
    }

    /// Returns the token limit of a request and its answer together; `None` if unknown.
    fn context_window(&self, _model: &str) -> Option<u64> {
        None
    }

    /// Returns whether a model accepts images; `None` if unknown, and images are then sent.
    fn accepts_images(&self, _model: &str) -> Option<bool> {
        None
    }

    /// Drops the state of a removed session.
    fn forget_session(&self, _session_id: SessionId) {}
}

/// Collects a stream into a complete answer.
///
/// # Errors
/// The stream ends with an error.
pub async fn collect(mut stream: LlmResponseStream) -> Result<LlmResponse> {
    let mut response = LlmResponse::default();
    while let Some(event) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        match event? {
            LlmStreamEvent::TextDelta(text) => response.text.push_str(&text),
            LlmStreamEvent::ThinkingDelta(text) => {
                response.thinking.get_or_insert_default().push_str(&text);
            }
            LlmStreamEvent::ThinkingSignature(signature) => {
                response.thinking_signature = Some(signature)
            }
            LlmStreamEvent::ReasonItem { payload, .. } => response.reasoning_items.push(payload),
            LlmStreamEvent::ToolCalls(calls) => {
                response.tool_calls.get_or_insert_default().extend(calls);
            }
            LlmStreamEvent::Done(metadata) => response.metadata = *metadata,
            LlmStreamEvent::Error(message) => return Err(AgentLoopError::Llm(message)),
        }
    }
    Ok(response)
}

type DriverFactory = Arc<dyn Fn(&str, Option<&str>) -> BoxedLlmDriver + Send + Sync>;
type AddressCheck = Arc<dyn Fn(Option<&str>) -> Result<()> + Send + Sync>;

#[derive(Clone)]
struct RegisteredDriver {
    factory: DriverFactory,
    check: Option<AddressCheck>,
}

/// Creates drivers by provider.
#[derive(Clone, Default)]
pub struct DriverRegistry {
    drivers: HashMap<ProviderType, RegisteredDriver>,
}

impl fmt::Debug for DriverRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.drivers.keys()).finish()
    }
}

impl DriverRegistry {
    /// Makes an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a constructor for the drivers of a provider; it receives the key and the base URL.
    pub fn register<F>(&mut self, provider: ProviderType, factory: F)
    where
        F: Fn(&str, Option<&str>) -> BoxedLlmDriver + Send + Sync + 'static,
    {
        let driver = RegisteredDriver {
            factory: Arc::new(factory),
            check: None,
        };
        self.drivers.insert(provider, driver);
    }

    /// Sets a check of base URLs for a provider's driver, so that an invalid one is refused at configuration instead of the first call.
    pub fn check_base_urls<F>(&mut self, provider: ProviderType, check: F)
    where
        F: Fn(Option<&str>) -> Result<()> + Send + Sync + 'static,
    {
        if let Some(driver) = self.drivers.get_mut(&provider) {
            driver.check = Some(Arc::new(check));
        }
    }

    /// Checks the base URL with the check of the provider's driver.
    pub fn check(&self, config: &ProviderConfig) -> Result<()> {
        let driver = self.drivers.get(&config.provider_type);
        match driver.and_then(|driver| driver.check.as_ref()) {
            Some(check) => check(config.base_url.as_deref()),
            None => Ok(()),
        }
    }

    /// Creates a driver. Only the simulator needs no key.
    pub fn create_driver(&self, config: &ProviderConfig) -> Result<BoxedLlmDriver> {
        let provider = config.provider_type;
        let driver = self
            .drivers
            .get(&provider)
            .ok_or_else(|| AgentLoopError::driver_not_registered(provider.to_string()))?;
        self.check(config)?;
        let key = match (config.api_key.as_deref(), provider) {
            (Some(key), _) => key,
            (None, ProviderType::LlmSim) => "",
            (None, _) => {
                return Err(AgentLoopError::llm(format!(
                    "no API key is set for provider {provider}; set one on the model or its provider"
                )));
            }
        };
        Ok((driver.factory)(key, config.base_url.as_deref()))
    }

    /// Adds the drivers of another registry for providers without a driver.
    pub fn add_missing(&mut self, other: Self) {
        for (provider, driver) in other.drivers {
            self.drivers.entry(provider).or_insert(driver);
        }
    }

    /// Returns whether the provider has a registered driver.
    #[must_use]
    pub fn has_driver(&self, provider: &ProviderType) -> bool {
        self.drivers.contains_key(provider)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_answer_is_not_sent() {
        let mut history = History::default();
        let call = ToolCall {
            id: "c".to_owned(),
            name: "t".to_owned(),
            arguments: json!({}),
        };
        let nothing = Message {
            content: Vec::new(),
            thinking: Some("hm".to_owned()),
            ..Message::assistant("")
        };
        for message in [
            Message::user("Hi"),
            Message::assistant(""),
            nothing,
            Message::user(""),
            Message::assistant_with_tools("", vec![call]),
            Message::tool_result("c", None, None),
            Message::assistant("Hello"),
        ] {
            history.push(Arc::new(message));
        }
        let request = LlmRequest {
            session_id: SessionId::new(),
            turn_id: None,
            exec_id: None,
            system_prompt: "Be brief.".into(),
            history,
            config: Arc::default(),
        };
        let sent = request.to_llm_messages();
        let sent: Vec<_> = sent
            .iter()
            .map(|message| (message.role, message.content_as_text()))
            .collect();
        use LlmMessageRole::{Assistant, System, Tool, User};
        let expected = [
            (System, "Be brief."),
            (User, "Hi"),
            (User, ""),
            (Assistant, ""),
            (Tool, ""),
            (Assistant, "Hello"),
        ];
        assert_eq!(sent, expected.map(|(role, text)| (role, text.to_owned())));
    }
}
