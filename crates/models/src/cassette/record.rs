//! Recording exchanges.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_core::Stream;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{
    DiscoveredModel, LlmCallConfig, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::lock::lock;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use super::format::{self, Exchange, StoredEvent, StoredFailure, VERSION};

/// Forwards calls to another driver and records each exchange when it ends. A cancelled call leaves no
/// trace.
#[derive(OpaqueDebug)]
pub struct RecordingDriver {
    inner: Arc<dyn LlmDriver>,
    tape: Arc<Tape>,
}

struct Tape {
    file: Mutex<File>,
    secrets: Vec<SecretString>,
}

impl RecordingDriver {
    /// Creates a driver that appends to a cassette. The given values are masked wherever they occur.
    pub fn new(
        inner: Arc<dyn LlmDriver>,
        cassette: impl AsRef<Path>,
        secrets: impl IntoIterator<Item = String>,
    ) -> std::io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(cassette)?;
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        Ok(Self {
            inner,
            tape: Arc::new(Tape {
                file: Mutex::new(file),
                secrets: secrets.map(SecretString::from).collect(),
            }),
        })
    }

    fn record(
        &self,
        request: Value,
        answer: Result<LlmResponseStream>,
    ) -> Result<LlmResponseStream> {
        let exchange = Exchange {
            v: VERSION,
            request,
            answer: Vec::new(),
            error: None,
        };
        match answer {
            Ok(stream) => Ok(Box::pin(RecordedStream {
                stream,
                tape: Arc::clone(&self.tape),
                exchange: Some(exchange),
            })),
            Err(error) => {
                self.tape.write(Exchange {
                    error: Some(StoredFailure::from(&error)),
                    ..exchange
                })?;
                Err(error)
            }
        }
    }
}

impl Tape {
    fn write(&self, exchange: Exchange) -> Result<()> {
        let failed = |error: &dyn fmt::Display| {
            AgentLoopError::llm(format!("the exchange cannot be written down: {error}"))
        };
        let mut line = serde_json::to_value(exchange).map_err(|error| failed(&error))?;
        self.mask(&mut line);
        let mut file = lock(&self.file);
        writeln!(file, "{line}").map_err(|error| failed(&error))
    }

    fn mask(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for secret in &self.secrets {
                    if text.contains(secret.expose_secret()) {
                        *text = text.replace(secret.expose_secret(), "[secret]");
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.mask(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

struct RecordedStream {
    stream: LlmResponseStream,
    tape: Arc<Tape>,
    exchange: Option<Exchange>,
}

impl Stream for RecordedStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = std::task::ready!(self.stream.as_mut().poll_next(cx));
        let Some(exchange) = &mut self.exchange else {
            return Poll::Ready(event);
        };
        let ends = match &event {
            Some(Ok(event)) => match StoredEvent::from_event(event) {
                Ok(piece) => {
                    let ends = matches!(piece, StoredEvent::Done(_));
                    exchange.answer.push(piece);
                    ends
                }
                Err(failure) => {
                    exchange.error = Some(failure);
                    true
                }
            },
            Some(Err(error)) => {
                exchange.error = Some(StoredFailure::from(error));
                true
            }
            None => true,
        };
        if ends
            && let Some(exchange) = self.exchange.take()
            && let Err(error) = self.tape.write(exchange)
        {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(event)
    }
}

#[async_trait]
impl LlmDriver for RecordingDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        let request = format::request(&messages, config);
        let answer = self.inner.chat_completion_stream(messages, config).await;
        self.record(request, answer)
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let written = format::request(&request.to_llm_messages(), &request.config);
        let answer = self.inner.stream(request).await;
        self.record(written, answer)
    }

    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        self.inner.list_models().await
    }

    fn context_window(&self, model: &str) -> Option<u64> {
        self.inner.context_window(model)
    }

    fn accepts_images(&self, model: &str) -> Option<bool> {
        self.inner.accepts_images(model)
    }

    fn forget_session(&self, session_id: SessionId) {
        self.inner.forget_session(session_id);
    }
}
