//! The stream of the Messages API: blocks that start, grow and end, in order.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::error::classify;
use crate::decode::{AnswerBuilder, DecodeError, PartialCall, Stop, WireDecoder};

#[derive(Debug, Default)]
pub(crate) struct Messages {
    started: bool,
    blocks: BTreeMap<u64, StreamBlock>,
    stop: Option<String>,
    input: u64,
}

#[derive(Debug)]
enum StreamBlock {
    Text,
    Thinking {
        text: String,
        signature: String,
    },
    /// Thinking that is encrypted for the provider.
    Redacted(Value),
    Call(PartialCall),
    /// A block of an unknown kind.
    Other,
}

impl WireDecoder for Messages {
    fn event(&mut self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        let at = event["index"].as_u64().unwrap_or(0);
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.started = true;
                let message = &event["message"];
                answer.response_id = message["id"].as_str().map(str::to_owned);
                answer.served_by = message["model"].as_str().map(str::to_owned);
                self.usage(&message["usage"], answer);
            }
            "content_block_start" => {
                if !self.started {
                    return Err(DecodeError::OutOfOrder("a block before the message"));
                }
                let block = StreamBlock::start(&event["content_block"], answer);
                self.blocks.insert(at, block);
            }
            "content_block_delta" => {
                let block = self.blocks.get_mut(&at);
                let block = block.ok_or(DecodeError::OutOfOrder(
                    "a piece of a block that did not begin",
                ))?;
                block.grow(&event["delta"], answer);
            }
            "content_block_stop" => {
                let block = self.blocks.remove(&at);
                let block = block.ok_or(DecodeError::OutOfOrder(
                    "the end of a block that did not begin",
                ))?;
                block.end(answer);
            }
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(reason.to_owned());
                }
                self.usage(&event["usage"], answer);
            }
            "message_stop" => return self.finish(answer),
            "error" => return Err(classify(None, event).into()),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        if self.stop.is_some() {
            self.finish(answer)
        } else {
            Err(DecodeError::Cut)
        }
    }

    fn is_complete(&self) -> bool {
        self.stop.is_some()
    }
}

impl Messages {
    /// The provider excludes cached tokens from the input count; this adds them.
    fn usage(&mut self, usage: &Value, answer: &mut AnswerBuilder) {
        if !usage.is_object() {
            return;
        }
        let known = &mut answer.usage;
        let count = |name: &str| usage[name].as_u64();
        known.cache_read = count("cache_read_input_tokens").or(known.cache_read);
        known.cache_written = count("cache_creation_input_tokens").or(known.cache_written);
        known.written = count("output_tokens").or(known.written);
        known.reasoning = usage["output_tokens_details"]["thinking_tokens"]
            .as_u64()
            .or(known.reasoning);
        self.input = count("input_tokens").unwrap_or(self.input);
        let cached = known.cache_read.unwrap_or(0);
        let stored = known.cache_written.unwrap_or(0);
        known.read = Some(self.input.saturating_add(cached).saturating_add(stored));
    }

    fn finish(&mut self, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        for (_, block) in std::mem::take(&mut self.blocks) {
            // An answer that reached its token limit may end inside a call; the model gets the truncated call back.
            if let StreamBlock::Call(call) = block {
                answer.call(call);
            }
        }
        let reason = self.stop.take().ok_or(DecodeError::Cut)?;
        answer.finish(match reason.as_str() {
            "end_turn" | "tool_use" | "stop_sequence" => Stop::Finished,
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused(reason),
            _ => Stop::Other(reason),
        })
    }
}

impl StreamBlock {
    fn start(block: &Value, answer: &mut AnswerBuilder) -> Self {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" => {
                answer.text(&text("text"));
                Self::Text
            }
            "thinking" => {
                answer.thinking(&text("thinking"));
                Self::Thinking {
                    text: text("thinking"),
                    signature: text("signature"),
                }
            }
            "redacted_thinking" => Self::Redacted(block.clone()),
            "tool_use" => Self::Call(PartialCall {
                id: text("id"),
                name: text("name"),
                arguments: String::new(),
                whole: Some(block["input"].clone()).filter(Value::is_object),
            }),
            _ => Self::Other,
        }
    }

    fn grow(&mut self, delta: &Value, answer: &mut AnswerBuilder) {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match self {
            Self::Text => answer.text(text("text")),
            Self::Thinking {
                text: all,
                signature,
            } => {
                all.push_str(text("thinking"));
                signature.push_str(text("signature"));
                answer.thinking(text("thinking"));
            }
            Self::Call(call) => call.arguments.push_str(text("partial_json")),
            Self::Redacted(_) | Self::Other => {}
        }
    }

    fn end(self, answer: &mut AnswerBuilder) {
        match self {
            Self::Text | Self::Other => {}
            Self::Thinking { signature, .. } if signature.is_empty() => {}
            Self::Thinking { text, signature } => {
                let block = json!({ "type": "thinking", "thinking": text, "signature": signature });
                answer.reasoning("", block);
                answer.signature(&signature);
            }
            Self::Redacted(block) => answer.reasoning("", block),
            Self::Call(call) => answer.call(call),
        }
    }
}
