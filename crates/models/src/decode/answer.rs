//! An answer while it is received: text, reasoning with its position, calls and the end.

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};
use windlass_core::llm_driver_registry::{LlmCompletionMetadata, LlmStreamEvent};
use windlass_core::message::ExecutionPhase;
use windlass_core::tool_types::ToolCall;

use super::{DecodeError, EventQueue, PartialCall};
use crate::api::Api;
use crate::reasoning_state;

/// Collects the events of one answer and the data for its end.
#[derive(Debug)]
pub(crate) struct AnswerBuilder {
    api: Api,
    model: String,
    call_seed: String,
    pieces: EventQueue,
    text_bytes: usize,
    calls: Vec<ToolCall>,
    pub(crate) usage: TokenCounts,
    pub(crate) response_id: Option<String>,
    pub(crate) served_by: Option<String>,
    pub(crate) phase: Option<ExecutionPhase>,
    done: bool,
}

/// Token counts: `read` includes cached tokens, and `written` includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TokenCounts {
    pub(crate) read: Option<u64>,
    pub(crate) written: Option<u64>,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_written: Option<u64>,
    pub(crate) reasoning: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
}

/// Why a model stopped, independent of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The answer is complete, or waits for results of its calls.
    Finished,
    /// The output limit was reached.
    Length,
    /// A content filter stopped the model; contains the provider's code.
    Refused(String),
    /// Any other reason, as the provider names it.
    Other(String),
}

impl AnswerBuilder {
    pub(crate) fn new(api: Api, model: String, call_seed: String) -> Self {
        Self {
            api,
            model,
            call_seed,
            pieces: EventQueue::new(),
            text_bytes: 0,
            calls: Vec::new(),
            usage: TokenCounts::default(),
            response_id: None,
            served_by: None,
            phase: None,
            done: false,
        }
    }

    /// Adds text. It is appended to undelivered text, so that chunks that arrive together are delivered together.
    pub(crate) fn text(&mut self, text: &str) {
        self.text_bytes += text.len();
        match self.pieces.back_mut() {
            _ if text.is_empty() => {}
            Some(LlmStreamEvent::TextDelta(pending)) => pending.push_str(text),
            _ => self
                .pieces
                .push_back(LlmStreamEvent::TextDelta(text.to_owned())),
        }
    }

    pub(crate) fn thinking(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces
                .push_back(LlmStreamEvent::ThinkingDelta(text.to_owned()));
        }
    }

    pub(crate) fn signature(&mut self, signature: &str) {
        self.pieces
            .push_back(LlmStreamEvent::ThinkingSignature(signature.to_owned()));
    }

    /// Adds a reasoning item with its position relative to text and calls.
    pub(crate) fn reasoning(&mut self, id: &str, item: Value) {
        let payload = reasoning_state::wrap(
            self.api,
            &self.model,
            self.text_bytes,
            self.calls.len(),
            item,
        );
        self.pieces.push_back(LlmStreamEvent::ReasonItem {
            id: id.to_owned(),
            payload,
        });
    }

    pub(crate) fn call(&mut self, call: PartialCall) {
        let call = call.finish(&self.call_seed, self.calls.len());
        self.calls.push(call);
    }

    pub(crate) fn has_text(&self) -> bool {
        self.text_bytes > 0
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn next_piece(&mut self) -> Option<LlmStreamEvent> {
        self.pieces.pop_front()
    }

    /// Ends the answer. An answer filtered before any text is an error; text that was delivered stays valid.
    pub(crate) fn finish(&mut self, stop: Stop) -> Result<(), DecodeError> {
        let reason = match stop {
            Stop::Refused(code) if self.text_bytes == 0 && self.calls.is_empty() => {
                return Err(DecodeError::from(ProviderError {
                    code: Some(code),
                    ..ProviderError::new(
                        ErrorKind::Refused,
                        "the provider's filter refused to answer",
                    )
                }));
            }
            // The rest of a filtered answer is missing, so its calls may be incomplete.
            Stop::Refused(_) => {
                self.calls.clear();
                "refusal".to_owned()
            }
            Stop::Finished if self.calls.is_empty() => "stop".to_owned(),
            Stop::Finished => "tool_calls".to_owned(),
            Stop::Length => "length".to_owned(),
            Stop::Other(word) => word,
        };
        self.done = true;
        if !self.calls.is_empty() {
            let calls = std::mem::take(&mut self.calls);
            self.pieces.push_back(LlmStreamEvent::ToolCalls(calls));
        }
        let metadata = self.metadata(reason);
        self.pieces
            .push_back(LlmStreamEvent::Done(Box::new(metadata)));
        Ok(())
    }

    fn metadata(&mut self, finish_reason: String) -> LlmCompletionMetadata {
        let TokenCounts {
            read,
            written,
            cache_read,
            cache_written,
            reasoning,
            total,
            cost_usd,
        } = self.usage;
        let tokens = |count: Option<u64>| count.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let sum = read.map(|read| read.saturating_add(written.unwrap_or(0)));
        LlmCompletionMetadata {
            total_tokens: tokens(total.or(sum)),
            prompt_tokens: tokens(read),
            completion_tokens: tokens(written),
            cache_read_tokens: tokens(cache_read),
            cache_creation_tokens: tokens(cache_written),
            reasoning_tokens: tokens(reasoning),
            provider_cost_usd: cost_usd,
            model: self.served_by.take(),
            finish_reason: Some(finish_reason),
            response_id: self.response_id.take(),
            phase: self.phase,
            ..LlmCompletionMetadata::default()
        }
    }
}
