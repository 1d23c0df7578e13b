//! Reasoning of an answer that is sent back in the next request.
//!
//! A provider wants its own reasoning back unchanged and in position, and another provider or model would refuse it. So each item is stored in an
//! envelope with its provider and model, and with the text and number of calls before it.

use serde_json::{Value, json};

use crate::api::Api;

/// An item on its way back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<'a> {
    pub(crate) text: usize,
    pub(crate) calls: usize,
    pub(crate) item: &'a Value,
}

pub(crate) fn wrap(api: Api, model: &str, text: usize, calls: usize, item: Value) -> Value {
    json!({ "api": api.as_str(), "model": model, "text": text, "calls": calls, "item": item })
}

/// Goes through the items that this API and model made.
pub(crate) fn items<'a>(
    items: &'a [Value],
    api: Api,
    model: &str,
) -> impl Iterator<Item = Carried<'a>> {
    items.iter().filter_map(move |envelope| {
        let is = |name, wanted: &str| envelope.get(name).and_then(Value::as_str) == Some(wanted);
        let count = |name| {
            let count = envelope.get(name)?.as_u64()?;
            usize::try_from(count).ok()
        };
        (is("api", api.as_str()) && is("model", model)).then_some(())?;
        Some(Carried {
            text: count("text")?,
            calls: count("calls")?,
            item: envelope.get("item")?,
        })
    })
}
