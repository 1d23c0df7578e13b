//! A request to the Messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use windlass_core::llm_driver_registry::{LlmCallConfig, OutputSchema};
use windlass_macros::omit_none;

use super::path;
use crate::api::Api;
use crate::drivers::RequestOptions;
use crate::http::ModelCall;
use crate::prompt::{AgentBlock, AgentMessage, Image, Prompt, PromptEntry, ToolAnswer, UserPart};
use crate::settings::ReasoningStyle;

/// Maximum output tokens, without thinking, if the call sets none.
const DEFAULT_MAX_TOKENS: u32 = 16_384;
/// Minimum thinking budget in tokens that the provider accepts.
const MIN_BUDGET: u32 = 1_024;

#[omit_none]
#[derive(Serialize)]
struct MessagesBody<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<BlockOut<'a>>,
    messages: Vec<MessageOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolOut<'a>>,
    stream: bool,
    temperature: Option<f32>,
    thinking: Option<Thinking>,
    output_config: Option<OutputConfig<'a>>,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    role: &'static str,
    content: Vec<BlockOut<'a>>,
}

/// A block, optionally with the mark that everything up to it may be cached.
#[derive(Serialize)]
struct BlockOut<'a> {
    #[serde(flatten)]
    content: BlockContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum BlockContent<'a> {
    RequestBlock(RequestBlock<'a>),
    /// Thinking that is returned unchanged.
    Reasoning(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RequestBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    Image {
        source: ImageSource<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<BlockOut<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ImageSource<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

#[derive(Serialize)]
struct ToolOut<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled { budget_tokens: u32 },
    Adaptive { display: &'static str },
}

#[omit_none]
#[derive(Serialize)]
struct OutputConfig<'a> {
    effort: Option<&'a str>,
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a Value,
}

const EPHEMERAL: CacheControl = CacheControl {
    r#type: "ephemeral",
};

pub(crate) fn call(
    prompt: &Prompt<'_>,
    options: &RequestOptions<'_>,
) -> serde_json::Result<ModelCall> {
    let config = prompt.config;
    let instructions = prompt.all_instructions();
    let plan = plan(prompt, options);
    let mut body = MessagesBody {
        model: &config.model,
        max_tokens: plan.max_tokens,
        system: if instructions.is_empty() {
            Vec::new()
        } else {
            vec![text(&instructions)]
        },
        messages: messages(prompt),
        tools: config
            .tools
            .iter()
            .map(|tool| ToolOut {
                name: tool.name(),
                description: tool.description(),
                input_schema: tool.parameters(),
                cache_control: None,
            })
            .collect(),
        stream: true,
        // The provider allows only the default temperature with thinking.
        temperature: config.temperature.filter(|_| plan.thinking.is_none()),
        output_config: (plan.effort.is_some() || enforced(config).is_some()).then_some(
            OutputConfig {
                effort: plan.effort,
                format: enforced(config).map(|output| OutputFormat {
                    r#type: "json_schema",
                    schema: &output.schema,
                }),
            },
        ),
        thinking: plan.thinking,
    };
    if options.provider.prompt_cache.unwrap_or(true) {
        mark_for_caching(&mut body);
    }
    ModelCall::new(prompt, path(options.base, "/messages"), &body)
}

/// Model families without an output format, or without one on other vendors' servers.
const WITHOUT_FORMAT: [&str; 6] = [
    "claude-2",
    "claude-3",
    "claude-instant",
    "-4-0",
    "claude-sonnet-4-2",
    "claude-opus-4-2",
];

/// Returns the schema that the API can enforce: it refuses open objects and most value keywords.
fn enforced(config: &LlmCallConfig) -> Option<&OutputSchema> {
    let model = &config.model;
    let has_format =
        model.contains("claude") && !WITHOUT_FORMAT.iter().any(|family| model.contains(family));
    let output = config.output_schema.as_ref();
    output.filter(|output| has_format && output.is_strict())
}

/// Marks the end of the constant part (tools and instructions) and the end of the conversation,
/// which is the prefix of the next call's conversation.
fn mark_for_caching(body: &mut MessagesBody<'_>) {
    match (body.system.last_mut(), body.tools.last_mut()) {
        (Some(block), _) => block.cache_control = Some(EPHEMERAL),
        (None, Some(tool)) => tool.cache_control = Some(EPHEMERAL),
        (None, None) => {}
    }
    // Thinking blocks cannot carry a cache mark.
    let last = body.messages.last_mut();
    let last = last.and_then(|message| message.content.last_mut());
    if let Some(block) = last
        && !matches!(block.content, BlockContent::Reasoning(_))
    {
        block.cache_control = Some(EPHEMERAL);
    }
}

/// The thinking configuration and the output limit.
struct ThinkingPlan<'a> {
    max_tokens: u32,
    thinking: Option<Thinking>,
    effort: Option<&'a str>,
}

fn plan<'a>(prompt: &Prompt<'a>, options: &RequestOptions<'_>) -> ThinkingPlan<'a> {
    let config = prompt.config;
    let max_requested = config.max_tokens.or(options.provider.default_max_tokens);
    let plain = ThinkingPlan {
        max_tokens: max_requested.unwrap_or(DEFAULT_MAX_TOKENS),
        thinking: None,
        effort: None,
    };
    let Some(effort) = config.reasoning_effort.as_deref().filter(|e| *e != "none") else {
        return plain;
    };
    let style = options.provider.reasoning;
    match style.unwrap_or_else(|| style_of(&config.model)) {
        ReasoningStyle::None => plain,
        ReasoningStyle::Effort => ThinkingPlan {
            max_tokens: max_requested.unwrap_or(DEFAULT_MAX_TOKENS.saturating_add(budget(effort))),
            thinking: Some(Thinking::Adaptive {
                display: "summarized",
            }),
            effort: Some(if effort == "minimal" { "low" } else { effort }),
        },
        // The provider rejects thinking after a call that was made without thinking.
        ReasoningStyle::Budget if in_round_without_thinking(prompt) => plain,
        ReasoningStyle::Budget => {
            let budget = budget(effort);
            let max_tokens = max_requested.unwrap_or(DEFAULT_MAX_TOKENS.saturating_add(budget));
            let budget_tokens = budget.min(max_tokens / 2).max(MIN_BUDGET);
            ThinkingPlan {
                max_tokens: max_tokens.max(budget_tokens + 1),
                thinking: Some(Thinking::Enabled { budget_tokens }),
                effort: None,
            }
        }
    }
}

fn budget(effort: &str) -> u32 {
    match effort {
        "minimal" => MIN_BUDGET,
        "low" => 4_096,
        "high" => 24_576,
        "xhigh" | "max" => 40_960,
        _ => 12_288,
    }
}

/// Returns how a model's thinking is configured, by its name: families up to 4.5 by a budget, later ones by an effort.
fn style_of(model: &str) -> ReasoningStyle {
    const BY_BUDGET: &[&str] = &[
        "claude-3-7",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-opus-4-2025",
        "claude-opus-4-5",
        "claude-sonnet-4-0",
        "claude-sonnet-4-2025",
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
    ];
    let name = model.rsplit('/').next().unwrap_or(model);
    if BY_BUDGET.iter().any(|family| name.starts_with(family)) {
        ReasoningStyle::Budget
    } else if name.starts_with("claude-3") || name.starts_with("claude-2") {
        ReasoningStyle::None
    } else {
        ReasoningStyle::Effort
    }
}

fn in_round_without_thinking(prompt: &Prompt<'_>) -> bool {
    let mut newest_first = prompt.entries.iter().rev();
    if !matches!(newest_first.next(), Some(PromptEntry::Result(_))) {
        return false;
    }
    let caller = newest_first.find_map(|entry| match entry {
        PromptEntry::Agent(agent) => Some(agent),
        _ => None,
    });
    caller.is_some_and(|agent| {
        let reasoning_items = agent
            .reasoning_items(Api::Anthropic, &prompt.config.model)
            .next();
        reasoning_items.is_none() && agent.signature.is_none()
    })
}

const fn made(content: RequestBlock<'_>) -> BlockOut<'_> {
    BlockOut {
        content: BlockContent::RequestBlock(content),
        cache_control: None,
    }
}

const fn text(text: &str) -> BlockOut<'_> {
    made(RequestBlock::Text { text })
}

/// Joins adjacent messages of one role: the results of one round belong in one message.
fn messages<'a>(prompt: &'a Prompt<'a>) -> Vec<MessageOut<'a>> {
    let mut messages: Vec<MessageOut<'a>> = Vec::new();
    for entry in &prompt.entries {
        let (role, content) = match entry {
            PromptEntry::System(_) => continue,
            PromptEntry::User(parts) => ("user", parts.iter().map(part).collect()),
            PromptEntry::Agent(agent) => ("assistant", agent_blocks(agent, &prompt.config.model)),
            PromptEntry::Result(result) => ("user", vec![tool_result(result)]),
        };
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => messages.push(MessageOut { role, content }),
        }
    }
    messages
}

