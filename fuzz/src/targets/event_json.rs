//! The JSON of events.

use serde_json::{Map, Value, json};
use windlass_core::events::{EVENT_TYPES, Event};

/// What decodes as an event encodes and decodes to the same event; anything else fails without a panic.
///
/// Bytes that are no JSON seldom get far, so they are tried a second time as the payload of an event whose envelope
/// is in order: the first byte chooses the type, the rest builds a value.
pub fn event_json(data: &[u8]) {
    if let Ok(event) = serde_json::from_slice::<Event>(data) {
        survives(&event);
    }
    let mut source = ByteSource { rest: data };
    let envelope = source.envelope();
    let text = envelope.to_string();
    if let Ok(event) = serde_json::from_str::<Event>(&text) {
        survives(&event);
    }
}

fn survives(event: &Event) {
    let Ok(json) = serde_json::to_vec(event) else {
        panic!("an event that was read cannot be written: {event:?}")
    };
    match serde_json::from_slice::<Event>(&json) {
        Ok(again) => assert_eq!(again, *event, "the event is read as another"),
        Err(error) => panic!("what was written cannot be read: {error}: {event:?}"),
    }
}

/// Fields of all payloads with values that fit. An event ignores what it does not know, so one object serves all.
const FIELDS: &str = r#"{
    "title": "t", "name": "n", "reason": "r", "error": "e", "errors": ["e"], "message": "m", "delta": "d", "thinking": "h",
    "stream": "stdout", "path": "/a", "summary": "s", "task": "k", "headline": "l", "narration": "a",
    "digest": "00", "text_preview": "p", "error_code": "c", "config": "f", "display_name": "y",
    "tool_call_id": "c0", "tool_name": "tool", "request_id": "q", "task_id": "i", "schedule_id": "z",
    "capability_id": "b", "connection_required": "mail", "status": "success", "decision": "allow",
    "side_effects": "pure", "success": true, "has_tool_calls": false, "iteration": 1, "iterations": 2,
    "attempt": 3, "tool_call_count": 4, "llm_call_count": 5, "success_count": 6, "message_count": 7,
    "messages_before": 8, "messages_after": 9, "size_bytes": 10, "first_sequence": 11, "last_sequence": 12,
    "parent_sequence": 13, "to_sequence": 17, "duration_ms": 14, "deadline_ms": 15, "time_to_first_token_ms": 16,
    "turn_id": "turn_00000000000000000000000000000001", "to_turn": "turn_00000000000000000000000000000007",
    "message_id": "message_00000000000000000000000000000002",
    "input_message_id": "message_00000000000000000000000000000003",
    "final_message_id": "message_00000000000000000000000000000004",
    "parent_session_id": "session_00000000000000000000000000000005",
    "child_session_id": "session_00000000000000000000000000000006",
    "deadline": "2026-01-02T03:04:05.678901234Z", "expires_at": "2026-01-02T03:04:05Z",
    "tool_call": { "id": "c0", "name": "tool", "arguments": {} },
    "tool_calls": [{ "id": "c0", "name": "tool", "arguments": [1, "a", null] }],
    "tool_summaries": [{ "tool_call_id": "c0", "name": "tool" }],
    "usage": { "input_tokens": 1, "output_tokens": 2, "actual_cost_usd": 0.1 },
    "prompt": { "message_count": 1, "digest": "00" }, "tools": ["tool"], "output": { "text": "o" },
    "metadata": { "model": "m", "success": true }, "error_fields": { "a": 1 }, "payload": {}, "answer": 1,
    "backend": "b", "session_id": "s", "kind": "retry", "end": "failed", "until": "2026-01-02T03:04:05Z", "waits": 2,
    "attempts": { "aborts_in_a_row": 1, "has_started_fresh": true },
    "details": {}, "input_content": [{ "type": "text", "text": "x" }],
    "result": [{ "type": "tool_result", "tool_call_id": "c0", "result": null }]
}"#;

