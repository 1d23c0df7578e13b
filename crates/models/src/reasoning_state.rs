//! Reasoning of an answer that is sent back in the next request.
//!
//! A provider expects its own reasoning unchanged and in position, and other providers or models refuse it. Each item is therefore stored in an
//! envelope with its provider and model, and with the text and number of calls before it.

use serde_json::{Value, json};

use crate::api::Api;

/// A stored reasoning item and its position: the bytes of text and the number of calls before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredReasoning<'a> {
    pub(crate) text: usize,
    pub(crate) calls: usize,
    pub(crate) item: &'a Value,
}

pub(crate) fn wrap(api: Api, model: &str, text: usize, calls: usize, item: Value) -> Value {
    json!({ "api": api.as_str(), "model": model, "text": text, "calls": calls, "item": item })
}

/// Returns the items of this API and model.
pub(crate) fn items<'a>(
    items: &'a [Value],
    api: Api,
    model: &str,
) -> impl Iterator<Item = StoredReasoning<'a>> {
    items.iter().filter_map(move |envelope| {
        let is = |name, wanted: &str| envelope.get(name).and_then(Value::as_str) == Some(wanted);
        let count = |name| {
            let count = envelope.get(name)?.as_u64()?;
            usize::try_from(count).ok()
        };
        (is("api", api.as_str()) && is("model", model)).then_some(())?;
        Some(StoredReasoning {
            text: count("text")?,
            calls: count("calls")?,
            item: envelope.get("item")?,
        })
    })
}
