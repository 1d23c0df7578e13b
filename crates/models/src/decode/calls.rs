//! Calls whose arguments arrive in chunks.

use serde_json::{Map, Value};
use windlass_core::tool_types::ToolCall;

/// Prefix of generated call IDs, for calls without a provider ID.
pub(crate) const OWN_CALL_ID: &str = "wl_call_";

/// A call that is still being received.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PartialCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The arguments, if they arrived as a JSON value.
    pub(crate) whole: Option<Value>,
}

impl PartialCall {
    pub(super) fn finish(self, seed: &str, n: usize) -> ToolCall {
        let id = if self.id.is_empty() {
            format!("{OWN_CALL_ID}{seed}_{n}")
        } else {
            self.id
        };
        let arguments = match self.whole {
            Some(whole) if self.arguments.is_empty() => whole,
            _ => parse(&self.arguments),
        };
        ToolCall {
            id,
            name: self.name,
            arguments,
        }
    }
}

/// Parses arguments. Invalid JSON stays a string: no argument schema accepts one, so the call is refused with
/// the text in the reason, and the model can correct it.
fn parse(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn broken_arguments_stay_text_and_missing_ones_are_an_empty_object() {
        assert_eq!(parse(""), json!({}));
        assert_eq!(parse(" {\"a\":1}"), json!({"a": 1}));
        assert_eq!(parse("{\"a\":"), json!("{\"a\":"));
    }

    #[test]
    fn call_without_id_gets_a_unique_one() {
        let id = |seed, n| PartialCall::default().finish(seed, n).id;
        assert_eq!(id("x", 1), "wl_call_x_1");
        assert_ne!(id("x", 1), id("y", 1));
    }
}
