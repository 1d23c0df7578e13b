//! A view of the conversation for requests. It borrows from the shared history and copies no text.

use std::borrow::Cow;

use serde_json::{Value, json};
use windlass_core::bounds::prefix;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmContentPart, LlmMessage, LlmMessageContent, LlmMessageRole, LlmRequest,
    SESSION_ID_KEY,
};
use windlass_core::message::{
    ContentPart, ExecutionPhase, ImageContentPart, Message, MessageRole, ToolResultContentPart,
};

use crate::api::Api;
use crate::call_ids;
use crate::reasoning_state::{self, StoredReasoning};

/// The input of a request.
pub(crate) struct Prompt<'a> {
    pub(crate) system: &'a str,
    pub(crate) entries: Vec<PromptEntry<'a>>,
    pub(crate) config: &'a LlmCallConfig,
    /// Seed of generated call IDs, for calls without a provider ID.
    pub(crate) call_seed: String,
    /// Session of the call, for the provider's cache.
    pub(crate) session: Option<Cow<'a, str>>,
}

/// One entry of the conversation.
pub(crate) enum PromptEntry<'a> {
    System(Cow<'a, str>),
    User(Vec<UserPart<'a>>),
    Agent(AgentMessage<'a>),
    Result(ToolAnswer<'a>),
}

pub(crate) enum UserPart<'a> {
    Text(&'a str),
    Image(Image<'a>),
}

#[derive(Clone, Copy)]
pub(crate) enum Image<'a> {
    Url(&'a str),
    Data {
        media_type: &'a str,
        base64: &'a str,
    },
}

/// A message of the model: text, thinking and calls.
pub(crate) struct AgentMessage<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) thinking: Option<&'a str>,
    pub(crate) signature: Option<&'a str>,
    pub(crate) items: &'a [Value],
    pub(crate) calls: Vec<PromptCall<'a>>,
    pub(crate) phase: Option<ExecutionPhase>,
}

pub(crate) struct PromptCall<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
}

/// The answer to a call.
pub(crate) struct ToolAnswer<'a> {
    pub(crate) call_id: Cow<'a, str>,
    pub(crate) text: Cow<'a, str>,
    pub(crate) is_error: bool,
    pub(crate) images: Vec<Image<'a>>,
}

/// A part of a model's message, in its original order.
pub(crate) enum AgentBlock<'b> {
    Text(&'b str),
    Call(&'b PromptCall<'b>),
    Reasoning(&'b Value),
}

impl<'a> Prompt<'a> {
    pub(crate) fn from_request(request: &'a LlmRequest) -> Self {
        let messages = request.history.iter().filter(|m| !m.is_error_report());
        let seed = request.exec_id.map(|id| id.uuid());
        Self {
            system: &request.system_prompt,
            entries: call_ids::with_unique_ids(
                messages
                    .filter_map(|message| entry_from_message(message))
                    .collect(),
            ),
            config: &request.config,
            call_seed: seed.unwrap_or_else(uuid::Uuid::now_v7).simple().to_string(),
            session: Some(Cow::Owned(request.session_id.to_string())),
        }
    }

    pub(crate) fn from_messages(messages: &'a [LlmMessage], config: &'a LlmCallConfig) -> Self {
        let session = config.metadata.get(SESSION_ID_KEY);
        Self {
            system: "",
            entries: call_ids::with_unique_ids(
                messages.iter().filter_map(entry_from_llm_message).collect(),
            ),
            config,
            call_seed: uuid::Uuid::now_v7().simple().to_string(),
            session: session.map(|id| Cow::Borrowed(id.as_str())),
        }
    }

    /// Returns all instructions as one text, for APIs that take them separately.
    pub(crate) fn all_instructions(&self) -> Cow<'_, str> {
        let within = self.entries.iter().filter_map(|entry| match entry {
            PromptEntry::System(text) => Some(text.as_ref()),
            _ => None,
        });
        let first = Some(self.system).filter(|text| !text.is_empty());
        join(first.into_iter().chain(within), "\n\n")
    }
}

