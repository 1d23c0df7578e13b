//! Limits tool results to a size that a model can read.

use serde_json::Value;
use windlass_core::bounds::prefix;
use windlass_core::tools::ToolResult;

/// Truncates a result that is too long, at a character boundary, and appends its original length.
pub(crate) fn cap(result: &mut ToolResult, max_bytes: usize) {
    if let Some(error) = &mut result.error
        && error.len() > max_bytes
    {
        *error = cut(error, max_bytes);
        result.result = Some(serde_json::json!({ "error": error }));
        // The truncation note itself exceeds the limit and must not be truncated again.
        return;
    }
    let Some(value) = &mut result.result else {
        return;
    };
    match value {
        Value::String(text) if text.len() > max_bytes => {
            *value = Value::String(cut(text, max_bytes))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            if text.len() > max_bytes {
                *value = Value::String(cut(&text, max_bytes));
            }
        }
    }
}

/// Truncates a text that is too long.
pub(super) fn capped(text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        cut(&text, max_bytes)
    } else {
        text
    }
}

fn cut(text: &str, max_bytes: usize) -> String {
    let shown = prefix(text, max_bytes);
    let (bytes, all) = (shown.len(), text.len());
    format!("{shown}\n[cut: {bytes} of {all} bytes shown]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r14_long_result_is_cut_at_a_character_with_its_original_length() {
        let mut result = ToolResult::success("c", "é".repeat(50_000));
        cap(&mut result, 65_535);
        let text = result.result.unwrap();
        let text = text.as_str().unwrap();
        assert!(
            text.starts_with('é') && text.ends_with("é\n[cut: 65534 of 100000 bytes shown]"),
            "{}",
            &text[65_500..]
        );
    }

    #[test]
    fn short_results_are_unchanged() {
        let value = serde_json::json!({"a": [1, 2, 3]});
        let mut result = ToolResult::success("c", value.clone());
        cap(&mut result, 100);
        assert_eq!(result.result, Some(value));
        cap(&mut result, 5);
        assert_eq!(
            result.result,
            Some(Value::String("{\"a\":\n[cut: 5 of 13 bytes shown]".into()))
        );
    }

    #[test]
    fn a_long_error_is_cut_in_both_places() {
        let mut result = ToolResult::failure("c", "x".repeat(100));
        cap(&mut result, 10);
        assert_eq!(
            result.error.as_deref(),
            Some("xxxxxxxxxx\n[cut: 10 of 100 bytes shown]")
        );
        assert_eq!(
            result.result.unwrap()["error"],
            result.error.unwrap().as_str()
        );
    }
}
