//! JSON output without terminal control characters.

use std::io::{self, Write};

use serde::Serialize;
use windlass_core::bounds::{is_active, one_line};
use windlass_protocol::RuntimeEventEnvelope;

/// Formats a value as a line of JSON without terminal control characters.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|json| inert(&json))
}

/// Writes a value as a line of JSON without terminal control characters.
pub(crate) fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", json_line(value)?)
}

/// Writes each value as a line of JSON without terminal control characters.
pub(crate) fn write_json_lines<'a, T: Serialize + 'a>(
    out: &mut impl Write,
    values: impl IntoIterator<Item = &'a T>,
) -> io::Result<()> {
    values
        .into_iter()
        .try_for_each(|value| write_json(out, value))
}

/// Writes a value as a line: JSON for programs, else text without terminal control characters.
pub(crate) fn write_value(
    out: &mut impl Write,
    is_json: bool,
    value: &impl Serialize,
    text: &str,
) -> io::Result<()> {
    if is_json {
        write_json(out, value)
    } else {
        writeln!(out, "{}", one_line(text))
    }
}

/// Formats an event as a line of JSON without terminal control characters, including fields that only a newer daemon knows.
pub(crate) fn event_line(event: &RuntimeEventEnvelope) -> serde_json::Result<String> {
    match &event.received {
        Some(json) => Ok(inert(json)),
        None => json_line(event),
    }
}

/// Escapes terminal control characters in JSON. They occur only inside strings, so the meaning does not change.
fn inert(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7F}'.. if is_active(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => shown.push(character),
        }
    }
    shown
}

/// Copies JSON and escapes terminal control characters.
pub(crate) struct Inert<W> {
    to: W,
    /// The beginning of an incomplete UTF-8 sequence.
    rest: Vec<u8>,
}

impl<W> Inert<W> {
    pub(crate) fn new(to: W) -> Self {
        let rest = Vec::new();
        Self { to, rest }
    }
}

impl<W: Write> Write for Inert<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(_) => self.rest.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let rest = self.rest.split_off(whole);
        let text = std::mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(&text);
        self.to.write_all(inert(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn event_line_preserves_fields_of_a_newer_daemon() {
        let received = json!({
            "schema_version": 1, "seq": 1, "event": "approval.timeout", "kind": "approval.timeout", "thread_id": "thr_1",
            "turn_id": null, "item_id": null, "timestamp": "", "created_at": "", "added": "\u{9b}",
            "payload": { "approval_id": "apr_1", "timeout_secs": 1, "added": [1] },
        });
        let mut event: RuntimeEventEnvelope = serde_json::from_value(received.clone()).unwrap();
        event.received = Some(received.to_string().into());
        let line = event_line(&event).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), received);
        assert!(!line.chars().any(is_active), "{line}");
    }

    #[test]
    fn escaped_json_has_the_same_value_and_no_control_characters() {
        let value = serde_json::json!({ "a\u{9b}": ["\u{7f}\u{202e}\u{e0041}", "ä 木 \x1b"] });
        let line = json_line(&value).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            value
        );
        assert!(!line.chars().any(is_active), "{line}");
        assert!(line.contains("ä 木"), "{line}");
        // A character may be split between writes.
        let mut written = Vec::new();
        let mut pieces = Inert::new(&mut written);
        for byte in format!("{value}\n").as_bytes() {
            pieces.write_all(&[*byte]).unwrap();
        }
        assert_eq!(String::from_utf8(written).unwrap(), format!("{line}\n"));
    }
}
