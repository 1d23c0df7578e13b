//! Calls whose arguments arrive in pieces.

use serde_json::{Map, Value};
use windlass_core::tool_types::ToolCall;

/// What ids of calls begin with that the provider left without one.
pub(crate) const OWN_CALL_ID: &str = "wl_call_";

/// A call under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallPieces {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The arguments, where they came as a value.
    pub(crate) whole: Option<Value>,
}

impl CallPieces {
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

/// Reads arguments. What is no JSON stays a text: no schema of arguments accepts one, so the call is refused with
/// the text in the reason, and the model can mend it.
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
    fn broken_arguments_stay_a_text_and_none_are_an_empty_object() {
        assert_eq!(parse(""), json!({}));
        assert_eq!(parse(" {\"a\":1}"), json!({"a": 1}));
        assert_eq!(parse("{\"a\":"), json!("{\"a\":"));
    }

    #[test]
    fn a_call_without_id_gets_one_that_differs_from_answer_to_answer() {
        let id = |seed, n| CallPieces::default().finish(seed, n).id;
        assert_eq!(id("x", 1), "wl_call_x_1");
        assert_ne!(id("x", 1), id("y", 1));
    }
}
