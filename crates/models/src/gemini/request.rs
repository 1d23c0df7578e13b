//! A request to Gemini.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_macros::omit_none;

use super::path;
use crate::api::Api;
use crate::decode::OWN_CALL_ID;
use crate::drivers::RequestOptions;
use crate::http::ModelCall;
use crate::prompt::{self, AgentBlock, AgentMessage, Image, Prompt, PromptEntry, ToolAnswer};
use crate::settings::ReasoningStyle;

#[omit_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerateBody<'a> {
    contents: Vec<GeminiContent<'a>>,
    system_instruction: Option<Instruction<'a>>,
    tools: Option<[FunctionTools<'a>; 1]>,
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [GeminiPart<'a>; 1],
}

#[derive(Serialize)]
struct GeminiContent<'a> {
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
}

#[omit_none]
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
    text: Option<&'a str>,
    inline_data: Option<InlineData<'a>>,
    file_data: Option<FileData<'a>>,
    function_call: Option<FunctionCall<'a>>,
    function_response: Option<FunctionResponse<'a>>,
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileData<'a> {
    file_uri: &'a str,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: Cow<'a, Value>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionTools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Accepts full JSON Schema; `parameters` supports only a subset.
    parameters_json_schema: &'a Value,
}

#[omit_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    temperature: Option<f32>,
    max_output_tokens: Option<u32>,
    response_mime_type: Option<&'static str>,
    response_json_schema: Option<&'a Value>,
    thinking_config: Option<ThinkingConfig<'a>>,
}

#[omit_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig<'a> {
    include_thoughts: bool,
    thinking_budget: Option<i32>,
    thinking_level: Option<&'a str>,
}

pub(crate) fn call(
    prompt: &Prompt<'_>,
    options: &RequestOptions<'_>,
) -> serde_json::Result<ModelCall> {
    let config = prompt.config;
    let instructions = prompt.all_instructions();
    let declarations = config.tools.iter().map(|tool| Declaration {
        name: tool.name(),
        description: tool.description(),
        parameters_json_schema: tool.parameters(),
    });
    // Families up to 2.5 refuse a schema together with functions.
    let is_refused = !config.tools.is_empty() && is_old_family(&config.model);
    let schema = config.output_schema.as_ref().filter(|_| !is_refused);
    let body = GenerateBody {
        contents: contents(prompt),
        system_instruction: (!instructions.is_empty()).then(|| Instruction {
            parts: [text(&instructions)],
        }),
        tools: (!config.tools.is_empty()).then(|| {
            [FunctionTools {
                function_declarations: declarations.collect(),
            }]
        }),
        generation_config: GenerationConfig {
            temperature: config.temperature,
            max_output_tokens: config.max_tokens.or(options.provider.default_max_tokens),
            response_mime_type: schema.map(|_| "application/json"),
            response_json_schema: schema.map(|output| &output.schema),
            thinking_config: thinking(prompt, options),
        },
    };
    let model = config.model.strip_prefix("models/");
    let model = model.unwrap_or(&config.model);
    // The name is encoded as one path segment.
    let mut segment = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' => {
                segment.push(char::from(byte));
            }
            other => segment.push_str(&format!("%{other:02X}")),
        }
    }
    let rest = format!("/models/{segment}:streamGenerateContent");
    Ok(ModelCall {
        query: vec![("alt", "sse".to_owned())],
        ..ModelCall::new(prompt, path(options.base, &rest), &body)?
    })
}

/// Families up to 2.5 take a token budget, later ones an effort level.
fn thinking<'a>(prompt: &Prompt<'a>, options: &RequestOptions<'_>) -> Option<ThinkingConfig<'a>> {
    let effort = prompt.config.reasoning_effort.as_deref()?;
    let by_budget = is_old_family(&prompt.config.model);
    let style = options.provider.reasoning.unwrap_or(if by_budget {
        ReasoningStyle::Budget
    } else {
        ReasoningStyle::Effort
    });
    let (thinking_budget, thinking_level) = match style {
        ReasoningStyle::None => return None,
        ReasoningStyle::Budget => (Some(budget(effort)), None),
        ReasoningStyle::Effort => (None, Some(if effort == "xhigh" { "high" } else { effort })),
    };
    Some(ThinkingConfig {
        include_thoughts: true,
        thinking_budget,
        thinking_level,
    })
}

fn is_old_family(model: &str) -> bool {
    model.contains("gemini-2")
}

fn budget(effort: &str) -> i32 {
    match effort {
        "none" => 0,
        "minimal" => 512,
        "low" => 4_096,
        "high" | "xhigh" | "max" => 24_576,
        _ => 12_288,
    }
}

fn text(text: &str) -> GeminiPart<'_> {
    GeminiPart {
        text: Some(text),
        ..GeminiPart::default()
    }
}

