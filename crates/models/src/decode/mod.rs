//! From the bytes of an answer to its pieces: pure state machines, without IO.

mod answer;
mod calls;
mod sse;

use std::collections::VecDeque;

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};
use windlass_core::llm_driver_registry::LlmStreamEvent;

pub(crate) use answer::{Answer, Stop};
pub(crate) use calls::CallPieces;
pub(crate) use calls::OWN_CALL_ID;
use sse::{SseDecoder, SseEvent};

use crate::api::Api;

/// What the pieces of an answer are put into.
pub(crate) type Pieces = VecDeque<LlmStreamEvent>;

/// Why bytes are no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("a line of the model's answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the model's answer is longer than {0} bytes")]
    AnswerTooLong(usize),
    #[error("the model's answer is not UTF-8")]
    NotUtf8,
    #[error("the model's answer holds something that is not JSON")]
    NotJson,
    #[error("the model's answer broke off before its end")]
    Cut,
    #[error("the model's answer is out of order: {0}")]
    OutOfOrder(&'static str),
    #[error("the model wrote a call that its provider could not read")]
    MalformedCall,
    #[error("{0}")]
    PromptEntry(Box<ProviderError>),
}

impl Broken {
    const fn code(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "line_too_long",
            Self::AnswerTooLong(_) => "answer_too_long",
            Self::NotUtf8 => "invalid_utf8",
            Self::NotJson => "invalid_json",
            Self::Cut => "cut",
            Self::OutOfOrder(_) => "out_of_order",
            Self::MalformedCall => "malformed_call",
            Self::PromptEntry(_) => "said",
        }
    }
}

impl From<Broken> for ProviderError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::PromptEntry(error) => *error,
            broken => Self {
                code: Some(broken.code().to_owned()),
                ..Self::new(ErrorKind::BrokenStream, broken.to_string())
            },
        }
    }
}

impl From<ProviderError> for Broken {
    fn from(error: ProviderError) -> Self {
        Self::PromptEntry(Box::new(error))
    }
}

/// The rules of one wire API.
pub(crate) trait Wire: Send + std::fmt::Debug {
    /// Takes one event's JSON.
    fn event(&mut self, event: &Value, answer: &mut Answer) -> Result<(), Broken>;

    /// Takes a mark that is not JSON; most APIs have none.
    fn mark(&mut self, _data: &str, _answer: &mut Answer) -> Result<bool, Broken> {
        Ok(false)
    }

    /// Ends an answer whose bytes have ended.
    fn end(&mut self, _answer: &mut Answer) -> Result<(), Broken> {
        Ok(())
    }

    /// Tells whether all that the answer needs has been said, though the provider may say more.
    fn is_complete(&self) -> bool {
        false
    }
}

/// How an answer is read.
#[derive(Debug, Clone)]
pub struct DecodeOptions {
    /// The model that was asked; reasoning goes back only to the same.
    pub model: String,
    /// How long one event may be.
    pub max_line_bytes: usize,
    /// How long the whole answer may be.
    pub max_answer_bytes: usize,
    /// What the ids of calls begin with when the provider gives none.
    pub call_seed: String,
}

/// How long one event may be, when nothing else is set.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// How long a whole answer may be, when nothing else is set.
pub const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            model: String::new(),
            max_line_bytes: MAX_LINE_BYTES,
            max_answer_bytes: MAX_ANSWER_BYTES,
            call_seed: "0".to_owned(),
        }
    }
}

/// Reads the bytes of one answer.
#[derive(Debug)]
pub struct AnswerDecoder {
    sse: SseDecoder,
    wire: Box<dyn Wire>,
    answer: Answer,
    max_bytes: usize,
    read: usize,
}

impl AnswerDecoder {
    /// Makes the decoder of an API.
    #[must_use]
    pub fn new(api: Api, options: DecodeOptions) -> Self {
        Self {
            sse: SseDecoder::new(options.max_line_bytes),
            wire: api.wire(),
            answer: Answer::new(api, options.model, options.call_seed),
            max_bytes: options.max_answer_bytes,
            read: 0,
        }
    }

    /// Takes more bytes, in pieces of any size. What comes after the end of the answer is passed over.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        let Self {
            sse, wire, answer, ..
        } = self;
        if answer.is_done() {
            return Ok(());
        }
        self.read = self.read.saturating_add(bytes.len());
        if self.read > self.max_bytes {
            return Err(Broken::AnswerTooLong(self.max_bytes).into());
        }
        Ok(sse.feed(bytes, |event| take(wire.as_mut(), answer, &event))?)
    }

    /// Takes the end of the bytes.
    pub fn end(&mut self) -> Result<(), ProviderError> {
        let Self {
            sse, wire, answer, ..
        } = self;
        if !answer.is_done()
            && let Some(last) = sse.end()
        {
            match take(wire.as_mut(), answer, &last) {
                Err(Broken::NotJson) => {}
                taken => taken?,
            }
        }
        if !answer.is_done() {
            wire.end(answer)?;
        }
        if answer.is_done() {
            Ok(())
        } else {
            Err(Broken::Cut.into())
        }
    }

    /// Returns the next piece that is ready.
    pub fn next_piece(&mut self) -> Option<LlmStreamEvent> {
        self.answer.next_piece()
    }

    /// Tells whether the answer could end here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.answer.is_done() || self.wire.is_complete()
    }
}

fn take(wire: &mut dyn Wire, answer: &mut Answer, event: &SseEvent) -> Result<(), Broken> {
    if answer.is_done() || wire.mark(&event.data, answer)? || event.data.trim().is_empty() {
        return Ok(());
    }
    let value: Value = serde_json::from_str(&event.data).map_err(|_| Broken::NotJson)?;
    wire.event(&value, answer)
}