impl AgentMessage<'_> {
    /// Returns the reasoning items of this API and model.
    pub(crate) fn reasoning_items(
        &self,
        api: Api,
        model: &str,
    ) -> impl Iterator<Item = StoredReasoning<'_>> {
        reasoning_state::items(self.items, api, model)
    }

    /// Returns text, calls and reasoning in their original order.
    pub(crate) fn blocks(&self, api: Api, model: &str) -> Vec<AgentBlock<'_>> {
        let mut blocks = Vec::new();
        let (mut text, mut calls) = (self.text.as_ref(), self.calls.iter());
        let mut calls_left = self.calls.len();
        for item in self.reasoning_items(api, model) {
            let done = self.text.len() - text.len();
            let more = prefix(text, item.text.saturating_sub(done)).len();
            let (before, after) = text.split_at(more);
            if !before.is_empty() {
                blocks.push(AgentBlock::Text(before));
            }
            text = after;
            let made = self.calls.len() - calls_left;
            for call in calls.by_ref().take(item.calls.saturating_sub(made)) {
                calls_left -= 1;
                blocks.push(AgentBlock::Call(call));
            }
            blocks.push(AgentBlock::Reasoning(item.item));
        }
        if !text.is_empty() {
            blocks.push(AgentBlock::Text(text));
        }
        blocks.extend(calls.map(AgentBlock::Call));
        blocks
    }
}

impl PromptCall<'_> {
    /// Returns the arguments as the object that providers require. Malformed arguments of the model are wrapped under a name that marks them.
    pub(crate) fn arguments(&self) -> Cow<'_, Value> {
        if self.arguments.is_object() {
            Cow::Borrowed(self.arguments)
        } else {
            Cow::Owned(json!({ "invalid_arguments": self.arguments }))
        }
    }
}

fn join<'a>(mut texts: impl Iterator<Item = &'a str>, between: &str) -> Cow<'a, str> {
    let Some(first) = texts.next() else {
        return Cow::Borrowed("");
    };
    let mut all = Cow::Borrowed(first);
    for text in texts {
        let all = all.to_mut();
        all.push_str(between);
        all.push_str(text);
    }
    all
}

fn entry_from_message(message: &Message) -> Option<PromptEntry<'_>> {
    let texts = || message.content.iter().filter_map(ContentPart::as_text);
    let entry = match message.role {
        MessageRole::System => PromptEntry::System(join(texts(), "\n")),
        MessageRole::User => PromptEntry::User(message.content.iter().filter_map(part).collect()),
        MessageRole::Agent => PromptEntry::Agent(AgentMessage {
            text: join(texts(), ""),
            thinking: message.thinking.as_deref(),
            signature: message.thinking_signature.as_deref(),
            items: &message.reasoning_items,
            calls: message
                .content
                .iter()
                .filter_map(ContentPart::as_tool_call)
                .map(|call| PromptCall {
                    id: call.id.as_str().into(),
                    name: &call.name,
                    arguments: &call.arguments,
                })
                .collect(),
            phase: message.phase,
        }),
        MessageRole::ToolResult => {
            let result = message.tool_result_content()?;
            let images = message.content.iter().filter_map(|part| match part {
                ContentPart::Image(of) => image(of),
                _ => None,
            });
            PromptEntry::Result(ToolAnswer {
                call_id: result.tool_call_id.as_str().into(),
                text: result_text(result),
                is_error: result.error.is_some(),
                images: images.collect(),
            })
        }
    };
    has_content(&entry).then_some(entry)
}

/// Messages without content are omitted, because most providers refuse them.
fn has_content(entry: &PromptEntry<'_>) -> bool {
    match entry {
        PromptEntry::System(text) => !text.is_empty(),
        PromptEntry::User(parts) => !parts.is_empty(),
        PromptEntry::Agent(agent) => !agent.text.is_empty() || !agent.calls.is_empty(),
        PromptEntry::Result(_) => true,
    }
}

fn part(part: &ContentPart) -> Option<UserPart<'_>> {
    match part {
        ContentPart::Text(text) if !text.text.is_empty() => Some(UserPart::Text(&text.text)),
        ContentPart::Image(of) => image(of).map(UserPart::Image),
        // A stored image has an ID that only the application can resolve.
        _ => None,
    }
}

fn image(image: &ImageContentPart) -> Option<Image<'_>> {
    match (&image.url, &image.base64) {
        (Some(url), _) => Some(image_from_url(url)),
        (None, Some(base64)) => Some(Image::Data {
            media_type: image.media_type.as_deref().unwrap_or("image/png"),
            base64,
        }),
        (None, None) => None,
    }
}

