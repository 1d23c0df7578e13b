//! The body of an answer as a stream of events, with deadlines.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use reqwest::Response;
use secrecy::SecretString;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError, Result};
use windlass_core::llm_driver_registry::{LlmCompletionMetadata, LlmStreamEvent};

use super::{ErrorSource, masked};
use crate::decode::AnswerDecoder;
use crate::error::network;
use crate::prices::PriceTable;

/// Maximum wait for the end of a body, so that its connection can be reused.
const DRAIN: Duration = Duration::from_secs(2);
/// Maximum bytes read after an answer for that.
const DRAIN_BYTES: usize = 64 * 1024;

type ByteStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// The deadlines of one answer.
pub(super) struct StreamDeadlines {
    pub(super) first_byte: Instant,
    pub(super) silence: Duration,
    pub(super) total: Option<Instant>,
}

/// The data to estimate the cost of an answer.
pub(super) struct CostEstimate {
    pub(super) prices: Arc<PriceTable>,
    pub(super) provider: &'static str,
    pub(super) model: String,
}

impl CostEstimate {
    fn add(&self, done: &mut LlmCompletionMetadata) {
        let by = |model: &str| self.prices.cost(self.provider, model, done);
        let cost = by(&self.model).or_else(|| by(done.model.as_deref()?));
        done.estimated_cost_usd = cost;
    }
}

/// The events of an answer. Dropping the stream before its end closes the connection.
pub(super) struct AnswerStream {
    body: Option<ByteStream>,
    decoder: AnswerDecoder,
    permit: Option<OwnedSemaphorePermit>,
    silence: Pin<Box<Sleep>>,
    max_silence: Duration,
    total: Option<Pin<Box<Sleep>>>,
    failure: Option<ProviderError>,
    request_id: Option<String>,
    costs: CostEstimate,
    key: SecretString,
    source: Arc<ErrorSource>,
}

impl AnswerStream {
    pub(super) fn new(
        response: Response,
        decoder: AnswerDecoder,
        permit: Option<OwnedSemaphorePermit>,
        waits: StreamDeadlines,
        costs: CostEstimate,
        key: SecretString,
        source: Arc<ErrorSource>,
    ) -> Self {
        let mut headers = ProviderError::new(ErrorKind::Other, "");
        crate::error::add_response_headers(&mut headers, response.headers(), chrono::Utc::now());
        Self {
            body: Some(Box::pin(response.bytes_stream())),
            decoder,
            permit,
            silence: Box::pin(sleep_until(waits.first_byte)),
            max_silence: waits.silence,
            total: waits.total.map(|at| Box::pin(sleep_until(at))),
            failure: None,
            request_id: headers.request_id,
            costs,
            key,
            source,
        }
    }

    /// Reads from the connection and enforces the deadlines.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(());
        };
        let fed = match body.as_mut().poll_next(cx) {
            Poll::Pending => {
                let late = self
                    .total
                    .as_mut()
                    .is_some_and(|t| t.as_mut().poll(cx).is_ready());
                let silent = self.silence.as_mut().poll(cx).is_ready();
                if !late && !silent {
                    return Poll::Pending;
                }
                let text = if late {
                    "the model's answer did not end in time"
                } else {
                    "the model fell silent"
                };
                self.body = None;
                self.end_or(ProviderError::new(ErrorKind::Stalled, text))
            }
            Poll::Ready(Some(Ok(bytes))) => {
                let next = Instant::now() + self.max_silence;
                self.silence.as_mut().reset(next);
                self.decoder.feed(&bytes)
            }
            Poll::Ready(Some(Err(error))) => {
                self.body = None;
                let mut error = network(error);
                error.kind = ErrorKind::BrokenStream;
                self.end_or(error)
            }
            Poll::Ready(None) => {
                self.body = None;
                self.decoder.end()
            }
        };
        if let Err(error) = fed {
            self.body = None;
            self.failure = Some(error);
        }
        Poll::Ready(())
    }

    /// A complete answer is not lost with its connection.
    fn end_or(&mut self, error: ProviderError) -> std::result::Result<(), ProviderError> {
        if self.decoder.is_complete() {
            self.decoder.end()
        } else {
            Err(error)
        }
    }

    /// Reads the last bytes of a body, in the background if they have not arrived: a connection can be reused once its body
    /// was read completely.
    fn release(&mut self, cx: &mut Context<'_>) {
        self.permit = None;
        let Some(mut body) = self.body.take() else {
            return;
        };
        if matches!(
            body.as_mut().poll_next(cx),
            Poll::Ready(None | Some(Err(_)))
        ) {
            return;
        }
        tokio::spawn(timeout(DRAIN, async move {
            let mut read = 0;
            let next = |body: &mut ByteStream, cx: &mut Context<'_>| body.as_mut().poll_next(cx);
            while let Some(Ok(bytes)) = std::future::poll_fn(|cx| next(&mut body, cx)).await {
                read += bytes.len();
                if read > DRAIN_BYTES {
                    break;
                }
            }
        }));
    }
}

impl Stream for AnswerStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.decoder.next_piece() {
                Some(LlmStreamEvent::Done(mut done)) => {
                    self.costs.add(&mut done);
                    self.release(cx);
                    return Poll::Ready(Some(Ok(LlmStreamEvent::Done(done))));
                }
                Some(piece) => return Poll::Ready(Some(Ok(piece))),
                None => {}
            }
            if let Some(mut error) = self.failure.take() {
                self.permit = None;
                error.request_id = error.request_id.or_else(|| self.request_id.take());
                let error = AgentLoopError::provider(masked(error, &self.key));
                let error = self.source.name(error, Some(&self.costs.model));
                return Poll::Ready(Some(Err(error)));
            }
            if self.body.is_none() {
                self.permit = None;
                return Poll::Ready(None);
            }
            std::task::ready!(self.poll_body(cx));
        }
    }
}
