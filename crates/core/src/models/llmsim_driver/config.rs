//! The configuration of the simulated model.

use std::time::Duration;

use serde_json::Value;

use crate::error::{AgentLoopError, ErrorKind, ProviderError};
use crate::tool_types::ToolCall;

/// The behavior at the end of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExhausted {
    /// Repeat the last entry.
    RepeatLast,
    /// Return an error.
    Error,
    /// Start again at the first response.
    Loop,
}

/// A failure of the simulated provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimError {
    /// Too many requests.
    RateLimit,
    /// No response in time.
    Timeout,
    /// A malformed response.
    InvalidResponse,
    Other(String),
}

impl SimError {
    pub(super) fn to_error(&self) -> AgentLoopError {
        let provider = |kind, text: &str| AgentLoopError::provider(ProviderError::new(kind, text));
        match self {
            Self::RateLimit => {
                AgentLoopError::provider(ProviderError::from_status(429, "simulated rate limit"))
            }
            Self::Timeout => provider(ErrorKind::Timeout, "simulated timeout"),
            Self::InvalidResponse => provider(ErrorKind::Other, "simulated invalid response"),
            Self::Other(message) => AgentLoopError::llm(message.clone()),
        }
    }
}

/// A scripted tool call; its ID is generated when it is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SimToolCall {
    pub name: String,
    pub arguments: Value,
}

impl SimToolCall {
    /// Creates a call.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self {
            name: name.into(),
            arguments,
        }
    }
}

/// One model call of a script.
#[derive(Debug, Clone, PartialEq)]
pub enum SimTurn {
    /// Answers with a text.
    Assistant(String),
    ToolCalls(Vec<SimToolCall>),
    /// Answers with a text and calls tools.
    Mixed {
        text: String,
        tool_calls: Vec<SimToolCall>,
    },
    Error(SimError),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SimScript {
    Sequence(Vec<String>),
    Echo,
    Lorem(usize),
    Scripted(Vec<SimTurn>),
    Error(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExtraCalls {
    None,
    Every(Vec<ToolCall>),
    Sequence(Vec<Vec<ToolCall>>),
}

/// The answers of the simulated model, call by call. Each session starts at the first one.
#[must_use]
#[derive(Debug, Clone)]
pub struct LlmSimConfig {
    pub(super) script: SimScript,
    pub(super) calls: ExtraCalls,
    pub(super) on_exhausted: OnExhausted,
    pub(super) response_delay: Duration,
    pub(super) piece_delay: Duration,
    pub(super) model: Option<String>,
    pub(super) response_id: Option<String>,
}

impl Default for LlmSimConfig {
    fn default() -> Self {
        Self::fixed("This is a simulated response.")
    }
}

impl LlmSimConfig {
    fn new(script: SimScript, on_exhausted: OnExhausted) -> Self {
        Self {
            script,
            calls: ExtraCalls::None,
            on_exhausted,
            response_delay: Duration::ZERO,
            piece_delay: Duration::ZERO,
            model: None,
            response_id: None,
        }
    }

    /// Answers every call with the same text.
    pub fn fixed(text: impl Into<String>) -> Self {
        Self::new(SimScript::Sequence(vec![text.into()]), OnExhausted::Loop)
    }
    /// Answers with one text per call, then starts again.
    pub fn sequence(texts: Vec<String>) -> Self {
        Self::new(SimScript::Sequence(texts), OnExhausted::Loop)
    }
    /// Answers with `Echo: ` and the last text of the user.
    pub fn echo() -> Self {
        Self::new(SimScript::Echo, OnExhausted::Loop)
    }
    /// Answers with filler text of about this many tokens.
    pub fn lorem(target_tokens: usize) -> Self {
        Self::new(SimScript::Lorem(target_tokens), OnExhausted::Loop)
    }
    /// Follows a script, one entry per call; the last entry repeats.
    pub fn scripted(turns: Vec<SimTurn>) -> Self {
        Self::new(SimScript::Scripted(turns), OnExhausted::RepeatLast)
    }
    /// Fails on every call.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(SimScript::Error(message.into()), OnExhausted::Loop)
    }

    setters! {
        /// Adds these calls to the text of every model call.
        with_tool_calls(Vec<ToolCall>) |builder, calls| builder.calls = ExtraCalls::Every(calls);
        /// Makes the calls of one entry per model call, then starts again; an empty entry makes no call.
        with_tool_call_sequence(Vec<Vec<ToolCall>>) |builder, calls| builder.calls = ExtraCalls::Sequence(calls);
        /// Sets the behavior at the end of a script.
        with_on_exhausted(OnExhausted) |builder, on_exhausted| builder.on_exhausted = on_exhausted;
        /// Sets the delay before the first delta of each answer.
        with_response_delay(Duration) |builder, delay| builder.response_delay = delay;
    }
    /// Streams word by word, about as fast as a real model: 150 ms before the first word and 15 ms before each further word.
    pub fn with_latency(mut self) -> Self {
        self.response_delay = Duration::from_millis(150);
        self.piece_delay = Duration::from_millis(15);
        self
    }
    setters! {
        /// Sets the delay before each further word.
        with_piece_delay(Duration) |builder, delay| builder.piece_delay = delay;
        /// Sets the model name that answers report.
        with_model(impl Into<String>) |builder, model| builder.model = Some(model.into());
        /// Sets the response ID of every answer.
        with_response_id(impl Into<String>) |builder, response_id| builder.response_id = Some(response_id.into());
    }
}
