//! The stream of the Responses API. Completed items are authoritative; their deltas came earlier. The last event contains all items again, for
//! clients that read only that.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::message::ExecutionPhase;

use crate::decode::{AnswerBuilder, DecodeError, PartialCall, Stop, WireDecoder};
use crate::openai_errors::classify;

#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// Open calls by their output index.
    calls: BTreeMap<u64, PartialCall>,
    /// Output index of the item whose text or thinking was streamed.
    text_of: Option<u64>,
    thinking_of: Option<u64>,
    summary_part: u64,
    refused: bool,
    /// Whether any event of an item was received.
    has_items: bool,
}

impl WireDecoder for Responses {
    fn event(&mut self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let at = event["output_index"].as_u64().unwrap_or(0);
        self.has_items |= event.get("output_index").is_some() || event.get("item").is_some();
        match text("type") {
            "response.created" | "response.in_progress" => head(&event["response"], answer),
            "response.output_item.added" => self.added(at, &event["item"]),
            "response.output_text.delta" => {
                self.text_of = Some(at);
                answer.text(text("delta"));
            }
            "response.refusal.delta" => {
                (self.text_of, self.refused) = (Some(at), true);
                answer.text(text("delta"));
            }
            "response.reasoning_summary_text.delta" => {
                let part = event["summary_index"].as_u64().unwrap_or(0);
                if self.thinking_of == Some(at) && part != self.summary_part {
                    answer.thinking("\n\n");
                }
                (self.thinking_of, self.summary_part) = (Some(at), part);
                answer.thinking(text("delta"));
            }
            "response.reasoning_text.delta" => {
                self.thinking_of = Some(at);
                answer.thinking(text("delta"));
            }
            "response.function_call_arguments.delta" => {
                let call = self.calls.entry(at).or_default();
                call.arguments.push_str(text("delta"));
            }
            "response.output_item.done" => self.done(at, &event["item"], answer),
            "response.completed" | "response.incomplete" => {
                return self.finish(&event["response"], answer);
            }
            "response.failed" => return Err(failed(&event["response"]["error"]).into()),
            "error" => return Err(failed(event.get("error").unwrap_or(event)).into()),
            _ => {}
        }
        Ok(())
    }
}

impl Responses {
    fn added(&mut self, at: u64, item: &Value) {
        if item["type"] == "function_call" {
            self.calls.insert(at, call_of(item));
        }
    }

    fn done(&mut self, at: u64, item: &Value, answer: &mut AnswerBuilder) {
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                let mut call = call_of(item);
                if let Some(streamed) = self.calls.remove(&at)
                    && call.arguments.is_empty()
                {
                    call.arguments = streamed.arguments;
                }
                answer.call(call);
            }
            "reasoning" => {
                if self.thinking_of != Some(at) {
                    answer.thinking(&summary(item));
                }
                // The item is stored only with encrypted content: an ID alone is useless to the provider later.
                if item.get("encrypted_content").is_some_and(Value::is_string) {
                    let id = item["id"].as_str().unwrap_or_default();
                    answer.reasoning(id, item.clone());
                }
            }
            "message" => {
                if self.text_of != Some(at) {
                    for part in item["content"].as_array().into_iter().flatten() {
                        let piece = part.get("text").or_else(|| part.get("refusal"));
                        self.refused |= part.get("refusal").is_some();
                        answer.text(piece.and_then(Value::as_str).unwrap_or_default());
                    }
                }
                answer.phase = match item["phase"].as_str() {
                    Some("commentary") => Some(ExecutionPhase::Commentary),
                    Some("final_answer") => Some(ExecutionPhase::FinalAnswer),
                    _ => answer.phase,
                };
            }
            _ => {}
        }
    }

    fn finish(&mut self, response: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        head(response, answer);
        if !self.has_items {
            let items = response["output"].as_array().into_iter().flatten();
            for (at, item) in (0..).zip(items) {
                self.done(at, item, answer);
            }
        }
        for (_, call) in std::mem::take(&mut self.calls) {
            if call.name.is_empty() {
                return Err(DecodeError::OutOfOrder(
                    "a piece of a call that did not begin",
                ));
            }
            answer.call(call);
        }
        let incomplete = response["incomplete_details"]["reason"].as_str();
        answer.finish(match incomplete {
            None if self.refused => Stop::Other("refusal".to_owned()),
            None => Stop::Finished,
            Some("max_output_tokens") => Stop::Length,
            Some("content_filter") => Stop::Refused("content_filter".to_owned()),
            Some(other) => Stop::Other(other.to_owned()),
        })
    }
}

fn call_of(item: &Value) -> PartialCall {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    PartialCall {
        id: text("call_id"),
        name: text("name"),
        arguments: text("arguments"),
        whole: None,
    }
}

fn summary(item: &Value) -> String {
    let parts = item["summary"].as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n\n")
}

fn head(response: &Value, answer: &mut AnswerBuilder) {
    let text = |name: &str| response[name].as_str().map(str::to_owned);
    answer.response_id = text("id").or_else(|| answer.response_id.take());
    answer.served_by = text("model").or_else(|| answer.served_by.take());
    let usage = &response["usage"];
    if usage.is_object() {
        let count = |value: &Value| value.as_u64();
        answer.usage.read = count(&usage["input_tokens"]);
        answer.usage.written = count(&usage["output_tokens"]);
        answer.usage.total = count(&usage["total_tokens"]);
        let (read, written) = (
            &usage["input_tokens_details"],
            &usage["output_tokens_details"],
        );
        answer.usage.cache_read = count(&read["cached_tokens"]);
        answer.usage.cache_written = count(&read["cache_write_tokens"]);
        answer.usage.reasoning = count(&written["reasoning_tokens"]);
    }
}

fn failed(error: &Value) -> windlass_core::error::ProviderError {
    classify(None, error)
}
