//! OpenAI's Chat Completions, with the reasoning fields of DeepSeek and vLLM.

use serde_json::{Value, json};

use super::{Answer, plain};

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut events = vec![chunk(
        json!({ "role": "assistant", "content": "" }),
        Value::Null,
    )];
    let mut push = |delta: Value| events.push(chunk(delta, Value::Null));
    for piece in &answer.thinking {
        push(json!({ "reasoning_content": piece }));
    }
    for piece in &answer.text {
        push(json!({ "content": piece }));
    }
    for (at, call) in answer.calls.iter().enumerate() {
        push(
            json!({ "tool_calls": [{ "index": at, "id": call.id, "type": "function",
            "function": { "name": call.name, "arguments": "" } }] }),
        );
        for piece in &call.arguments {
            push(json!({ "tool_calls": [{ "index": at, "function": { "arguments": piece } }] }));
        }
    }
    let stop = if answer.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let stop = answer.stop.as_deref().unwrap_or(stop);
    events.push(chunk(json!({}), json!(stop)));
    let tokens = answer.tokens;
    events.push(plain(&json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "fake-1", "choices": [],
        "usage": { "prompt_tokens": tokens.read, "completion_tokens": tokens.written,
            "total_tokens": tokens.read + tokens.written,
            "prompt_tokens_details": { "cached_tokens": tokens.cached },
            "completion_tokens_details": { "reasoning_tokens": tokens.reasoning } } })));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn chunk(delta: Value, finish_reason: Value) -> String {
    plain(
        &json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "fake-1",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }] }),
    )
}
