//! A model that answers by the first word of its prompt, like the one used for the golden traces.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_core::error::{AgentLoopError, ErrorKind, ProviderError, Result};
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::message::{ContentPart, MessageRole};
use windlass_core::tools::{ToolCall, ToolDefinition};

/// The model; clones share state.
#[derive(Clone)]
pub(crate) struct FakeModel {
    requests: Arc<Mutex<Vec<LlmRequest>>>,
    open: watch::Sender<bool>,
    breaks_summaries: Arc<AtomicBool>,
    /// Reported token count of a request.
    counts: Arc<AtomicU32>,
}

impl Default for FakeModel {
    fn default() -> Self {
        Self {
            requests: Arc::default(),
            open: watch::Sender::new(false),
            breaks_summaries: Arc::default(),
            counts: Arc::new(AtomicU32::new(100)),
        }
    }
}

/// Recognizes a compaction request by its text, the only difference.
fn asks_for_summary(request: &LlmRequest) -> bool {
    let last = request.history.last().and_then(|message| message.text());
    last.is_some_and(|text| text.starts_with("Summarise this conversation"))
}

/// Returns whether the request asks the model to repair an answer that did not match the turn's schema.
fn repairs(request: &LlmRequest) -> bool {
    let mut texts = request.history.iter().filter_map(|message| message.text());
    texts.any(|text| text.starts_with("REPAIRED"))
}

enum AnswerPart {
    Say(LlmStreamEvent),
    Wait,
}

fn text(text: &str) -> AnswerPart {
    AnswerPart::Say(LlmStreamEvent::TextDelta(text.to_owned()))
}

/// Provider IDs repeat, like those of local model servers.
fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "toolu_1".to_owned(),
        name: name.to_owned(),
        arguments,
    }
}

fn calls(calls: Vec<ToolCall>) -> Vec<AnswerPart> {
    vec![AnswerPart::Say(LlmStreamEvent::ToolCalls(calls))]
}

impl FakeModel {
    /// Releases slow answers.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Sets the token count that the model reports for later requests.
    pub(crate) fn count(&self, tokens: u32) {
        self.counts.store(tokens, Ordering::SeqCst);
    }

    /// Makes requests for summaries fail.
    pub(crate) fn break_summaries(&self, breaks: bool) {
        self.breaks_summaries.store(breaks, Ordering::SeqCst);
    }

    /// Returns a receiver that changes when slow answers are released.
    pub(crate) fn gate(&self) -> watch::Receiver<bool> {
        self.open.subscribe()
    }

    pub(crate) fn requests(&self) -> Vec<LlmRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the names of the tools in the newest request.
    pub(crate) fn offered(&self) -> Vec<String> {
        let requests = self.requests();
        let tools = &requests.last().unwrap().config.tools;
        tools
            .iter()
            .map(ToolDefinition::name)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the messages of the newest request as `role: text`.
    pub(crate) fn messages(&self) -> Vec<String> {
        let requests = self.requests();
        let history = requests.last().unwrap().history.iter();
        history
            .map(|message| {
                let text = windlass_core::items::plain_text(&message.content);
                format!("{}: {text}", message.role)
            })
            .collect()
    }

    fn answer(request: &LlmRequest) -> Result<Vec<AnswerPart>> {
        let last = request.history.iter().next_back();
        let Some(last) = last else {
            return Ok(vec![text("empty history")]);
        };
        if last.role == MessageRole::ToolResult {
            let output = windlass_core::items::plain_text(&last.content);
            return Ok(vec![text("Tool said: "), text(&output)]);
        }
        let prompt = last
            .content
            .iter()
            .find_map(ContentPart::as_text)
            .unwrap_or_default();
        let lookup = || {
            call(
                "tau_bench__get_reservation",
                json!({"reservation_id": "ABC123"}),
            )
        };
        Ok(match prompt.split(' ').next().unwrap_or_default() {
            "Your" if repairs(request) => vec![text("{\"n\": 1}")],
            "SLOW" => vec![text("word0 "), AnswerPart::Wait, text("word1 ")],
            "SILENT" => vec![AnswerPart::Wait, text("word ")],
            "NOTHING" => Vec::new(),
            "FLOOD" => vec![text(&"ä".repeat(50_000))],
            "LOOKUP" => calls(vec![lookup()]),
            "TWICE" => calls(vec![lookup(), lookup()]),
            "BADARGS" => calls(vec![call(
                "tau_bench__get_reservation",
                json!({"reservation_id": 7}),
            )]),
            "CALL" => {
                let (name, arguments) = prompt["CALL ".len()..].split_once(' ').unwrap();
                calls(vec![call(name, serde_json::from_str(arguments).unwrap())])
            }
            "AGAIN" => calls(vec![call("again", json!({}))]),
            "STUBBORN" => calls(vec![call("stubborn", json!({}))]),
            "SPAWN" => {
                let prompt = prompt.strip_prefix("SPAWN ").unwrap_or_default();
                calls(vec![call("spawn_agent", json!({ "prompt": prompt }))])
            }
            "SHELL" => calls(vec![call("shell", json!({"command": "echo hi"}))]),
            "BOTH" => calls(vec![
                call("shell", json!({"command": "echo hi"})),
                call("clock", json!({})),
            ]),
            "ASK" => calls(vec![call(
                "request_user_input",
                json!({"questions": [{"header": "Colour", "id": "colour", "question": "Which colour?",
                    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}]}),
            )]),
            "ERR500" => {
                let error = ProviderError::new(ErrorKind::Other, "Server error (500): boom");
                return Err(AgentLoopError::provider(error));
            }
            _ => vec![
                text("Hello from the model. "),
                text("You said: "),
                text(prompt),
            ],
        })
    }
}

#[async_trait]
impl LlmDriver for FakeModel {
    async fn chat_completion_stream(
        &self,
        _: Vec<LlmMessage>,
        _: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        unreachable!("the runtime shares its history")
    }

    fn accepts_images(&self, model: &str) -> Option<bool> {
        Some(model != "text-only")
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let breaks = self.breaks_summaries.load(Ordering::SeqCst);
        let pieces = match asks_for_summary(&request) {
            true if breaks => {
                let error = ProviderError::new(ErrorKind::Other, "Server error (500): boom");
                Err(AgentLoopError::provider(error))
            }
            true => Ok(vec![text("They "), text("talked.")]),
            false => Self::answer(&request),
        };
        self.requests.lock().unwrap().push(request);
        let mut pieces: VecDeque<AnswerPart> = pieces?.into();
        let done = LlmCompletionMetadata {
            prompt_tokens: Some(self.counts.load(Ordering::SeqCst)),
            completion_tokens: Some(20),
            ..LlmCompletionMetadata::default()
        };
        pieces.push_back(AnswerPart::Say(LlmStreamEvent::Done(Box::new(done))));
        Ok(Box::pin(FakeAnswerStream {
            pieces,
            waiting: None,
            open: self.open.subscribe(),
        }))
    }
}

struct FakeAnswerStream {
    pieces: VecDeque<AnswerPart>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    open: watch::Receiver<bool>,
}

impl Stream for FakeAnswerStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            match self.pieces.pop_front() {
                None => return Poll::Ready(None),
                Some(AnswerPart::Say(event)) => return Poll::Ready(Some(Ok(event))),
                Some(AnswerPart::Wait) => {
                    let mut open = self.open.clone();
                    self.waiting = Some(Box::pin(async move {
                        let _ = open.wait_for(|open| *open).await;
                    }));
                }
            }
        }
    }
}
