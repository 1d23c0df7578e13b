//! Finds the JSON in a model's text.

use serde::de::DeserializeOwned;

/// Parses a value from a text: the whole text, else its last fenced block that parses, else the part between the first and the last bracket. The
/// error refers to the most likely of them.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut first_error = None;
    for candidate in candidates(text) {
        match serde_json::from_str(candidate) {
            Ok(value) => return Ok(value),
            Err(error) => {
                first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }
    Err(first_error.unwrap_or_else(|| "there is no JSON in it".to_owned()))
}

fn candidates(text: &str) -> Vec<&str> {
    let text = text.trim();
    let mut found = fenced(text);
    found.reverse();
    found.extend(bracketed(text));
    if text.starts_with(['{', '[', '"']) || found.is_empty() && !text.is_empty() {
        found.insert(0, text);
    }
    found
}

/// The contents of blocks between lines that begin with three backticks.
fn fenced(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let (mut at, mut open) = (0, None);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.trim_start().starts_with("```") {
            open = match open {
                None => Some(end),
                Some(start) => {
                    blocks.push(text[start..at].trim());
                    None
                }
            };
        }
        at = end;
    }
    blocks
}

fn bracketed(text: &str) -> Option<&str> {
    let start = text.find(['{', '['])?;
    let end = text.rfind(['}', ']'])?;
    text.get(start..=end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn json_is_found_in_any_position() {
        for text in [
            "{\"a\": 1}",
            "  {\"a\": 1}\n",
            "Here:\n```json\n{\"a\": 1}\n```\nDone.",
            "```\n{\"a\": 1}\n```",
            "First\n```json\n{\"b\": }\n```\nthen\n  ```json\n{\"a\": 1}\n  ```",
            "It is {\"a\": 1}, I think.",
        ] {
            assert_eq!(parse::<Value>(text).unwrap(), json!({"a": 1}), "{text}");
        }
        assert_eq!(parse::<i64>("42").unwrap(), 42);
        assert_eq!(parse::<String>("\"{x}\"").unwrap(), "{x}");
    }

    #[test]
    fn block_that_parses_is_preferred() {
        let text = "```json\n{\"a\": 1}\n```\n```json\n[1, 2]\n```";
        assert_eq!(parse::<Vec<i64>>(text).unwrap(), [1, 2]);
        let map: std::collections::BTreeMap<String, i64> = parse(text).unwrap();
        assert_eq!(map["a"], 1);
    }

    #[test]
    fn error_describes_the_mismatch_and_odd_text_does_not_panic() {
        let error = parse::<Vec<i64>>("{\"a\": 1}").unwrap_err();
        assert!(error.contains("expected a sequence"), "{error}");
        for text in ["", "no", "```", "}{", "é```é", "```json\n{", "]é["] {
            assert!(parse::<Value>(text).is_err(), "{text}");
        }
    }
}
