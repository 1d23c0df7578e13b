//! Usage that agents of the Agent Client Protocol report, in three ways.

use serde_json::{Value, json};
use windlass_core::backend::{BackendSpec, BackendUsage};
use windlass_external_agents::{Acp, AcpSettings, Protocol};

/// Lets an agent send these updates in a turn, and end its prompt with this result.
fn used(updates: &[Value], result: &Value) -> BackendUsage {
    let mut acp = Acp::new(&BackendSpec::new("test", "/"), AcpSettings::default());
    acp.begin();
    acp.line(br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#);
    acp.line(br#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#);
    acp.prompt("go");
    for update in updates {
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        acp.line(line.to_string().as_bytes());
    }
    acp.line(
        json!({"jsonrpc": "2.0", "id": 3, "result": result})
            .to_string()
            .as_bytes(),
    );
    acp.usage().unwrap_or_default()
}

fn context(used: u64) -> Value {
    json!({"sessionUpdate": "usage_update", "used": used, "size": 258_400})
}

#[test]
fn usage_of_a_prompt_is_reported() {
    let usage = json!({"totalTokens": 42, "inputTokens": 22, "cachedReadTokens": 6, "cachedWriteTokens": 0,
        "outputTokens": 14, "thoughtTokens": 2});
    let used = used(
        &[context(21)],
        &json!({"stopReason": "end_turn", "usage": usage}),
    );
    let expected = BackendUsage {
        input_tokens: 22,
        cached_tokens: 6,
        output_tokens: 14,
        reasoning_tokens: 2,
        ..BackendUsage::default()
    };
    assert_eq!(used, expected);
}

#[test]
fn both_spellings_of_metadata_counts_are_read() {
    let codex = json!({"totalTokens": 42, "inputTokens": 22, "cachedInputTokens": 6, "cacheWriteInputTokens": 1,
        "outputTokens": 14, "reasoningOutputTokens": 2});
    let gemini = json!({"input_tokens": 28, "output_tokens": 14});
    for (counts, expected) in [(codex, [22, 6, 1, 14, 2]), (gemini, [28, 0, 0, 14, 0])] {
        let meta = json!({"quota": {"token_count": counts}});
        let used = used(
            &[],
            &json!({"stopReason": "end_turn", "usage": null, "_meta": meta}),
        );
        let fields = [
            used.input_tokens,
            used.cached_tokens,
            used.cache_write_tokens,
            used.output_tokens,
            used.reasoning_tokens,
        ];
        assert_eq!(fields, expected);
    }
}

#[test]
fn reported_context_is_a_lower_bound_of_usage() {
    let updates = [context(100), context(250), context(180)];
    let used = used(&updates, &json!({"stopReason": "end_turn"}));
    assert_eq!((used.input_tokens, used.output_tokens), (250, 0));
}
