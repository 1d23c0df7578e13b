//! Tool results: limited in size, without terminal control characters.

use serde_json::{Value, json};
use windlass_core::bounds::{lines, prefix, suffix};
use windlass_protocol::CallError;

/// Maximum size of the text of a result and of its data, in bytes each.
pub(super) const LIMIT: usize = 64 * 1024;

/// A tool error, returned to the model that made the call.
#[derive(Debug)]
pub(super) struct ToolRefusal {
    code: String,
    message: String,
}

impl ToolRefusal {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }

    /// An argument is invalid.
    pub(super) fn field(message: impl Into<String>) -> Self {
        Self::new("invalid_field", message)
    }

    pub(super) fn result(&self) -> Value {
        self.result_with(json!({}))
    }

    /// Like [`result`](Self::result), with additional data.
    pub(super) fn result_with(&self, mut data: Value) -> Value {
        let message = beginning(&lines(&self.message), LIMIT);
        let code = lines(&self.code);
        let mut text = format!("error ({code}): {message}");
        if let Some(thread) = data["thread_id"].as_str() {
            text.push_str(&format!("\nthread_id: {thread}"));
        }
        data["error"] = json!({ "code": code, "message": message });
        let content = json!([{ "type": "text", "text": text }]);
        json!({ "content": content, "structuredContent": data, "isError": true })
    }
}

impl From<CallError> for ToolRefusal {
    fn from(error: CallError) -> Self {
        let code = error.code().map_or("internal", |code| code.as_str());
        Self::new(code, error.to_string())
    }
}

impl From<anyhow::Error> for ToolRefusal {
    fn from(error: anyhow::Error) -> Self {
        Self::new("internal", crate::cli::error_text(&error))
    }
}

/// Returns structured data, also as text for clients that read only text.
pub(super) fn data(data: Value) -> Value {
    let data = clean(data);
    let content = json!([{ "type": "text", "text": data.to_string() }]);
    json!({ "content": content, "structuredContent": data, "isError": false })
}

/// Returns a result with several texts.
pub(super) fn texts(texts: &[&str]) -> Value {
    let content = texts
        .iter()
        .map(|text| json!({ "type": "text", "text": text }));
    json!({ "content": content.collect::<Vec<_>>(), "isError": false })
}

/// Escapes terminal control characters in all strings of a value.
pub(super) fn clean(value: Value) -> Value {
    match value {
        Value::String(text) => lines(&text).into_owned().into(),
        Value::Array(items) => items.into_iter().map(clean).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (lines(&name).into_owned(), clean(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// Takes entries up to the size limit; the flag is `true` if some were omitted.
pub(super) fn limit_entries(entries: impl IntoIterator<Item = Value>) -> (Vec<Value>, bool) {
    let (mut taken, mut size) = (Vec::new(), 0);
    for entry in entries {
        let entry = clean(entry);
        size += entry.to_string().len() + 1;
        if size > LIMIT {
            return (taken, true);
        }
        taken.push(entry);
    }
    (taken, false)
}

/// Returns the first `limit` bytes of a text and marks the cut.
pub(super) fn beginning(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let shown = prefix(text, limit);
    let omitted = text.len() - shown.len();
    format!("{shown}\n[{omitted} more bytes are omitted]")
}

/// Returns the last `limit` bytes of a text and marks the cut.
pub(super) fn end(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let shown = suffix(text, limit);
    let omitted = text.len() - shown.len();
    format!("[{omitted} preceding bytes are omitted]\n{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_marked() {
        assert_eq!(beginning("ääää", 8), "ääää");
        assert_eq!(beginning("ääää", 5), "ää\n[4 more bytes are omitted]");
        assert_eq!(end("ääää", 8), "ääää");
        assert_eq!(end("ääää", 5), "[4 preceding bytes are omitted]\nää");
    }

    #[test]
    fn entries_are_limited_and_escaped() {
        let entry = json!({ "a": "x\u{1b}[2J".to_owned() + &"y".repeat(LIMIT / 3) });
        let (taken, is_more) = limit_entries(vec![entry; 5]);
        assert_eq!((taken.len(), is_more), (2, true));
        assert!(
            taken[0]["a"].as_str().unwrap().starts_with("x\\u{1b}[2J"),
            "{taken:?}"
        );
        assert_eq!(limit_entries([json!(1)]), (vec![json!(1)], false));
    }
}
