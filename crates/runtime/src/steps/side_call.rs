//! A model call outside of turns. It is not recorded; the silence timeout of turns applies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError, Result};
use windlass_core::llm_driver_registry::{
    LlmDriver, LlmRequest, LlmResponse, LlmResponseStream, LlmStreamEvent, collect,
};

use crate::inner::Inner;
use windlass_core::{Clock, Sleep};

/// Calls a model and waits for its whole answer, which is returned unmasked to the caller; an error is masked.
pub(crate) async fn complete(
    inner: &Inner,
    driver: &dyn LlmDriver,
    request: LlmRequest,
) -> Result<LlmResponse> {
    let session_id = request.session_id;
    let completed = call(inner, driver, request).await;
    completed.map_err(|error| inner.secrets.mask_error(session_id, error))
}

async fn call(inner: &Inner, driver: &dyn LlmDriver, request: LlmRequest) -> Result<LlmResponse> {
    let Some(limit) = inner.settings.model_silence else {
        return collect(driver.stream(request).await?).await;
    };
    let stream = tokio::select! {
        biased;
        stream = driver.stream(request) => stream?,
        () = inner.clock.sleep(limit) => return Err(silent(limit)),
    };
    let clock = Arc::clone(&inner.clock);
    collect(Box::pin(TimedStream {
        stream,
        clock,
        limit,
        silence: None,
    }))
    .await
}

/// The error of a model that has sent nothing for too long.
pub(super) fn silent(limit: Duration) -> AgentLoopError {
    let text = format!("the model was silent for {} ms", limit.as_millis());
    AgentLoopError::provider(ProviderError::new(ErrorKind::Timeout, text))
}

/// An answer that fails when it pauses for too long.
struct TimedStream {
    stream: LlmResponseStream,
    clock: Arc<dyn Clock>,
    limit: Duration,
    silence: Option<Sleep>,
}

impl Stream for TimedStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(event) = self.stream.as_mut().poll_next(cx) {
            self.silence = None;
            return Poll::Ready(event);
        }
        let limit = self.limit;
        let begun = self.silence.take();
        let mut silence = begun.unwrap_or_else(|| self.clock.sleep(limit));
        let polled = silence.as_mut().poll(cx);
        self.silence = Some(silence);
        polled.map(|()| Some(Err(silent(limit))))
    }
}
