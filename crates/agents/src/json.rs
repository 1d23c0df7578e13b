//! Reading lines of JSON from programs that may write anything.

use serde_json::Value;
use windlass_core::backend::{BackendEvent, BackendNotice};

use crate::protocol::Step;

/// How much of a line is told that nobody understands.
const MAX_RAW_BYTES: usize = 16 * 1024;

/// How long an id may be; a longer one is none.
pub(crate) const MAX_ID_BYTES: usize = 256;
/// How much of a value is told. The runtime cuts further.
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Reads a line as an object; `None` if it is none. The depth is limited by the reader.
pub(crate) fn object(line: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value.is_object().then_some(value)
}

/// Tells a line that nobody understands.
pub(crate) fn raw(kind: Option<&str>, line: &[u8]) -> Step {
    let cut = &line[..line.len().min(MAX_RAW_BYTES)];
    let kind = kind.map(|kind| cut_text(kind, 128));
    let line = String::from_utf8_lossy(cut).into_owned();
    notice(BackendNotice::Raw { kind, line })
}

/// Tells what nobody understands, if there is something to tell.
pub(crate) fn raw_unless_blank(line: &[u8]) -> Vec<Step> {
    match line.iter().all(u8::is_ascii_whitespace) {
        true => Vec::new(),
        false => vec![raw(None, line)],
    }
}

pub(crate) fn notice(notice: BackendNotice) -> Step {
    Step::Event(BackendEvent::Notice(notice))
}

pub(crate) fn warning(text: impl Into<String>) -> Step {
    notice(BackendNotice::Warning(text.into()))
}

/// Returns a field that holds a text.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// Returns a field that holds an id: a text that is not empty and not long.
pub(crate) fn id<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    text(value, field).filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)
}

/// Returns the name of a request: its id as it is written, unless that is long.
pub(crate) fn request_name(request: &Value) -> Option<String> {
    let name = request.to_string();
    (name.len() <= MAX_ID_BYTES).then_some(name)
}

/// Tells whether a value is larger than what is told of one.
pub(crate) fn is_large(value: &Value) -> bool {
    bytes(value) > MAX_VALUE_BYTES
}

/// Returns a value, or the beginning of its text where it is large.
pub(crate) fn capped(value: Value) -> Value {
    match is_large(&value) {
        true => match value {
            Value::String(text) => cut_text(&text, MAX_VALUE_BYTES).into(),
            other => cut_text(&other.to_string(), MAX_VALUE_BYTES).into(),
        },
        false => value,
    }
}

/// Returns about how many bytes a value takes.
pub(crate) fn bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(all) => all.iter().map(|one| bytes(one) + 8).sum(),
        Value::Object(all) => {
            let fields = all.iter();
            fields.map(|(name, one)| name.len() + bytes(one) + 8).sum()
        }
    }
}

/// Returns a field that holds a count; what is no count is none.
pub(crate) fn count(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns a field that holds an HTTP status.
pub(crate) fn status(value: &Value, field: &str) -> Option<u16> {
    let status = value.get(field).and_then(Value::as_u64)?;
    u16::try_from(status).ok()
}

/// Returns the beginning of a text, up to so many bytes.
pub(crate) fn cut_text(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