fn part<'a>(part: &'a UserPart<'a>) -> BlockOut<'a> {
    match part {
        UserPart::Text(content_text) => text(content_text),
        UserPart::Image(of) => image(*of),
    }
}

fn image(image: Image<'_>) -> BlockOut<'_> {
    let source = match image {
        Image::Url(url) => ImageSource::Url { url },
        Image::Data { media_type, base64 } => ImageSource::Base64 {
            media_type,
            data: base64,
        },
    };
    made(RequestBlock::Image { source })
}

fn agent_blocks<'a>(agent: &'a AgentMessage<'a>, model: &str) -> Vec<BlockOut<'a>> {
    let blocks = agent.blocks(Api::Anthropic, model);
    let reasoning_items = blocks
        .iter()
        .any(|block| matches!(block, AgentBlock::Reasoning(_)));
    // Imported conversations have at most one thinking and signature pair.
    let pair = agent
        .thinking
        .zip(agent.signature)
        .filter(|_| !reasoning_items);
    let pair = pair.map(|(thinking, signature)| {
        made(RequestBlock::Thinking {
            thinking,
            signature,
        })
    });
    let block = |block| match block {
        AgentBlock::Text(content_text) => text(content_text),
        AgentBlock::Call(call) => made(RequestBlock::ToolUse {
            id: &call.id,
            name: call.name,
            input: call.arguments(),
        }),
        AgentBlock::Reasoning(item) => BlockOut {
            content: BlockContent::Reasoning(item),
            cache_control: None,
        },
    };
    pair.into_iter()
        .chain(blocks.into_iter().map(block))
        .collect()
}

fn tool_result<'a>(result: &'a ToolAnswer<'a>) -> BlockOut<'a> {
    let content_text = (!result.text.is_empty()).then(|| text(&result.text));
    let images = result.images.iter().copied().map(image);
    made(RequestBlock::ToolResult {
        tool_use_id: &result.call_id,
        content: content_text.into_iter().chain(images).collect(),
        is_error: result.is_error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_mode_is_derived_from_the_model_name() {
        for (model, style) in [
            ("claude-sonnet-4-5-20250929", ReasoningStyle::Budget),
            ("claude-opus-4-20250514", ReasoningStyle::Budget),
            ("claude-opus-4-6", ReasoningStyle::Effort),
            ("claude-opus-5", ReasoningStyle::Effort),
            ("claude-3-5-haiku-latest", ReasoningStyle::None),
            ("anthropic/claude-3-7-sonnet", ReasoningStyle::Budget),
        ] {
            assert_eq!(style_of(model), style, "{model}");
        }
    }
}
