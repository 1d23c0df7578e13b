//! What an agent tells while it carries a prompt.

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, BackendUsage, ObservedCall};

use crate::calls::Calls;
use crate::json::{count, id, raw, text};
use crate::protocol::Step;

/// Returns the text of a piece of content, if it is one.
pub(super) fn piece(update: &Value) -> Option<&str> {
    let content = update.get("content")?;
    let is_text = text(content, "type") == Some("text");
    text(content, "text").filter(|text| is_text && !text.is_empty())
}

/// Tells a piece of the answer or of a thought.
pub(super) fn said(update: &Value, line: &[u8]) -> Vec<Step> {
    let kind = text(update, "sessionUpdate");
    let Some(piece) = piece(update) else {
        return vec![raw(kind, line)];
    };
    let text = piece.to_owned();
    vec![Step::Event(match kind {
        Some("agent_thought_chunk") => BackendEvent::Thinking { text, parent: None },
        _ => BackendEvent::Text {
            text,
            message: id(update, "messageId").map(str::to_owned),
            parent: None,
        },
    })]
}

/// Tells what became of a call. Some agents never tell its start.
pub(super) fn call(calls: &mut Calls, update: &Value) -> Vec<Step> {
    let Some(call_id) = id(update, "toolCallId") else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    let name = text(update, "title").or(text(update, "kind"));
    if text(update, "sessionUpdate") == Some("tool_call") {
        steps.extend(calls.start(ObservedCall {
            id: call_id.to_owned(),
            name: name.unwrap_or("unknown").to_owned(),
            arguments: update.get("rawInput").cloned().unwrap_or(Value::Null),
            parent: None,
        }));
    } else if let Some(name) = name {
        calls.name(call_id, name);
    }
    match text(update, "status") {
        Some(status @ ("completed" | "failed")) => {
            let output = match (update.get("rawOutput"), update.get("content")) {
                (Some(raw), _) if !raw.is_null() => raw.clone(),
                (_, Some(content)) => content.clone(),
                (_, None) => json!(null),
            };
            steps.extend(calls.end(call_id, output, status == "failed"));
        }
        // It only has to be told as started; pieces of output come whole at its end.
        _ => steps.extend(calls.output(call_id, "")),
    }
    steps
}

/// Reads what a prompt used; adapters and Gemini say it in different places.
pub(super) fn tokens(result: &Value) -> Option<BackendUsage> {
    if let Some(usage) = result.get("usage").filter(|usage| usage.is_object()) {
        return Some(BackendUsage {
            input_tokens: count(usage, "inputTokens"),
            cached_tokens: count(usage, "cachedReadTokens"),
            cache_write_tokens: count(usage, "cachedWriteTokens"),
            output_tokens: count(usage, "outputTokens"),
            reasoning_tokens: count(usage, "thoughtTokens"),
            cost_usd: None,
        });
    }
    let tokens = result.pointer("/_meta/quota/token_count");
    tokens.filter(|tokens| tokens.is_object()).map(|tokens| {
        let either = |codex: &str, gemini: &str| count(tokens, codex).max(count(tokens, gemini));
        BackendUsage {
            input_tokens: either("inputTokens", "input_tokens"),
            cached_tokens: count(tokens, "cachedInputTokens"),
            cache_write_tokens: count(tokens, "cacheWriteInputTokens"),
            output_tokens: either("outputTokens", "output_tokens"),
            reasoning_tokens: count(tokens, "reasoningOutputTokens"),
            cost_usd: None,
        }
    })
}

/// Reads the size of the agent's context. The model call that filled it read or wrote at least as many tokens.
pub(super) fn context_tokens(update: &Value) -> Option<BackendUsage> {
    let input_tokens = count(update, "used");
    (input_tokens > 0).then(|| BackendUsage {
        input_tokens,
        ..BackendUsage::default()
    })
}

/// Reads the cost of the whole session.
pub(super) fn cost(update: &Value) -> Option<f64> {
    let cost = update.get("cost")?;
    let is_usd = text(cost, "currency").is_none_or(|currency| currency == "USD");
    cost.get("amount")
        .and_then(Value::as_f64)
        .filter(|_| is_usd)
}