fn image_from_url(url: &str) -> Image<'_> {
    let data = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, base64)) => Image::Data { media_type, base64 },
        None => Image::Url(url),
    }
}

fn result_text(result: &ToolResultContentPart) -> Cow<'_, str> {
    match (&result.result, &result.error) {
        (Some(Value::String(text)), _) => Cow::Borrowed(text),
        (Some(value), _) => Cow::Owned(value.to_string()),
        (None, Some(error)) => Cow::Borrowed(error),
        (None, None) => Cow::Borrowed(""),
    }
}

fn entry_from_llm_message(message: &LlmMessage) -> Option<PromptEntry<'_>> {
    let (texts, images): (Vec<_>, Vec<_>) = match &message.content {
        LlmMessageContent::Text(text) => (vec![text.as_str()], Vec::new()),
        LlmMessageContent::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                LlmContentPart::Text(text) => Some(text.as_str()),
                LlmContentPart::Image { .. } => None,
            });
            let images = parts.iter().filter_map(|part| match part {
                LlmContentPart::Image { url } => Some(image_from_url(url)),
                LlmContentPart::Text(_) => None,
            });
            (texts.collect(), images.collect())
        }
    };
    let entry = match message.role {
        LlmMessageRole::System => PromptEntry::System(join(texts.into_iter(), "\n")),
        LlmMessageRole::User => PromptEntry::User(user_parts(&message.content)),
        LlmMessageRole::Assistant => PromptEntry::Agent(AgentMessage {
            text: join(texts.into_iter(), ""),
            thinking: message.thinking.as_deref(),
            signature: message.thinking_signature.as_deref(),
            items: &[],
            calls: message
                .tool_calls
                .iter()
                .flatten()
                .map(|call| PromptCall {
                    id: call.id.as_str().into(),
                    name: &call.name,
                    arguments: &call.arguments,
                })
                .collect(),
            phase: message.phase,
        }),
        LlmMessageRole::Tool => PromptEntry::Result(ToolAnswer {
            call_id: message.tool_call_id.as_deref()?.into(),
            text: join(texts.into_iter(), "\n"),
            is_error: false,
            images,
        }),
    };
    has_content(&entry).then_some(entry)
}

fn user_parts(content: &LlmMessageContent) -> Vec<UserPart<'_>> {
    match content {
        LlmMessageContent::Text(text) => vec![UserPart::Text(text)],
        LlmMessageContent::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                LlmContentPart::Text(text) => UserPart::Text(text),
                LlmContentPart::Image { url } => UserPart::Image(image_from_url(url)),
            })
            .collect(),
    }
}

impl Image<'_> {
    /// Returns the image as a URL, or as a data URL if it has none.
    #[cfg(any(feature = "openai", feature = "openai-chat"))]
    pub(crate) fn url(&self) -> Cow<'_, str> {
        match self {
            Self::Url(url) => Cow::Borrowed(url),
            Self::Data { media_type, base64 } => {
                Cow::Owned(format!("data:{media_type};base64,{base64}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "anthropic")]
    #[test]
    fn reasoning_is_returned_in_order_and_only_to_its_model() {
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        let api = Api::Anthropic;
        let items = [
            reasoning_state::wrap(api, "m", 0, 0, a),
            reasoning_state::wrap(api, "m", 5, 1, b),
        ];
        let arguments = json!({});
        let call = |id: &'static str| PromptCall {
            id: id.into(),
            name: "t",
            arguments: &arguments,
        };
        let agent = AgentMessage {
            text: Cow::Borrowed("héllo"),
            thinking: None,
            signature: None,
            items: &items,
            calls: vec![call("1"), call("2")],
            phase: None,
        };
        let shape = |model| -> Vec<String> {
            let blocks = agent.blocks(api, model).into_iter();
            let shown = blocks.map(|block| match block {
                AgentBlock::Text(text) => text.to_owned(),
                AgentBlock::Call(call) => format!("call {}", call.id),
                AgentBlock::Reasoning(item) => item.to_string(),
            });
            shown.collect()
        };
        // The position is inside a character: the text is split before that character.
        assert_eq!(
            shape("m"),
            ["{\"a\":1}", "héll", "call 1", "{\"b\":2}", "o", "call 2"]
        );
        assert_eq!(shape("other"), ["héllo", "call 1", "call 2"]);
    }
}
