//! Decoding of an answer's bytes into events: pure state machines without I/O.

mod answer;
mod calls;
mod sse;

use std::collections::VecDeque;

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};
use windlass_core::llm_driver_registry::LlmStreamEvent;

pub(crate) use answer::{AnswerBuilder, Stop};
pub(crate) use calls::OWN_CALL_ID;
pub(crate) use calls::PartialCall;
use sse::{SseDecoder, SseEvent};
use windlass_macros::Defaults;

use crate::api::Api;

/// Decoded events that are not yet delivered.
pub(crate) type EventQueue = VecDeque<LlmStreamEvent>;

/// Why an answer cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("a line of the model's answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the model's answer is longer than {0} bytes")]
    AnswerTooLong(usize),
    #[error("the model's answer is not UTF-8")]
    NotUtf8,
    #[error("the model's answer contains invalid JSON")]
    NotJson,
    #[error("the model's answer ended early")]
    Cut,
    #[error("the model's answer is out of order: {0}")]
    OutOfOrder(&'static str),
    #[error("the model wrote a call that its provider could not read")]
    MalformedCall,
    #[error("{0}")]
    Provider(Box<ProviderError>),
}

impl DecodeError {
    const fn code(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "line_too_long",
            Self::AnswerTooLong(_) => "answer_too_long",
            Self::NotUtf8 => "invalid_utf8",
            Self::NotJson => "invalid_json",
            Self::Cut => "cut",
            Self::OutOfOrder(_) => "out_of_order",
            Self::MalformedCall => "malformed_call",
            Self::Provider(_) => "provider",
        }
    }
}

impl From<DecodeError> for ProviderError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Provider(error) => *error,
            error => Self {
                code: Some(error.code().to_owned()),
                ..Self::new(ErrorKind::BrokenStream, error.to_string())
            },
        }
    }
}

impl From<ProviderError> for DecodeError {
    fn from(error: ProviderError) -> Self {
        Self::Provider(Box::new(error))
    }
}

/// The decoder of one wire API.
pub(crate) trait WireDecoder: Send + std::fmt::Debug {
    /// Decodes one event's JSON.
    fn event(&mut self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError>;

    /// Decodes a marker that is not JSON, such as `[DONE]`; returns whether it was one.
    fn mark(&mut self, _data: &str, _answer: &mut AnswerBuilder) -> Result<bool, DecodeError> {
        Ok(false)
    }

    /// Handles the end of the bytes.
    fn end(&mut self, _answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Returns whether the answer is complete, even if the provider may send more.
    fn is_complete(&self) -> bool {
        false
    }
}

/// Limits and identity of an answer.
#[derive(Debug, Clone, Defaults)]
pub struct DecodeOptions {
    /// The requested model; reasoning is returned only to the same model.
    pub model: String,
    /// Maximum length of one event in bytes.
    #[default(MAX_LINE_BYTES)]
    pub max_line_bytes: usize,
    /// Maximum length of the whole answer in bytes.
    #[default(MAX_ANSWER_BYTES)]
    pub max_answer_bytes: usize,
    /// Seed of generated call IDs, for calls without a provider ID.
    #[default("0".to_owned())]
    pub call_seed: String,
}

/// Default maximum length of one event in bytes.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Default maximum length of a whole answer in bytes.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Decodes the bytes of one answer.
#[derive(Debug)]
pub struct AnswerDecoder {
    sse: SseDecoder,
    wire: Box<dyn WireDecoder>,
    answer: AnswerBuilder,
    max_bytes: usize,
    read: usize,
}

impl AnswerDecoder {
    /// Creates the decoder for an API.
    #[must_use]
    pub fn new(api: Api, options: DecodeOptions) -> Self {
        Self {
            sse: SseDecoder::new(options.max_line_bytes),
            wire: api.wire(),
            answer: AnswerBuilder::new(api, options.model, options.call_seed),
            max_bytes: options.max_answer_bytes,
            read: 0,
        }
    }

    /// Decodes more bytes, in chunks of any size. Bytes after the end of the answer are ignored.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        let Self {
            sse, wire, answer, ..
        } = self;
        if answer.is_done() {
            return Ok(());
        }
        self.read = self.read.saturating_add(bytes.len());
        if self.read > self.max_bytes {
            return Err(DecodeError::AnswerTooLong(self.max_bytes).into());
        }
        Ok(sse.feed(bytes, |event| take(wire.as_mut(), answer, &event))?)
    }

    /// Handles the end of the bytes; an incomplete answer is an error.
    pub fn end(&mut self) -> Result<(), ProviderError> {
        let Self {
            sse, wire, answer, ..
        } = self;
        if !answer.is_done()
            && let Some(last) = sse.end()
        {
            match take(wire.as_mut(), answer, &last) {
                Err(DecodeError::NotJson) => {}
                result => result?,
            }
        }
        if !answer.is_done() {
            wire.end(answer)?;
        }
        if answer.is_done() {
            Ok(())
        } else {
            Err(DecodeError::Cut.into())
        }
    }

    /// Returns the next decoded event.
    pub fn next_piece(&mut self) -> Option<LlmStreamEvent> {
        self.answer.next_piece()
    }

    /// Returns whether the answer may end here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.answer.is_done() || self.wire.is_complete()
    }
}

fn take(
    wire: &mut dyn WireDecoder,
    answer: &mut AnswerBuilder,
    event: &SseEvent,
) -> Result<(), DecodeError> {
    if answer.is_done() || wire.mark(&event.data, answer)? || event.data.trim().is_empty() {
        return Ok(());
    }
    let value: Value = serde_json::from_str(&event.data).map_err(|_| DecodeError::NotJson)?;
    wire.event(&value, answer)
}
