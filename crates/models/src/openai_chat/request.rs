//! A request to Chat Completions. Servers support different fields, so only requested fields are sent.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};
use windlass_macros::omit_none;

use crate::api::Api;
use crate::drivers::{Dialect, RequestOptions};
use crate::http::ModelCall;
use crate::openai::enforced;
use crate::prompt::{AgentMessage, Image, Prompt, PromptEntry, UserPart};
use crate::settings::{MaxTokensField, ReasoningStyle};

#[omit_none]
#[derive(Serialize)]
struct ChatBody<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ChatTool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    temperature: Option<f32>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    reasoning_effort: Option<&'a str>,
    reasoning: Option<Reasoning<'a>>,
    usage: Option<UsageOptions>,
    response_format: Option<ResponseFormat<'a>>,
    prompt_cache_key: Option<&'a str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct UsageOptions {
    include: bool,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    effort: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: ChatContent<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ChatToolCall<'a>>,
        /// Reasoning under the server's field name.
        #[serde(flatten)]
        reasoning: Map<String, Value>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(&'a str),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct ChatToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
struct ChatTool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

pub(crate) fn call(
    prompt: &Prompt<'_>,
    options: &RequestOptions<'_>,
) -> serde_json::Result<ModelCall> {
    let config = prompt.config;
    let limit = config.max_tokens.or(options.provider.default_max_tokens);
    let field = options.provider.max_tokens_field.unwrap_or_else(|| {
        // OpenAI's reasoning models refuse the old field, and compatible servers do not support the new one.
        let by_openai = ["api.openai.com", ".openai.azure.com"];
        if by_openai.iter().any(|host| options.base.contains(host)) {
            MaxTokensField::MaxCompletionTokens
        } else {
            MaxTokensField::MaxTokens
        }
    });
    let effort = config.reasoning_effort.as_deref();
    let effort = effort.filter(|_| options.provider.reasoning != Some(ReasoningStyle::None));
    let on_openrouter = options.dialect == Dialect::OpenRouter;
    let cache = options.provider.prompt_cache.unwrap_or(true);
    let cache_key = config.prompt_cache.as_ref().and_then(|c| c.key.as_deref());
    let body = ChatBody {
        model: &config.model,
        messages: messages(prompt),
        tools: config
            .tools
            .iter()
            .map(|tool| ChatTool {
                r#type: "function",
                function: Function {
                    name: tool.name(),
                    description: tool.description(),
                    parameters: tool.parameters(),
                },
            })
            .collect(),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
        temperature: config.temperature,
        max_tokens: limit.filter(|_| field == MaxTokensField::MaxTokens),
        max_completion_tokens: limit.filter(|_| field == MaxTokensField::MaxCompletionTokens),
        reasoning_effort: effort.filter(|_| !on_openrouter),
        reasoning: effort
            .filter(|_| on_openrouter)
            .map(|effort| Reasoning { effort }),
        usage: on_openrouter.then_some(UsageOptions { include: true }),
        response_format: enforced(config).map(|output| ResponseFormat {
            r#type: "json_schema",
            json_schema: JsonSchema {
                name: &output.name,
                schema: &output.schema,
                strict: output.is_strict(),
            },
        }),
        prompt_cache_key: cache_key.filter(|_| cache),
    };
    ModelCall::new(prompt, "/chat/completions".to_owned(), &body)
}

/// A tool message contains only text, and the results of a round must be adjacent, so their images follow in a
/// user message.
fn messages<'a>(prompt: &'a Prompt<'a>) -> Vec<ChatMessage<'a>> {
    let mut messages = Vec::with_capacity(prompt.entries.len() + 1);
    if !prompt.system.is_empty() {
        messages.push(ChatMessage::System {
            content: prompt.system,
        });
    }
    let mut images = Vec::new();
    for entry in &prompt.entries {
        if !matches!(entry, PromptEntry::Result(_)) {
            messages.extend(shown_images(&mut images));
        }
        messages.push(match entry {
            PromptEntry::System(text) => ChatMessage::System { content: text },
            PromptEntry::User(parts) => ChatMessage::User {
                content: user_content(parts),
            },
            PromptEntry::Agent(agent) => assistant(agent, &prompt.config.model),
            PromptEntry::Result(result) => {
                images.extend(result.images.iter().map(image_part));
                ChatMessage::Tool {
                    tool_call_id: &result.call_id,
                    content: &result.text,
                }
            }
        });
    }
    messages.extend(shown_images(&mut images));
    messages
}

fn shown_images<'a>(images: &mut Vec<ContentPart<'a>>) -> Option<ChatMessage<'a>> {
    (!images.is_empty()).then(|| ChatMessage::User {
        content: ChatContent::Parts(std::mem::take(images)),
    })
}

fn user_content<'a>(parts: &'a [UserPart<'a>]) -> ChatContent<'a> {
    if let [UserPart::Text(text)] = parts {
        return ChatContent::Text(text);
    }
    let part = |part: &'a UserPart<'a>| match part {
        UserPart::Text(text) => ContentPart::Text { text },
        UserPart::Image(image) => image_part(image),
    };
    ChatContent::Parts(parts.iter().map(part).collect())
}

fn image_part<'a>(image: &'a Image<'a>) -> ContentPart<'a> {
    ContentPart::ImageUrl {
        image_url: ImageUrl { url: image.url() },
    }
}

fn assistant<'a>(agent: &'a AgentMessage<'a>, model: &str) -> ChatMessage<'a> {
    let mut reasoning = Map::new();
    for item in agent.reasoning_items(Api::OpenAiChat, model) {
        // Plain reasoning is returned only within a round of tool calls; some servers refuse it elsewhere.
        let wanted = |name: &str| name == "reasoning_details" || !agent.calls.is_empty();
        let fields = item.item.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| wanted(name));
        reasoning.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    }
    ChatMessage::Assistant {
        content: Some(agent.text.as_ref()).filter(|text| !text.is_empty()),
        tool_calls: agent
            .calls
            .iter()
            .map(|call| ChatToolCall {
                id: &call.id,
                r#type: "function",
                function: CalledFunction {
                    name: call.name,
                    arguments: call.arguments().to_string(),
                },
            })
            .collect(),
        reasoning,
    }
}
