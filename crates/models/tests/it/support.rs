//! Shared test support: drivers for the fake server, requests, and collected answers.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::error::{AgentLoopError, ProviderError, Result};
use windlass_core::events::TokenUsage;
use windlass_core::history::History;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmRequest, LlmResponseStream, LlmStreamEvent,
    SESSION_ID_KEY,
};
use windlass_core::message::Message;
use windlass_core::tool_types::{ToolCall, ToolDefinition};
use windlass_core::typed_id::SessionId;
use windlass_models::settings::ProviderSettings;
use windlass_models::{Api, ModelDriver, ModelSettings};
use windlass_testkit::{Exchange, FakeServer, Wire};

pub(crate) const KEY: &str = "test-key-0123456789";

pub(crate) fn api(wire: Wire) -> Api {
    match wire {
        Wire::OpenAi => Api::OpenAi,
        Wire::OpenAiChat => Api::OpenAiChat,
        Wire::Anthropic => Api::Anthropic,
        Wire::Gemini => Api::Gemini,
    }
}

pub(crate) fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi | Wire::OpenAiChat => "gpt-5-mini",
        Wire::Anthropic => "claude-sonnet-4-5",
        Wire::Gemini => "gemini-3.5-flash",
    }
}

/// The usual base URL: with the version for OpenAI, without it for the others.
pub(crate) fn base(wire: Wire, url: &str) -> String {
    match wire {
        Wire::OpenAi | Wire::OpenAiChat => format!("{url}/v1"),
        Wire::Anthropic | Wire::Gemini => url.to_owned(),
    }
}

pub(crate) fn driver(wire: Wire, url: &str) -> ModelDriver {
    driver_with(
        wire,
        url,
        ModelSettings::default(),
        ProviderSettings::default(),
    )
}

pub(crate) fn driver_with(
    wire: Wire,
    url: &str,
    settings: ModelSettings,
    provider: ProviderSettings,
) -> ModelDriver {
    ModelDriver::new(api(wire), KEY, Some(&base(wire, url)), settings, provider).unwrap()
}

pub(crate) fn config(wire: Wire) -> LlmCallConfig {
    let session = (
        SESSION_ID_KEY.to_owned(),
        SessionId::from_seed(1).to_string(),
    );
    LlmCallConfig {
        model: model(wire).to_owned(),
        metadata: HashMap::from([session]),
        ..LlmCallConfig::default()
    }
}

pub(crate) fn tools() -> Vec<ToolDefinition> {
    let place = json!({
        "type": "object",
        "properties": { "place": { "type": "string" } },
        "required": ["place"],
        "additionalProperties": false
    });
    vec![
        ToolDefinition::client_side("weather", "Tells the weather.", place.clone()),
        ToolDefinition::client_side("time", "Tells the time.", place),
    ]
}

pub(crate) fn request(config: LlmCallConfig, messages: Vec<Message>) -> LlmRequest {
    LlmRequest {
        session_id: SessionId::from_seed(1),
        turn_id: None,
        exec_id: None,
        system_prompt: "Be brief.".into(),
        history: History::from(messages),
        config: Arc::new(config),
    }
}

pub(crate) fn ask(wire: Wire) -> LlmRequest {
    request(config(wire), vec![Message::user("hello")])
}

/// An answer, collected as in the runtime.
#[derive(Debug, Default)]
pub(crate) struct CollectedAnswer {
    pub(crate) pieces: Vec<String>,
    pub(crate) thinking: String,
    pub(crate) signature: Option<String>,
    pub(crate) items: Vec<Value>,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) done: Option<LlmCompletionMetadata>,
    pub(crate) error: Option<AgentLoopError>,
}

impl CollectedAnswer {
    pub(crate) fn text(&self) -> String {
        self.pieces.concat()
    }

    pub(crate) fn finish_reason(&self) -> &str {
        let done = self.done.as_ref();
        done.and_then(|done| done.finish_reason.as_deref())
            .unwrap_or_else(|| panic!("no end: {self:?}"))
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.done.as_ref().unwrap().usage().unwrap()
    }

    /// The error of a call that must fail.
    pub(crate) fn provider_error(&self) -> &ProviderError {
        match &self.error {
            Some(AgentLoopError::Provider(error)) => error,
            other => panic!("not an error of a provider: {other:?}"),
        }
    }

    /// The message that the journal would record.
    pub(crate) fn message(self) -> Message {
        let text = self.text();
        Message {
            thinking: (!self.thinking.is_empty()).then_some(self.thinking),
            thinking_signature: self.signature,
            reasoning_items: self.items,
            ..Message::assistant_with_tools(text, self.calls)
        }
    }

    fn take(&mut self, event: LlmStreamEvent) {
        match event {
            LlmStreamEvent::TextDelta(text) => self.pieces.push(text),
            LlmStreamEvent::ThinkingDelta(text) => self.thinking.push_str(&text),
            LlmStreamEvent::ThinkingSignature(signature) => self.signature = Some(signature),
            LlmStreamEvent::ReasonItem { payload, .. } => self.items.push(payload),
            LlmStreamEvent::ToolCalls(calls) => self.calls.extend(calls),
            LlmStreamEvent::Done(done) => self.done = Some(*done),
            LlmStreamEvent::Error(message) => self.error = Some(AgentLoopError::Llm(message)),
        }
    }
}

pub(crate) async fn next(stream: &mut LlmResponseStream) -> Option<Result<LlmStreamEvent>> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

pub(crate) async fn collect(stream: Result<LlmResponseStream>) -> CollectedAnswer {
    let mut outcome = CollectedAnswer::default();
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            outcome.error = Some(error);
            return outcome;
        }
    };
    while let Some(event) = next(&mut stream).await {
        match event {
            Ok(event) => outcome.take(event),
            Err(error) => outcome.error = Some(error),
        }
    }
    outcome
}

pub(crate) async fn call(driver: &dyn LlmDriver, request: LlmRequest) -> CollectedAnswer {
    collect(driver.stream(request).await).await
}

/// Makes one call while the test acts as the provider; returns the answer and the request.
pub(crate) async fn exchange<F, R>(
    driver: &dyn LlmDriver,
    request: LlmRequest,
    server: &mut FakeServer,
    answer: F,
) -> (CollectedAnswer, windlass_testkit::Request)
where
    F: FnOnce(Exchange) -> R,
    R: Future<Output = std::io::Result<()>>,
{
    let provider = async {
        let exchange = server.next().await;
        let sent = exchange.request.clone();
        answer(exchange).await.unwrap();
        sent
    };
    tokio::join!(call(driver, request), provider)
}

/// Like [`exchange`], with one complete answer.
pub(crate) async fn exchange_answer(
    wire: Wire,
    request: LlmRequest,
    answer: &windlass_testkit::Answer,
) -> (CollectedAnswer, windlass_testkit::Request) {
    let mut server = FakeServer::start().await.unwrap();
    let driver = driver(wire, &server.url());
    let events = wire.events(answer);
    exchange(&driver, request, &mut server, async |exchange| {
        exchange.stream(&events).await
    })
    .await
}
