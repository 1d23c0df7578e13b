//! Playing recorded exchanges.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::Value;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream, LlmStreamEvent,
};
use windlass_core::lock::lock;

use super::format::{self, Exchange, VERSION};

/// Why a cassette cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// The file cannot be read.
    #[error("the cassette cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// A line does not parse as an exchange.
    #[error("line {line} of the cassette is not an exchange: {source}")]
    Line {
        /// Line number, starting at 1.
        line: usize,
        /// The parse error.
        source: serde_json::Error,
    },
    /// A line has an unsupported version.
    #[error("line {line} of the cassette has version {version}; version {VERSION} is supported")]
    Version {
        /// Line number, starting at 1.
        line: usize,
        /// Version of the format.
        version: u32,
    },
}

/// How the exchange for a call is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// The first unused exchange with an equal request.
    #[default]
    SameRequest,
    /// The next exchange, regardless of the request.
    InOrder,
}

/// Answers from a cassette, and never from a provider.
#[derive(Debug)]
pub struct CassetteDriver {
    matching: Matching,
    left: Mutex<Vec<Exchange>>,
}

impl CassetteDriver {
    /// Opens a cassette.
    pub fn open(
        cassette: impl AsRef<Path>,
        matching: Matching,
    ) -> std::result::Result<Self, CassetteError> {
        let text = std::fs::read_to_string(cassette)?;
        let lines = text.lines().enumerate().map(|(n, text)| (n + 1, text));
        let lines = lines.filter(|(_, text)| !text.trim().is_empty());
        let exchanges = lines.map(|(line, text)| {
            let wrong = |source| CassetteError::Line { line, source };
            let value: Value = serde_json::from_str(text).map_err(wrong)?;
            let version = value["v"].as_u64().and_then(|v| u32::try_from(v).ok());
            match version {
                Some(version) if version > VERSION => Err(CassetteError::Version { line, version }),
                _ => serde_json::from_value(value).map_err(wrong),
            }
        });
        Ok(Self {
            matching,
            left: Mutex::new(exchanges.collect::<std::result::Result<_, _>>()?),
        })
    }

    /// Returns the number of unused exchanges.
    #[must_use]
    pub fn left(&self) -> usize {
        lock(&self.left).len()
    }

    fn play(&self, request: &Value) -> Result<LlmResponseStream> {
        let mut left = lock(&self.left);
        let found = match self.matching {
            Matching::SameRequest => left
                .iter()
                .position(|exchange| exchange.request == *request),
            Matching::InOrder => (!left.is_empty()).then_some(0),
        };
        let Some(found) = found else {
            let difference = left.first().map_or_else(
                || "none is left".to_owned(),
                |next| {
                    format!(
                        "the next one differs in {}",
                        first_difference(&next.request, request)
                    )
                },
            );
            return Err(AgentLoopError::llm(format!(
                "the cassette has no exchange for this request: {difference}; record it again"
            )));
        };
        let exchange = left.remove(found);
        drop(left);
        if exchange.answer.is_empty()
            && let Some(failure) = exchange.error
        {
            return Err(failure.into());
        }
        let pieces = exchange.answer.into_iter().map(|piece| Ok(piece.into()));
        let failure = exchange.error.map(|failure| Err(failure.into()));
        Ok(Box::pin(Played(pieces.chain(failure).collect())))
    }
}

/// Describes the first difference between two requests.
fn first_difference(a: &Value, b: &Value) -> String {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<_> = a.keys().chain(b.keys()).collect();
            names.sort();
            let differs = names.into_iter().find(|name| a.get(*name) != b.get(*name));
            differs.map_or_else(String::new, |name| {
                let deeper = a.get(name).zip(b.get(name));
                let deeper = deeper.map(|(a, b)| first_difference(a, b));
                format!("/{name}{}", deeper.unwrap_or_default())
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            let n = a.iter().zip(b).take_while(|(a, b)| a == b).count();
            let deeper = a.get(n).zip(b.get(n));
            let deeper = deeper.map(|(a, b)| first_difference(a, b));
            format!("/{n}{}", deeper.unwrap_or_default())
        }
        _ => String::new(),
    }
}

struct Played(VecDeque<Result<LlmStreamEvent>>);

impl Stream for Played {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop_front())
    }
}

#[async_trait]
impl LlmDriver for CassetteDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        self.play(&format::request(&messages, config))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let messages = request.to_llm_messages();
        self.play(&format::request(&messages, &request.config))
    }
}
