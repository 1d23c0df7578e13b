//! The stream of Chat Completions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::decode::{AnswerBuilder, DecodeError, PartialCall, Stop, WireDecoder};
use crate::openai_errors::classify;

#[derive(Debug, Default)]
pub(crate) struct Chat {
    /// Calls in the order of their start, each with the server's index.
    calls: Vec<(Option<u64>, PartialCall)>,
    /// Reasoning under the server's field name.
    thought: Option<(&'static str, String)>,
    details: BTreeMap<u64, Map<String, Value>>,
    finish_reason: Option<String>,
    refused: bool,
}

impl WireDecoder for Chat {
    fn event(&mut self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(classify(None, event).into());
        }
        let text = |name: &str| {
            let text = event.get(name)?.as_str()?;
            (!text.is_empty()).then(|| text.to_owned())
        };
        answer.response_id = answer.response_id.take().or_else(|| text("id"));
        answer.served_by = answer.served_by.take().or_else(|| text("model"));
        usage(&event["usage"], answer);
        let Some(choice) = event["choices"].get(0) else {
            return Ok(());
        };
        self.delta(&choice["delta"], answer);
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        // Some servers put the usage into the choice.
        usage(&choice["usage"], answer);
        Ok(())
    }

    fn mark(&mut self, data: &str, answer: &mut AnswerBuilder) -> Result<bool, DecodeError> {
        if data.trim() != "[DONE]" {
            return Ok(false);
        }
        self.finish(answer)?;
        Ok(true)
    }

    fn end(&mut self, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        self.finish(answer)
    }

    fn is_complete(&self) -> bool {
        self.finish_reason.is_some()
    }
}

impl Chat {
    fn delta(&mut self, delta: &Value, answer: &mut AnswerBuilder) {
        for name in ["reasoning_content", "reasoning"] {
            if let Some(text) = delta[name].as_str()
                && !text.is_empty()
            {
                let thought = self.thought.get_or_insert((name, String::new()));
                // A server that sends both fields repeats the text.
                if thought.0 == name {
                    thought.1.push_str(text);
                    answer.thinking(text);
                }
            }
        }
        self.details(&delta["reasoning_details"]);
        match &delta["content"] {
            Value::String(text) => answer.text(text),
            Value::Array(parts) => parts.iter().for_each(|part| content_part(part, answer)),
            _ => {}
        }
        if let Some(refusal) = delta["refusal"].as_str() {
            self.refused |= !refusal.is_empty();
            answer.text(refusal);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call);
        }
    }

    fn call(&mut self, piece: &Value) {
        let number = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let last = match number {
            Some(_) => self.calls.iter().rposition(|(known, _)| *known == number),
            None => self.calls.len().checked_sub(1),
        };
        // A new ID is a new call, because some servers use the same index for all calls or none.
        let known = last.filter(|&at| {
            let known_id = &self.calls[at].1.id;
            id.is_empty() || known_id.is_empty() || known_id == id
        });
        let at = known.unwrap_or_else(|| {
            self.calls.push((number, PartialCall::default()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[at].1;
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        let function = &piece["function"];
        if let Some(name) = function["name"].as_str()
            && call.name.is_empty()
        {
            name.clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::String(more) => call.arguments.push_str(more),
            Value::Null => {}
            whole => call.whole = Some(whole.clone()),
        }
    }

    /// Joins reasoning chunks that must be returned as one: texts are concatenated, every other field occurs once.
    fn details(&mut self, details: &Value) {
        for (n, detail) in details.as_array().into_iter().flatten().enumerate() {
            let Some(fields) = detail.as_object() else {
                continue;
            };
            let at = detail["index"].as_u64().unwrap_or(n as u64);
            let known = self.details.entry(at).or_default();
            for (name, value) in fields {
                let grows = matches!(name.as_str(), "text" | "summary" | "data");
                match (known.get_mut(name), value) {
                    (Some(Value::String(text)), Value::String(more)) if grows => {
                        text.push_str(more);
                    }
                    (Some(_), Value::Null) => {}
                    _ => {
                        known.insert(name.clone(), value.clone());
                    }
                }
            }
        }
    }

    fn finish(&mut self, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        let reason = self.finish_reason.take().ok_or(DecodeError::Cut)?;
        let details = std::mem::take(&mut self.details);
        if !details.is_empty() {
            let details: Vec<_> = details.into_values().map(Value::Object).collect();
            answer.reasoning("", json!({ "reasoning_details": details }));
        } else if let Some((name, text)) = self.thought.take() {
            answer.reasoning("", json!({ name: text }));
        }
        for (_, call) in std::mem::take(&mut self.calls) {
            answer.call(call);
        }
        answer.finish(match reason.as_str() {
            "stop" | "tool_calls" | "function_call" if self.refused => {
                Stop::Other("refusal".to_owned())
            }
            "stop" | "tool_calls" | "function_call" | "eos" | "" => Stop::Finished,
            "length" | "model_length" => Stop::Length,
            "content_filter" => Stop::Refused(reason),
            _ => Stop::Other(reason),
        })
    }
}

fn content_part(part: &Value, answer: &mut AnswerBuilder) {
    if let Some(text) = part["text"].as_str() {
        answer.text(text);
    }
    for thought in part["thinking"].as_array().into_iter().flatten() {
        answer.thinking(thought["text"].as_str().unwrap_or_default());
    }
}

fn usage(usage: &Value, answer: &mut AnswerBuilder) {
    if !usage.is_object() {
        return;
    }
    let count = |value: &Value| value.as_u64();
    answer.usage.read = count(&usage["prompt_tokens"]);
    answer.usage.written = count(&usage["completion_tokens"]);
    answer.usage.total = count(&usage["total_tokens"]);
    let (read, written) = (
        &usage["prompt_tokens_details"],
        &usage["completion_tokens_details"],
    );
    let hit = count(&usage["prompt_cache_hit_tokens"]);
    answer.usage.cache_read = count(&read["cached_tokens"]).or(hit);
    answer.usage.cache_written = count(&read["cache_write_tokens"]);
    answer.usage.reasoning = count(&written["reasoning_tokens"]);
    answer.usage.cost_usd = usage["cost"].as_f64();
}
