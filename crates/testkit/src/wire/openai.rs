//! OpenAI's Responses API.

use serde_json::{Value, json};

use super::{Answer, named};

pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", json!("invalid_api_key")),
        404 => ("invalid_request_error", json!("model_not_found")),
        429 => ("requests", json!("rate_limit_exceeded")),
        503 => ("server_error", json!("server_is_overloaded")),
        400..=499 => ("invalid_request_error", Value::Null),
        _ => ("server_error", Value::Null),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

pub(super) fn events(answer: &Answer) -> Vec<String> {
    let mut events = ResponsesEvents::default();
    let open = json!({ "id": "resp_1", "object": "response", "status": "in_progress", "model": "fake-1", "output": [], "usage": null });
    events.push("response.created", json!({ "response": open }));
    events.push("response.in_progress", json!({ "response": open }));
    let mut output = Vec::new();
    if !answer.thinking.is_empty() || answer.signature.is_some() {
        output.push(events.reasoning(answer, output.len()));
    }
    if !answer.text.is_empty() {
        output.push(events.message(answer, output.len()));
    }
    for call in &answer.calls {
        let at = output.len();
        let arguments = call.arguments.concat();
        let item = |status: &str, arguments: &str| {
            json!({ "type": "function_call", "id": format!("fc_{at}"), "call_id": call.id, "name": call.name,
                "arguments": arguments, "status": status })
        };
        let open = item("in_progress", "");
        events.push(
            "response.output_item.added",
            json!({ "output_index": at, "item": open }),
        );
        for piece in &call.arguments {
            events.push(
                "response.function_call_arguments.delta",
                json!({ "item_id": format!("fc_{at}"), "output_index": at, "delta": piece }),
            );
        }
        let done = item("completed", &arguments);
        events.push(
            "response.function_call_arguments.done",
            json!({ "item_id": format!("fc_{at}"), "output_index": at, "arguments": arguments }),
        );
        events.push(
            "response.output_item.done",
            json!({ "output_index": at, "item": done }),
        );
        output.push(done);
    }
    let (name, status, details) = match answer.stop.as_deref() {
        None => ("response.completed", "completed", Value::Null),
        Some(reason) => (
            "response.incomplete",
            "incomplete",
            json!({ "reason": reason }),
        ),
    };
    let tokens = answer.tokens;
    let response = json!({ "id": "resp_1", "object": "response", "status": status, "model": "fake-1",
        "error": null, "incomplete_details": details, "output": output,
        "usage": { "input_tokens": tokens.read, "input_tokens_details": { "cached_tokens": tokens.cached },
            "output_tokens": tokens.written, "output_tokens_details": { "reasoning_tokens": tokens.reasoning },
            "total_tokens": tokens.read + tokens.written } });
    events.push(name, json!({ "response": response }));
    events.all
}

#[derive(Default)]
struct ResponsesEvents {
    all: Vec<String>,
}

impl ResponsesEvents {
    fn push(&mut self, name: &str, mut event: Value) {
        event["type"] = json!(name);
        event["sequence_number"] = json!(self.all.len());
        self.all.push(named(name, &event));
    }

    fn reasoning(&mut self, answer: &Answer, at: usize) -> Value {
        let open = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
        self.push(
            "response.output_item.added",
            json!({ "output_index": at, "item": open }),
        );
        for piece in &answer.thinking {
            self.push(
                "response.reasoning_summary_text.delta",
                json!({ "item_id": "rs_1", "output_index": at, "summary_index": 0, "delta": piece }),
            );
        }
        let item = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": answer.signature,
            "summary": [{ "type": "summary_text", "text": answer.thinking.concat() }] });
        self.push(
            "response.output_item.done",
            json!({ "output_index": at, "item": item }),
        );
        item
    }

    fn message(&mut self, answer: &Answer, at: usize) -> Value {
        let open = json!({ "type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": [] });
        self.push(
            "response.output_item.added",
            json!({ "output_index": at, "item": open }),
        );
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let place = |mut event: Value| {
            event["item_id"] = json!("msg_1");
            event["output_index"] = json!(at);
            event["content_index"] = json!(0);
            event
        };
        let whole = answer.text.concat();
        self.push(
            "response.content_part.added",
            place(json!({ "part": part("") })),
        );
        for piece in &answer.text {
            self.push(
                "response.output_text.delta",
                place(json!({ "delta": piece })),
            );
        }
        self.push("response.output_text.done", place(json!({ "text": whole })));
        self.push(
            "response.content_part.done",
            place(json!({ "part": part(&whole) })),
        );
        let item = json!({ "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [part(&whole)] });
        self.push(
            "response.output_item.done",
            json!({ "output_index": at, "item": item }),
        );
        item
    }
}
