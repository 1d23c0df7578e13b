//! A request to the Responses API. The whole conversation is sent each time: the journal is authoritative, not the
//! provider's store.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use windlass_core::llm_driver_registry::{LlmCallConfig, OutputSchema};
use windlass_core::message::ExecutionPhase;
use windlass_macros::omit_none;

use crate::api::Api;
use crate::drivers::RequestOptions;
use crate::http::ModelCall;
use crate::prompt::{AgentBlock, AgentMessage, Prompt, PromptEntry, ToolAnswer, UserPart};
use crate::settings::ReasoningStyle;

#[omit_none]
#[derive(Serialize)]
struct ResponsesBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
    stream: bool,
    store: bool,
    include: Option<[&'static str; 1]>,
    reasoning: Option<Reasoning<'a>>,
    temperature: Option<f32>,
    max_output_tokens: Option<u32>,
    text: Option<TextForm<'a>>,
    prompt_cache_key: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputItem<'a> {
    RequestItem(RequestItem<'a>),
    /// A reasoning item that is returned unchanged.
    Reasoning(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RequestItem<'a> {
    Message {
        role: &'static str,
        content: Vec<ResponsesContent<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<ExecutionPhase>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: CallOutput<'a>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum CallOutput<'a> {
    Text(&'a str),
    Parts(Vec<ResponsesContent<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponsesContent<'a> {
    InputText { text: &'a str },
    OutputText { text: &'a str },
    InputImage { image_url: Cow<'a, str> },
}

#[derive(Serialize)]
struct FunctionTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Strict schemas must require every property, and tool schemas do not.
    strict: bool,
}

#[derive(Serialize)]
struct Reasoning<'a> {
    effort: &'a str,
    summary: &'static str,
}

#[derive(Serialize)]
struct TextForm<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
struct TextFormat<'a> {
    r#type: &'static str,
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

pub(crate) fn call(
    prompt: &Prompt<'_>,
    options: &RequestOptions<'_>,
) -> serde_json::Result<ModelCall> {
    let config = prompt.config;
    let effort = config.reasoning_effort.as_deref();
    let reasons = match options.provider.reasoning {
        Some(style) => style != ReasoningStyle::None,
        None => reasons(&config.model) || effort.is_some(),
    };
    let cache = options.provider.prompt_cache.unwrap_or(true);
    let cache_key = config.prompt_cache.as_ref().and_then(|c| c.key.as_deref());
    let body = ResponsesBody {
        model: &config.model,
        instructions: prompt.system,
        input: prompt
            .entries
            .iter()
            .flat_map(|entry| items(entry, &config.model))
            .collect(),
        tools: config
            .tools
            .iter()
            .map(|tool| FunctionTool {
                r#type: "function",
                name: tool.name(),
                description: tool.description(),
                parameters: tool.parameters(),
                strict: false,
            })
            .collect(),
        stream: true,
        store: false,
        include: reasons.then_some(["reasoning.encrypted_content"]),
        reasoning: effort.filter(|_| reasons).map(|effort| Reasoning {
            effort,
            summary: "auto",
        }),
        temperature: config.temperature,
        max_output_tokens: config.max_tokens.or(options.provider.default_max_tokens),
        text: enforced(config).map(|output| TextForm {
            format: TextFormat {
                r#type: "json_schema",
                name: &output.name,
                schema: &output.schema,
                strict: output.is_strict(),
            },
        }),
        // Requests of one session share a prefix; the key routes them to the server that has it cached.
        prompt_cache_key: cache_key.or(prompt.session.as_deref()).filter(|_| cache),
    };
    ModelCall::new(prompt, "/responses".to_owned(), &body)
}

/// Returns the schema that OpenAI's APIs can enforce: they accept only objects.
pub(crate) fn enforced(config: &LlmCallConfig) -> Option<&OutputSchema> {
    let output = config.output_schema.as_ref();
    output.filter(|output| output.is_object())
}

/// Returns whether a model reasons, by its name. Other models reject requests for reasoning.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let o_series = name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let gpt = name
        .strip_prefix("gpt-")
        .and_then(|rest| rest.chars().next()?.to_digit(10));
    o_series || name.starts_with("codex") || gpt.is_some_and(|n| n >= 5) && !name.contains("-chat")
}

fn items<'a>(entry: &'a PromptEntry<'a>, model: &str) -> Vec<InputItem<'a>> {
    let message = |role, content| {
        vec![InputItem::RequestItem(RequestItem::Message {
            role,
            content,
            phase: None,
        })]
    };
    match entry {
        PromptEntry::System(text) => message("system", vec![ResponsesContent::InputText { text }]),
        PromptEntry::User(parts) => message("user", parts.iter().map(content).collect()),
        PromptEntry::Agent(agent) => agent_items(agent, model),
        PromptEntry::Result(result) => {
            vec![InputItem::RequestItem(RequestItem::FunctionCallOutput {
                call_id: &result.call_id,
                output: output(result),
            })]
        }
    }
}

fn agent_items<'a>(agent: &'a AgentMessage<'a>, model: &str) -> Vec<InputItem<'a>> {
    let item = |block| match block {
        AgentBlock::Text(text) => InputItem::RequestItem(RequestItem::Message {
            role: "assistant",
            content: vec![ResponsesContent::OutputText { text }],
            phase: agent.phase,
        }),
        AgentBlock::Call(call) => InputItem::RequestItem(RequestItem::FunctionCall {
            call_id: &call.id,
            name: call.name,
            arguments: call.arguments().to_string(),
        }),
        AgentBlock::Reasoning(item) => InputItem::Reasoning(item),
    };
    agent
        .blocks(Api::OpenAi, model)
        .into_iter()
        .map(item)
        .collect()
}

fn output<'a>(result: &'a ToolAnswer<'a>) -> CallOutput<'a> {
    if result.images.is_empty() {
        return CallOutput::Text(&result.text);
    }
    let text = ResponsesContent::InputText { text: &result.text };
    let images = result
        .images
        .iter()
        .map(|image| ResponsesContent::InputImage {
            image_url: image.url(),
        });
    CallOutput::Parts(std::iter::once(text).chain(images).collect())
}

fn content<'a>(part: &'a UserPart<'a>) -> ResponsesContent<'a> {
    match part {
        UserPart::Text(text) => ResponsesContent::InputText { text },
        UserPart::Image(image) => ResponsesContent::InputImage {
            image_url: image.url(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_models_are_recognised_by_name() {
        for model in [
            "o3",
            "o4-mini",
            "gpt-5",
            "gpt-5.5-mini",
            "openai/gpt-6",
            "codex-mini-latest",
        ] {
            assert!(reasons(model), "{model}");
        }
        for model in [
            "gpt-4o",
            "gpt-4.1",
            "gpt-3.5-turbo",
            "gpt-5-chat-latest",
            "ollama",
            "gpt-oss",
            "",
        ] {
            assert!(!reasons(model), "{model}");
        }
    }
}
