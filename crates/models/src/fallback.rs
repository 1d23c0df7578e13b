//! A chain of models: if one fails, the next one gets the request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use futures_core::Stream;
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError, Result};
use windlass_core::llm_driver_registry::{
    DiscoveredModel, LlmCallConfig, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

/// One model of a chain.
#[derive(OpaqueDebug, Clone)]
pub struct FallbackLink {
    /// Driver of this entry.
    pub driver: Arc<dyn LlmDriver>,
    /// Model of this entry. Default: that of the call.
    pub model: Option<String>,
}

/// Sends a request to one model after the other until one answers.
///
/// The next model gets the request immediately if another provider may succeed (overload, limits, stalls, lost connections, a
/// missing model) and no part of the answer was delivered. If all models fail, the caller gets the first retryable error,
/// so that its retry goes through the whole chain.
#[derive(Debug, Clone)]
pub struct FallbackDriver {
    links: Arc<[FallbackLink]>,
}

impl FallbackDriver {
    /// Creates a chain in the order of preference.
    #[must_use]
    pub fn new(links: Vec<FallbackLink>) -> Self {
        Self {
            links: links.into(),
        }
    }

    fn start(&self, request: FallbackRequest) -> Result<LlmResponseStream> {
        let first = self.links.first().ok_or_else(|| {
            AgentLoopError::config("a chain of models has no model; name at least one")
        })?;
        let request = Arc::new(request);
        Ok(Box::pin(FallbackStream {
            state: State::Connecting(connect(first.clone(), Arc::clone(&request))),
            links: Arc::clone(&self.links),
            next: 1,
            request,
            buffered: VecDeque::new(),
            has_output: false,
            transient_error: None,
        }))
    }
}

/// The request in its original form.
enum FallbackRequest {
    Shared(LlmRequest),
    Owned(Vec<LlmMessage>, LlmCallConfig),
}

type Connecting = Pin<Box<dyn Future<Output = Result<LlmResponseStream>> + Send>>;

fn connect(link: FallbackLink, request: Arc<FallbackRequest>) -> Connecting {
    Box::pin(async move {
        let with_model = |config: &LlmCallConfig, model: &str| LlmCallConfig {
            model: model.to_owned(),
            ..config.clone()
        };
        match &*request {
            FallbackRequest::Shared(request) => {
                let mut request = request.clone();
                if let Some(model) = &link.model {
                    request.config = Arc::new(with_model(&request.config, model));
                }
                link.driver.stream(request).await
            }
            FallbackRequest::Owned(messages, config) => {
                let changed = link.model.as_ref().map(|model| with_model(config, model));
                let config = changed.as_ref().unwrap_or(config);
                let messages = messages.clone();
                link.driver.chat_completion_stream(messages, config).await
            }
        }
    })
}

enum State {
    Connecting(Connecting),
    Streaming(LlmResponseStream),
    Ended,
}

struct FallbackStream {
    links: Arc<[FallbackLink]>,
    next: usize,
    request: Arc<FallbackRequest>,
    state: State,
    /// Chunks that are buffered until the answer certainly comes from one model.
    buffered: VecDeque<LlmStreamEvent>,
    has_output: bool,
    transient_error: Option<AgentLoopError>,
}

impl FallbackStream {
    /// Connects to the next model; returns the error if there is none or part of the answer was delivered.
    fn fail(&mut self, error: AgentLoopError) -> Option<AgentLoopError> {
        let kind = error.kind();
        let may_succeed_elsewhere = kind.is_transient() || kind == ErrorKind::ModelMissing;
        if !self.has_output && may_succeed_elsewhere {
            self.buffered.clear();
            if kind.is_transient() && self.transient_error.is_none() {
                self.transient_error = Some(error);
            } else if self.next >= self.links.len() {
                self.state = State::Ended;
                return Some(self.transient_error.take().unwrap_or(error));
            }
            if let Some(link) = self.links.get(self.next) {
                self.next += 1;
                let request = Arc::clone(&self.request);
                self.state = State::Connecting(connect(link.clone(), request));
                return None;
            }
            self.state = State::Ended;
            return self.transient_error.take();
        }
        self.state = State::Ended;
        Some(error)
    }
}

impl Stream for FallbackStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.has_output
                && let Some(event) = self.buffered.pop_front()
            {
                return Poll::Ready(Some(Ok(event)));
            }
            let failed = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Connecting(connecting) => {
                    match std::task::ready!(connecting.as_mut().poll(cx)) {
                        Ok(stream) => {
                            self.state = State::Streaming(stream);
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                State::Streaming(stream) => {
                    match std::task::ready!(stream.as_mut().poll_next(cx)) {
                        Some(Ok(LlmStreamEvent::Error(message))) => AgentLoopError::Llm(message),
                        Some(Ok(event)) => {
                            let is_end = matches!(event, LlmStreamEvent::Done(_));
                            self.has_output |= is_end
                                || matches!(
                                    event,
                                    LlmStreamEvent::TextDelta(_) | LlmStreamEvent::ThinkingDelta(_)
                                );
                            self.buffered.push_back(event);
                            if is_end {
                                self.state = State::Ended;
                            }
                            continue;
                        }
                        Some(Err(error)) => error,
                        None => AgentLoopError::provider(ProviderError::new(
                            ErrorKind::BrokenStream,
                            "the model's answer ended early",
                        )),
                    }
                }
            };
            if let Some(error) = self.fail(failed) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

#[async_trait]
impl LlmDriver for FallbackDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        self.start(FallbackRequest::Owned(messages, config.clone()))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        self.start(FallbackRequest::Shared(request))
    }

    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        match self.links.first() {
            Some(first) => first.driver.list_models().await,
            None => Ok(None),
        }
    }

    /// Every model of the chain must be able to read the whole history.
    fn context_window(&self, model: &str) -> Option<u64> {
        let window = |link: &FallbackLink| {
            let model = link.model.as_deref().unwrap_or(model);
            link.driver.context_window(model)
        };
        self.links.iter().filter_map(window).min()
    }

    /// Returns `true` only if every known model of the chain accepts images, because any may have to answer.
    fn accepts_images(&self, model: &str) -> Option<bool> {
        let accepts = |link: &FallbackLink| {
            let model = link.model.as_deref().unwrap_or(model);
            link.driver.accepts_images(model)
        };
        let known = self.links.iter().filter_map(accepts);
        known.reduce(|all, one| all && one)
    }

    fn forget_session(&self, session_id: SessionId) {
        for link in self.links.iter() {
            link.driver.forget_session(session_id);
        }
    }
}
