//! The form of a server-sent event.

use serde::Serialize;

/// Returns the lines before the data of an event. With an id, a reader can continue after it.
#[must_use]
pub fn frame_head(id: Option<&str>, name: &str) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: ")
}

/// The end of an event.
pub const FRAME_END: &str = "\n\n";

/// Encodes an event that one reader receives.
#[must_use]
pub fn frame(id: Option<&str>, name: &str, data: &impl Serialize) -> Vec<u8> {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    [&frame_head(id, name), &data, FRAME_END]
        .concat()
        .into_bytes()
}
