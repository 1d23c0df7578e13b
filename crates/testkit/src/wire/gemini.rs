//! Google's Gemini API. Calls arrive complete, and a signature is on the part that it signs.

use serde_json::{Value, json};

use super::{Answer, plain};

pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    };
    json!({ "error": { "code": status, "message": message, "status": kind } })
}

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in &answer.thinking {
        parts.push(json!({ "text": piece, "thought": true }));
    }
    for piece in &answer.text {
        parts.push(json!({ "text": piece }));
    }
    for (at, call) in answer.calls.iter().enumerate() {
        let arguments: Value = serde_json::from_str(&call.arguments.concat()).unwrap_or_default();
        let mut part = json!({ "functionCall": { "name": call.name, "args": arguments } });
        if !call.id.is_empty() {
            part["functionCall"]["id"] = json!(call.id);
        }
        if at == 0
            && let Some(signature) = &answer.signature
        {
            part["thoughtSignature"] = json!(signature);
        }
        parts.push(part);
    }
    let mut last = json!({ "text": "" });
    if answer.calls.is_empty()
        && let Some(signature) = &answer.signature
    {
        last["thoughtSignature"] = json!(signature);
    }
    let stop = answer.stop.as_deref().unwrap_or("STOP");
    let mut events: Vec<_> = parts
        .into_iter()
        .map(|part| chunk(part, None, answer))
        .collect();
    events.push(chunk(last, Some(stop), answer));
    events
}

fn chunk(part: Value, stop: Option<&str>, answer: &Answer) -> String {
    let tokens = answer.tokens;
    let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
    if let Some(stop) = stop {
        candidate["finishReason"] = json!(stop);
    }
    plain(
        &json!({ "candidates": [candidate], "modelVersion": "fake-1", "responseId": "resp_1",
        "usageMetadata": { "promptTokenCount": tokens.read, "cachedContentTokenCount": tokens.cached,
            "candidatesTokenCount": tokens.written - tokens.reasoning, "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.read + tokens.written } }),
    )
}
