//! A chain of models: when one cannot answer, the next is asked.

use std::collections::VecDeque;
use std::fmt;
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

/// One model of a chain.
#[derive(Clone)]
pub struct FallbackLink {
    /// Who is asked.
    pub driver: Arc<dyn LlmDriver>,
    /// Model of this entry. Default: that of the call.
    pub model: Option<String>,
}

impl fmt::Debug for FallbackLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackLink")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Asks one model after the other until one answers.
///
/// The next is asked at once when a failure may be the provider's alone (overload, limits, stalls, lost connections, a
/// missing model) and nothing of the answer was shown. When all fail, the caller gets the first error after which
/// trying again makes sense, so that its own retries go through the whole chain.
#[derive(Debug, Clone)]
pub struct FallbackDriver {
    links: Arc<[FallbackLink]>,
}

impl FallbackDriver {
    /// Makes a chain in the order of preference.
    #[must_use]
    pub fn new(links: Vec<FallbackLink>) -> Self {
        Self {
            links: links.into(),
        }
    }

    fn start(&self, question: Question) -> Result<LlmResponseStream> {
        let first = self.links.first().ok_or_else(|| {
            AgentLoopError::config("a chain of models has no model; name at least one")
        })?;
        let question = Arc::new(question);
        Ok(Box::pin(FallbackStream {
            state: State::Connecting(connect(first.clone(), Arc::clone(&question))),
            links: Arc::clone(&self.links),
            next: 1,
            question,
            held: VecDeque::new(),
            shown: false,
            worth_repeating: None,
        }))
    }
}

/// What is asked, in the form in which it came.
enum Question {
    Shared(LlmRequest),
    Owned(Vec<LlmMessage>, LlmCallConfig),
}

type Connecting = Pin<Box<dyn Future<Output = Result<LlmResponseStream>> + Send>>;

fn connect(link: FallbackLink, question: Arc<Question>) -> Connecting {
    Box::pin(async move {
        let with_model = |config: &LlmCallConfig, model: &str| LlmCallConfig {
            model: model.to_owned(),
            ..config.clone()
        };
        match &*question {
            Question::Shared(request) => {
                let mut request = request.clone();
                if let Some(model) = &link.model {
                    request.config = Arc::new(with_model(&request.config, model));
                }
                link.driver.stream(request).await
            }
            Question::Owned(messages, config) => {
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
    question: Arc<Question>,
    state: State,
    /// Chunks that are held back until the answer is certain to come from one model.
    held: VecDeque<LlmStreamEvent>,
    shown: bool,
    worth_repeating: Option<AgentLoopError>,
}

impl FallbackStream {
    /// Asks the next model; gives the error when there is none or it is too late.
    fn fail(&mut self, error: AgentLoopError) -> Option<AgentLoopError> {
        let kind = error.kind();
        let others_may_do_better = kind.is_transient() || kind == ErrorKind::ModelMissing;
        if !self.shown && others_may_do_better {
            self.held.clear();
            if kind.is_transient() && self.worth_repeating.is_none() {
                self.worth_repeating = Some(error);
            } else if self.next >= self.links.len() {
                self.state = State::Ended;
                return Some(self.worth_repeating.take().unwrap_or(error));
            }
            if let Some(link) = self.links.get(self.next) {
                self.next += 1;
                let question = Arc::clone(&self.question);
                self.state = State::Connecting(connect(link.clone(), question));
                return None;
            }
            self.state = State::Ended;
            return self.worth_repeating.take();
        }
        self.state = State::Ended;
        Some(error)
    }
}

impl Stream for FallbackStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.shown
                && let Some(event) = self.held.pop_front()
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
                            self.shown |= is_end
                                || matches!(
                                    event,
                                    LlmStreamEvent::TextDelta(_) | LlmStreamEvent::ThinkingDelta(_)
                                );
                            self.held.push_back(event);
                            if is_end {
                                self.state = State::Ended;
                            }
                            continue;
                        }
                        Some(Err(error)) => error,
                        None => AgentLoopError::provider(ProviderError::new(
                            ErrorKind::BrokenStream,
                            "the model's answer broke off before its end",
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
        self.start(Question::Owned(messages, config.clone()))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        self.start(Question::Shared(request))
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

    /// Any link may have to answer.
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
