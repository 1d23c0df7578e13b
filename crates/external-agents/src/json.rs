//! Reading JSON lines from programs that may write arbitrary data.

use serde_json::Value;
use windlass_core::backend::{BackendError, BackendErrorKind, BackendEvent, BackendNotice};
use windlass_core::bounds::{json_bytes, prefix};

use crate::protocol::Step;

/// Maximum bytes reported of a line that is not understood.
const MAX_RAW_BYTES: usize = 16 * 1024;

/// Maximum length of an ID in bytes; longer IDs are ignored.
pub(crate) const MAX_ID_BYTES: usize = 256;
/// Maximum bytes reported of a value. The runtime truncates further.
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Parses a line as a JSON object; `None` if it is not one. The parser limits the nesting depth.
pub(crate) fn object(line: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(line).ok()?;
    value.is_object().then_some(value)
}

/// Reports a line that is not understood.
pub(crate) fn raw(kind: Option<&str>, line: &[u8]) -> Step {
    let cut = &line[..line.len().min(MAX_RAW_BYTES)];
    let kind = kind.map(|kind| cut_text(kind, 128));
    let line = String::from_utf8_lossy(cut).into_owned();
    notice(BackendNotice::Raw { kind, line })
}

/// Reports a line that is not understood, unless it is blank.
pub(crate) fn raw_unless_blank(line: &[u8]) -> Vec<Step> {
    if line.iter().all(u8::is_ascii_whitespace) {
        Vec::new()
    } else {
        vec![raw(None, line)]
    }
}

pub(crate) fn notice(notice: BackendNotice) -> Step {
    Step::Event(BackendEvent::Notice(notice))
}

pub(crate) fn warning(text: impl Into<String>) -> Step {
    notice(BackendNotice::Warning(text.into()))
}

/// Marks the process as unusable: there will be no session.
pub(crate) fn broken(kind: BackendErrorKind, message: impl Into<String>) -> Vec<Step> {
    vec![Step::Broken(BackendError::new(kind, message))]
}

/// Reports a chunk of an answer; `None` if the chunk is empty.
pub(crate) fn answer_text(
    piece: Option<&str>,
    message: Option<String>,
    parent: Option<String>,
) -> Option<Step> {
    let text = piece.filter(|piece| !piece.is_empty())?.to_owned();
    Some(Step::Event(BackendEvent::Text {
        text,
        message,
        parent,
    }))
}

/// Reports a chunk of reasoning; `None` if the chunk is empty.
pub(crate) fn thinking(piece: Option<&str>, parent: Option<String>) -> Option<Step> {
    let text = piece.filter(|piece| !piece.is_empty())?.to_owned();
    Some(Step::Event(BackendEvent::Thinking { text, parent }))
}

/// Returns the named fields that are not null.
pub(crate) fn fields(value: &Value, names: &[&str]) -> Value {
    let present = names.iter().filter_map(|name| {
        let field = value.get(name).filter(|field| !field.is_null())?;
        Some(((*name).to_owned(), field.clone()))
    });
    Value::Object(present.collect())
}

/// Returns a string field.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value[field].as_str()
}

/// Returns an ID field: a non-empty string within the length limit.
pub(crate) fn id<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    text(value, field).filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)
}

/// Returns the request's ID as JSON text, unless it is too long.
pub(crate) fn request_name(request: &Value) -> Option<String> {
    let name = request.to_string();
    (name.len() <= MAX_ID_BYTES).then_some(name)
}

/// Returns whether a value exceeds the reporting limit.
pub(crate) fn is_large(value: &Value) -> bool {
    json_bytes(value) > MAX_VALUE_BYTES
}

/// Returns the value, or the beginning of its JSON text if it is too large.
pub(crate) fn capped(value: Value) -> Value {
    if is_large(&value) {
        match value {
            Value::String(text) => cut_text(&text, MAX_VALUE_BYTES).into(),
            other => cut_text(&other.to_string(), MAX_VALUE_BYTES).into(),
        }
    } else {
        value
    }
}

/// Returns a numeric field; 0 if it is not a non-negative integer.
pub(crate) fn count(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or(0)
}

/// Returns a field that contains an HTTP status.
pub(crate) fn status(value: &Value, field: &str) -> Option<u16> {
    u16::try_from(value[field].as_u64()?).ok()
}

/// Returns the beginning of a text, at most `max_bytes` long.
pub(crate) fn cut_text(text: &str, max_bytes: usize) -> String {
    prefix(text, max_bytes).to_owned()
}