/// A message, for the types whose `message` is one.
const MESSAGE: &str = r#"{
    "id": "message_00000000000000000000000000000007", "role": "agent", "created_at": "2026-01-02T03:04:05Z",
    "content": [{ "type": "tool_call", "id": "c0", "name": "tool", "arguments": { "a": 1.5 } }]
}"#;

struct ByteSource<'a> {
    rest: &'a [u8],
}

impl ByteSource<'_> {
    fn byte(&mut self) -> usize {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    fn take(&mut self, n: usize) -> &[u8] {
        let (taken, rest) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn envelope(&mut self) -> Value {
        let event_type = EVENT_TYPES[self.byte() % EVENT_TYPES.len()];
        let mut event = json!({
            "id": "event_00000000000000000000000000000001",
            "type": event_type,
            "ts": self.time(),
            "session_id": "session_00000000000000000000000000000001",
            "data": self.payload(),
        });
        if self.byte() % 4 == 1 {
            event["metadata"] = self.value(3);
        }
        if self.byte() % 4 == 1 {
            event["sequence"] = self.value(0);
        }
        event
    }

    /// The fields that fit, with a few replaced by something else.
    fn payload(&mut self) -> Value {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(FIELDS) else {
            panic!("the fields are an object")
        };
        let Ok(message) = serde_json::from_str::<Value>(MESSAGE) else {
            panic!("the message is a value")
        };
        if !self.byte().is_multiple_of(4) {
            fields.insert("message".to_owned(), message);
        }
        let names: Vec<String> = fields.keys().cloned().collect();
        for _ in 0..self.byte() % 4 {
            let name = &names[self.byte() % names.len()];
            let value = self.value(3);
            if self.byte().is_multiple_of(2) {
                fields.insert(name.clone(), value);
            } else if let Some(part) = fields.get_mut(name).and_then(Value::as_object_mut) {
                let names: Vec<String> = part.keys().cloned().collect();
                if let Some(name) = names.get(self.byte() % names.len().max(1)) {
                    part.insert(name.clone(), value);
                }
            }
        }
        Value::Object(fields)
    }

    fn time(&mut self) -> Value {
        let pool = [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.123456789+05:30",
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:60.999999999Z",
            "0000-01-01T00:00:00Z",
            "+12345-01-01T00:00:00Z",
            "-0001-01-01T00:00:00Z",
        ];
        json!(pool[self.byte() % pool.len()])
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.byte() % 11 {
            0 => Value::Null,
            1 => json!(self.byte().is_multiple_of(2)),
            2 => json!(self.byte()),
            3 => json!(u64::MAX - self.byte() as u64),
            4 => json!(i64::MIN + self.byte() as i64),
            5 | 6 => {
                let mut bits = [0; 8];
                let taken = self.take(8);
                bits[..taken.len()].copy_from_slice(taken);
                json!(f64::from_bits(u64::from_le_bytes(bits)))
            }
            7 => {
                let length = self.byte() % 12;
                json!(String::from_utf8_lossy(self.take(length)))
            }
            8 => self.time(),
            9 if depth > 0 => {
                let count = self.byte() % 3;
                (0..count).map(|_| self.value(depth - 1)).collect()
            }
            10 if depth > 0 => {
                let name = ["result", "error", "type", ""][self.byte() % 4];
                json!({ name: self.value(depth - 1) })
            }
            _ => json!(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_fields_match_most_event_types() {
        let mut decoded = 0;
        for n in 0..EVENT_TYPES.len() {
            for with_message in [0, 1] {
                let data = [u8::try_from(n).unwrap(), 0, with_message];
                let envelope = ByteSource { rest: &data }.envelope();
                if serde_json::from_value::<Event>(envelope).is_ok() {
                    decoded += 1;
                    break;
                }
            }
        }
        // `subagent.completed` wants a text where `tool.completed` wants parts, `backend.started` a word where `reason.started` wants
        // an object, and `tools.discovered` tools where `llm.generation` wants their names.
        assert_eq!(decoded, EVENT_TYPES.len() - 3);
    }
}
