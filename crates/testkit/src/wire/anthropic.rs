//! Anthropic's Messages API.

use serde_json::{Value, json};

use super::{Answer, named};

pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" })
}

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let tokens = answer.tokens;
    let usage = |written: u32| {
        json!({ "input_tokens": tokens.read - tokens.cached, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": tokens.cached, "output_tokens": written })
    };
    let mut events = Vec::new();
    let mut push = |mut event: Value, name: &str| {
        event["type"] = json!(name);
        events.push(named(name, &event));
    };
    push(
        json!({ "message": { "id": "msg_1", "type": "message", "role": "assistant", "model": "fake-1", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage(1) } }),
        "message_start",
    );
    push(json!({}), "ping");
    for (at, (block, deltas)) in blocks(answer).into_iter().enumerate() {
        push(
            json!({ "index": at, "content_block": block }),
            "content_block_start",
        );
        for delta in deltas {
            push(
                json!({ "index": at, "delta": delta }),
                "content_block_delta",
            );
        }
        push(json!({ "index": at }), "content_block_stop");
    }
    let stop = if answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    let stop = answer.stop.as_deref().unwrap_or(stop);
    let mut end = usage(tokens.written);
    end["output_tokens_details"] = json!({ "thinking_tokens": tokens.reasoning });
    push(
        json!({ "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": end }),
        "message_delta",
    );
    push(json!({}), "message_stop");
    events
}

fn blocks(answer: &Answer) -> Vec<(Value, Vec<Value>)> {
    let mut blocks = Vec::new();
    if !answer.thinking.is_empty() || answer.signature.is_some() {
        let texts = answer.thinking.iter();
        let mut deltas: Vec<_> = texts
            .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }))
            .collect();
        let signature = answer.signature.iter();
        deltas
            .extend(signature.map(|text| json!({ "type": "signature_delta", "signature": text })));
        blocks.push((
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            deltas,
        ));
    }
    if !answer.text.is_empty() {
        let texts = answer.text.iter();
        let deltas = texts.map(|piece| json!({ "type": "text_delta", "text": piece }));
        blocks.push((json!({ "type": "text", "text": "" }), deltas.collect()));
    }
    for call in &answer.calls {
        let pieces = call.arguments.iter();
        let deltas =
            pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        blocks.push((block, deltas.collect()));
    }
    blocks
}
