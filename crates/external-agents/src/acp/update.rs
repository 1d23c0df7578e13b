//! Session updates that an agent sends while it processes a prompt.

use serde_json::{Value, json};
use windlass_core::backend::{BackendUsage, ObservedCall};

use crate::calls::Calls;
use crate::json::{count, id, text};
use crate::protocol::Step;

/// Returns the text of a content chunk, if the update is one.
pub(super) fn chunk(update: &Value) -> Option<&str> {
    let content = update.get("content")?;
    let is_text = text(content, "type") == Some("text");
    text(content, "text").filter(|text| is_text && !text.is_empty())
}

/// Reports the progress of a call. Some agents never report that it started.
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
        // Only the start must be reported here; the end contains the complete output.
        _ => steps.extend(calls.output(call_id, "")),
    }
    steps
}

/// Returns the steps of a plan; `None` if they have another form than those of our tool.
pub(super) fn plan_entries(update: &Value) -> Option<&Value> {
    let entries = update.get("entries")?;
    let is_step = |entry: &Value| {
        let status = text(entry, "status");
        text(entry, "content").is_some()
            && matches!(status, Some("pending" | "in_progress" | "completed"))
    };
    entries.as_array()?.iter().all(is_step).then_some(entries)
}

/// Reads the token usage of a prompt; adapters and Gemini report it in different fields.
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

/// Reads the size of the agent's context. The model call that filled it read or wrote at least that many tokens.
pub(super) fn context_tokens(update: &Value) -> Option<BackendUsage> {
    let input_tokens = count(update, "used");
    (input_tokens > 0).then(|| BackendUsage {
        input_tokens,
        ..BackendUsage::default()
    })
}

/// Reads the cumulative cost of the session.
pub(super) fn cost(update: &Value) -> Option<f64> {
    let cost = update.get("cost")?;
    let is_usd = text(cost, "currency").is_none_or(|currency| currency == "USD");
    cost["amount"].as_f64().filter(|_| is_usd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plans_in_the_known_form_are_read() {
        let step = |status: &str| json!({ "content": "Read", "priority": "low", "status": status });
        let plan = json!({ "entries": [step("pending"), step("in_progress"), step("completed")] });
        assert_eq!(plan_entries(&plan), plan.get("entries"));
        for other in [
            json!({}),
            json!({ "entries": "none" }),
            json!({ "entries": [step("waiting")] }),
            json!({ "entries": [{ "status": "pending" }] }),
        ] {
            assert_eq!(plan_entries(&other), None, "{other}");
        }
    }
}
