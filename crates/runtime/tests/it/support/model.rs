//! A scripted model that records its requests.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use futures_core::Stream;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{
    DriverRegistry, LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmRequest,
    LlmResponseStream, LlmStreamEvent, ProviderType,
};
use windlass_core::tools::ToolCall;

use super::Gate;

/// A step of one model call.
pub(crate) enum AnswerPiece {
    Say(LlmStreamEvent),
    Fail(AgentLoopError),
    Wait(Gate),
    Panic,
}

/// One call of the model.
pub(crate) struct ScriptedCall {
    connect: VecDeque<AnswerPiece>,
    pieces: VecDeque<AnswerPiece>,
}

impl ScriptedCall {
    /// A call that stays silent and never ends.
    pub(crate) fn new() -> Self {
        Self {
            connect: VecDeque::new(),
            pieces: VecDeque::new(),
        }
    }
    /// A whole answer.
    pub(crate) fn answer(text: &str) -> Self {
        Self::new().text(text).done()
    }
    /// An answer that asks for tools.
    pub(crate) fn tools(calls: Vec<ToolCall>) -> Self {
        Self::new().say(LlmStreamEvent::ToolCalls(calls)).done()
    }
    /// A call that fails before it has an answer.
    pub(crate) fn refused(error: AgentLoopError) -> Self {
        Self::new().connecting(AnswerPiece::Fail(error))
    }
    pub(crate) fn connecting(mut self, piece: AnswerPiece) -> Self {
        self.connect.push_back(piece);
        self
    }
    pub(crate) fn piece(mut self, piece: AnswerPiece) -> Self {
        self.pieces.push_back(piece);
        self
    }
    pub(crate) fn say(self, event: LlmStreamEvent) -> Self {
        self.piece(AnswerPiece::Say(event))
    }
    pub(crate) fn text(self, text: &str) -> Self {
        self.say(LlmStreamEvent::TextDelta(text.to_owned()))
    }
    pub(crate) fn wait(self, gate: &Gate) -> Self {
        self.piece(AnswerPiece::Wait(gate.clone()))
    }
    pub(crate) fn fail(self, error: AgentLoopError) -> Self {
        self.piece(AnswerPiece::Fail(error))
    }
    pub(crate) fn done(self) -> Self {
        self.say(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
            prompt_tokens: Some(10),
            completion_tokens: Some(5),
            ..LlmCompletionMetadata::default()
        })))
    }
}

type AnswerRule = Box<dyn Fn(&LlmRequest) -> ScriptedCall + Send>;

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<ScriptedCall>>,
    /// Answers derived from the request alone.
    rule: Mutex<Option<AnswerRule>>,
    /// Scripts of conversations, by the beginning of their first message.
    conversations: Mutex<HashMap<String, VecDeque<ScriptedCall>>>,
    requests: Mutex<Vec<LlmRequest>>,
    made: AtomicUsize,
}

/// The model. Clones share their state; without a script the answer is "ok".
#[derive(Clone, Default)]
pub(crate) struct ScriptedModel(Arc<State>);

impl ScriptedModel {
    pub(crate) fn new(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        let model = Self::default();
        calls.into_iter().for_each(|call| model.then(call));
        model
    }

    /// Writes the next call.
    pub(crate) fn then(&self, call: ScriptedCall) {
        self.0.script.lock().unwrap().push_back(call);
    }

    /// Writes the next call of the conversation that begins with these words.
    pub(crate) fn when(&self, first: &str, call: ScriptedCall) {
        let mut conversations = self.0.conversations.lock().unwrap();
        let calls = conversations.entry(first.to_owned()).or_default();
        calls.push_back(call);
    }

    /// Derives answers from the request alone, so that a repeated request gets the same answer.
    pub(crate) fn answer_by(&self, rule: impl Fn(&LlmRequest) -> ScriptedCall + Send + 'static) {
        *self.0.rule.lock().unwrap() = Some(Box::new(rule));
    }

    fn next(&self, request: &LlmRequest) -> Option<ScriptedCall> {
        if let Some(rule) = &*self.0.rule.lock().unwrap() {
            return Some(rule(request));
        }
        let mut conversations = self.0.conversations.lock().unwrap();
        let first = request.history.iter().next();
        let first = first.and_then(|first| first.text().map(str::to_owned));
        match first.and_then(|first| conversations.get_mut(&first)) {
            Some(calls) => calls.pop_front(),
            None => self.0.script.lock().unwrap().pop_front(),
        }
    }

    /// Drops the unused part of the script.
    pub(crate) fn rewrite(&self, calls: impl IntoIterator<Item = ScriptedCall>) {
        *self.0.script.lock().unwrap() = calls.into_iter().collect();
    }

    /// Returns the requests, in order.
    pub(crate) fn requests(&self) -> Vec<LlmRequest> {
        self.0.requests.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.requests.lock().unwrap().len()
    }

    /// Returns the messages of a request with their roles, without the system prompt.
    pub(crate) fn sent(&self, call: usize) -> Vec<String> {
        let requests = self.requests();
        let messages = requests[call].to_llm_messages();
        let spoken = messages.iter().filter(|message| {
            message.role != windlass_core::llm_driver_registry::LlmMessageRole::System
        });
        spoken
            .map(|message| {
                let calls = message
                    .tool_calls
                    .iter()
                    .flatten()
                    .map(|call| format!(" [{}]", call.id));
                let calls: String = calls.collect();
                format!("{:?}: {}{calls}", message.role, message.content_as_text())
            })
            .collect()
    }

    /// Returns the number of created drivers.
    pub(crate) fn made(&self) -> usize {
        self.0.made.load(Ordering::SeqCst)
    }

    /// Registers the model under a provider.
    pub(crate) fn register(&self, drivers: &mut DriverRegistry, provider: ProviderType) {
        let model = self.clone();
        drivers.register(provider, move |_, _| {
            model.0.made.fetch_add(1, Ordering::SeqCst);
            Box::new(model.clone())
        });
    }
}

#[async_trait]
impl LlmDriver for ScriptedModel {
    async fn chat_completion_stream(
        &self,
        _messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        unreachable!("the runtime shares its history")
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let call = self.next(&request);
        self.0.requests.lock().unwrap().push(request);
        let ScriptedCall { connect, pieces } = call.unwrap_or_else(|| ScriptedCall::answer("ok"));
        for piece in connect {
            match piece {
                AnswerPiece::Say(_) => unreachable!("nothing can be said before there is a stream"),
                AnswerPiece::Fail(error) => return Err(error),
                AnswerPiece::Wait(gate) => gate.pass().await,
                AnswerPiece::Panic => panic!("scripted panic while connecting"),
            }
        }
        Ok(Box::pin(ScriptedStream {
            pieces,
            waiting: None,
        }))
    }
}

struct ScriptedStream {
    pieces: VecDeque<AnswerPiece>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream for ScriptedStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            return Poll::Ready(match self.pieces.pop_front() {
                None => None,
                Some(AnswerPiece::Say(event)) => Some(Ok(event)),
                Some(AnswerPiece::Fail(error)) => Some(Err(error)),
                Some(AnswerPiece::Panic) => panic!("scripted panic in the stream"),
                Some(AnswerPiece::Wait(gate)) => {
                    self.waiting = Some(Box::pin(async move { gate.pass().await }));
                    continue;
                }
            });
        }
    }
}