/// A result must name its function, which is taken from its call. The results of a round form one content with nothing
/// else in it; their images follow.
fn contents<'a>(prompt: &'a Prompt<'a>) -> Vec<GeminiContent<'a>> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut contents: Vec<GeminiContent<'a>> = Vec::new();
    let (mut results, mut images) = (Vec::new(), Vec::new());
    for entry in &prompt.entries {
        if let PromptEntry::Result(result) = entry {
            let name = names
                .get(result.call_id.as_ref())
                .copied()
                .unwrap_or("unknown");
            results.push(result_part(result, name));
            images.extend(result.images.iter().copied().map(image));
            continue;
        }
        contents.extend(content("user", std::mem::take(&mut results)));
        contents.extend(content("user", std::mem::take(&mut images)));
        match entry {
            PromptEntry::System(_) | PromptEntry::Result(_) => {}
            PromptEntry::User(parts) => {
                contents.extend(content("user", parts.iter().map(user_part).collect()));
            }
            PromptEntry::Agent(agent) => {
                names.extend(agent.calls.iter().map(|call| (call.id.as_ref(), call.name)));
                contents.extend(content("model", agent_parts(agent, &prompt.config.model)));
            }
        }
    }
    contents.extend(content("user", results));
    contents.extend(content("user", images));
    contents
}

fn content<'a>(role: &'static str, parts: Vec<GeminiPart<'a>>) -> Option<GeminiContent<'a>> {
    (!parts.is_empty()).then_some(GeminiContent { role, parts })
}

fn user_part<'a>(part: &'a prompt::UserPart<'a>) -> GeminiPart<'a> {
    match part {
        prompt::UserPart::Text(content_text) => text(content_text),
        prompt::UserPart::Image(of) => image(*of),
    }
}

fn image(image: Image<'_>) -> GeminiPart<'_> {
    match image {
        Image::Url(file_uri) => GeminiPart {
            file_data: Some(FileData { file_uri }),
            ..GeminiPart::default()
        },
        Image::Data { media_type, base64 } => GeminiPart {
            inline_data: Some(InlineData {
                mime_type: media_type,
                data: base64,
            }),
            ..GeminiPart::default()
        },
    }
}

/// Signatures are sent back on their own part: an item follows the text, or precedes the call, that it signs.
fn agent_parts<'a>(agent: &'a AgentMessage<'a>, model: &str) -> Vec<GeminiPart<'a>> {
    let mut parts: Vec<GeminiPart<'a>> = Vec::new();
    let mut signs_next = None;
    for block in agent.blocks(Api::Gemini, model) {
        match block {
            AgentBlock::Text(content_text) => parts.push(text(content_text)),
            AgentBlock::Call(call) => parts.push(GeminiPart {
                function_call: Some(FunctionCall {
                    id: own_id(&call.id),
                    name: call.name,
                    args: call.arguments(),
                }),
                thought_signature: signs_next.take(),
                ..GeminiPart::default()
            }),
            AgentBlock::Reasoning(item) if item["on"] == "call" => {
                signs_next = item["thoughtSignature"].as_str();
            }
            AgentBlock::Reasoning(item) => {
                let signed = signed_text(&mut parts, item["bytes"].as_u64());
                parts.push(GeminiPart {
                    thought_signature: item["thoughtSignature"].as_str(),
                    ..text(signed)
                });
            }
        }
    }
    parts
}

/// Splits the signed text from the end of the preceding text: signed and unsigned parts must not be
/// joined.
fn signed_text<'a>(parts: &mut Vec<GeminiPart<'a>>, bytes: Option<u64>) -> &'a str {
    let bytes = bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(0);
    let Some(last) = parts.last_mut().filter(|_| bytes > 0) else {
        return "";
    };
    let signed_text = last
        .text
        .filter(|_| last.thought_signature.is_none())
        .unwrap_or("");
    let Some((before, signed)) =
        signed_text.split_at_checked(signed_text.len().saturating_sub(bytes))
    else {
        return "";
    };
    if signed.is_empty() {
        return "";
    }
    last.text = Some(before);
    if before.is_empty() {
        parts.pop();
    }
    signed
}

/// A generated ID is omitted, because the provider does not know it.
fn own_id(id: &str) -> Option<&str> {
    (!id.starts_with(OWN_CALL_ID)).then_some(id)
}

fn result_part<'a>(result: &'a ToolAnswer<'a>, name: &'a str) -> GeminiPart<'a> {
    let key = if result.is_error { "error" } else { "output" };
    GeminiPart {
        function_response: Some(FunctionResponse {
            id: own_id(&result.call_id),
            name,
            response: json!({ key: result.text }),
        }),
        ..GeminiPart::default()
    }
}
