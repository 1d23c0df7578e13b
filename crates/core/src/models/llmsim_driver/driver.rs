//! The driver of the simulated model.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use tokio::time::Sleep;

use super::config::{ExtraCalls, LlmSimConfig, OnExhausted, SimScript, SimToolCall, SimTurn};
use crate::error::{AgentLoopError, Result};
use crate::llm_driver_registry::{
    DiscoveredModel, LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmMessageRole,
    LlmRequest, LlmResponseStream, LlmStreamEvent, SESSION_ID_KEY,
};
use crate::lock::lock;
use crate::message::MessageRole;
use crate::tool_types::ToolCall;
use crate::typed_id::SessionId;

/// Approximate number of characters per token.
const CHARS_PER_TOKEN: usize = 4;
const LOREM: &str = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ";

/// The simulated model. One driver serves many sessions, and each session starts at the beginning of the script.
#[derive(Debug)]
pub struct LlmSimDriver {
    config: LlmSimConfig,
    calls: Mutex<HashMap<Option<SessionId>, usize>>,
}

/// The answer of one call.
struct SimAnswer {
    text: String,
    calls: Vec<ToolCall>,
}

impl LlmSimDriver {
    /// Creates a driver from a configuration.
    #[must_use]
    pub fn new(config: LlmSimConfig) -> Self {
        Self {
            config,
            calls: Mutex::default(),
        }
    }

    /// Counts a call and returns the number of earlier calls of the session.
    fn count(&self, session: Option<SessionId>) -> usize {
        let mut calls = lock(&self.calls);
        let made = calls.entry(session).or_default();
        *made += 1;
        *made - 1
    }

    fn answer(&self, n: usize, last_user_text: impl FnOnce() -> String) -> Result<SimAnswer> {
        let (text, calls) = match &self.config.script {
            SimScript::Sequence(texts) => (self.pick(texts, n)?.clone(), Vec::new()),
            SimScript::Echo => (format!("Echo: {}", last_user_text()), Vec::new()),
            SimScript::Lorem(tokens) => (lorem(*tokens), Vec::new()),
            SimScript::Error(message) => return Err(AgentLoopError::llm(message.clone())),
            SimScript::Scripted(turns) => match self.pick(turns, n)? {
                SimTurn::Assistant(text) => (text.clone(), Vec::new()),
                SimTurn::ToolCalls(calls) => (String::new(), with_ids(calls, n)),
                SimTurn::Mixed { text, tool_calls } => (text.clone(), with_ids(tool_calls, n)),
                SimTurn::Error(error) => return Err(error.to_error()),
            },
        };
        let extra = match &self.config.calls {
            ExtraCalls::None => &[][..],
            ExtraCalls::Every(calls) => calls,
            ExtraCalls::Sequence(entries) => entries
                .get(n % entries.len().max(1))
                .map_or(&[][..], Vec::as_slice),
        };
        Ok(SimAnswer {
            text,
            calls: calls.into_iter().chain(extra.iter().cloned()).collect(),
        })
    }

    fn pick<'a, T>(&self, entries: &'a [T], n: usize) -> Result<&'a T> {
        let exhausted = || {
            AgentLoopError::llm(format!(
                "the simulator's script of {} entries is exhausted",
                entries.len()
            ))
        };
        let index = match self.config.on_exhausted {
            OnExhausted::Loop => n % entries.len().max(1),
            OnExhausted::RepeatLast => n.min(entries.len().saturating_sub(1)),
            OnExhausted::Error => n,
        };
        entries.get(index).ok_or_else(exhausted)
    }

    fn respond(&self, answer: SimAnswer, model: &str, prompt_chars: usize) -> LlmResponseStream {
        let metadata = self.metadata(&answer, model, prompt_chars);
        let mut events = VecDeque::with_capacity(3);
        if self.config.piece_delay.is_zero() {
            if !answer.text.is_empty() {
                events.push_back(LlmStreamEvent::TextDelta(answer.text));
            }
        } else {
            let words = answer.text.split_inclusive(' ');
            events.extend(words.map(|word| LlmStreamEvent::TextDelta(word.to_owned())));
        }
        if !answer.calls.is_empty() {
            events.push_back(LlmStreamEvent::ToolCalls(answer.calls));
        }
        events.push_back(LlmStreamEvent::Done(Box::new(metadata)));
        Box::pin(SimStream {
            events,
            piece_delay: self.config.piece_delay,
            pause: None,
        })
    }

    fn metadata(
        &self,
        answer: &SimAnswer,
        model: &str,
        prompt_chars: usize,
    ) -> LlmCompletionMetadata {
        let tokens =
            |chars: usize| u32::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u32::MAX);
        let (read, written) = (tokens(prompt_chars), tokens(answer.text.len()));
        let finish_reason = if answer.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        LlmCompletionMetadata {
            total_tokens: Some(read.saturating_add(written)),
            prompt_tokens: Some(read),
            completion_tokens: Some(written),
            model: Some(self.model_or(model)),
            finish_reason: Some(finish_reason.to_owned()),
            response_id: self.config.response_id.clone(),
            ..LlmCompletionMetadata::default()
        }
    }

    fn model_or(&self, default: &str) -> String {
        let model = self.config.model.as_deref();
        model.unwrap_or(default).to_owned()
    }

    async fn wait(&self) {
        if !self.config.response_delay.is_zero() {
            tokio::time::sleep(self.config.response_delay).await;
        }
    }
}

/// Gives scripted calls unique IDs, like those of a provider.
fn with_ids(calls: &[SimToolCall], n: usize) -> Vec<ToolCall> {
    let call = |(i, call): (usize, &SimToolCall)| ToolCall {
        id: format!("call_{n}_{i}"),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    calls.iter().enumerate().map(call).collect()
}

fn lorem(tokens: usize) -> String {
    let letters = LOREM.chars().cycle();
    letters.take(tokens * CHARS_PER_TOKEN).collect()
}

#[async_trait]
impl LlmDriver for LlmSimDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        let session = config.metadata.get(SESSION_ID_KEY);
        let session = session.and_then(|id| id.parse().ok());
        let n = self.count(session);
        self.wait().await;
        let mut newest = messages.iter().rev();
        let last_user = newest.find(|message| message.role == LlmMessageRole::User);
        let input = last_user
            .map(LlmMessage::content_as_text)
            .unwrap_or_default();
        let prompt_chars = input.len();
        Ok(self.respond(self.answer(n, || input)?, &config.model, prompt_chars))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let n = self.count(Some(request.session_id));
        self.wait().await;
        // Only the newest input is counted, so that the cost of a call does not grow with the conversation.
        let mut newest = request.history.iter().rev();
        let last_user = newest.find(|message| message.role == MessageRole::User);
        let input = last_user
            .and_then(|message| message.text())
            .unwrap_or_default();
        let answer = self.answer(n, || input.to_owned())?;
        Ok(self.respond(answer, &request.config.model, input.len()))
    }

    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        Ok(Some(vec![DiscoveredModel {
            id: self.model_or("llmsim-model"),
            display_name: Some("Simulator".to_owned()),
        }]))
    }

    fn forget_session(&self, session_id: SessionId) {
        let mut calls = lock(&self.calls);
        calls.remove(&Some(session_id));
    }
}

/// Yields the events in order, with a pause between them.
struct SimStream {
    events: VecDeque<LlmStreamEvent>,
    piece_delay: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream for SimStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let event = self.events.pop_front();
        if !self.piece_delay.is_zero() && !self.events.is_empty() {
            self.pause = Some(Box::pin(tokio::time::sleep(self.piece_delay)));
        }
        Poll::Ready(event.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm_driver_registry::collect;

    async fn say(driver: &LlmSimDriver, session: SessionId, text: &str) -> Result<String> {
        let config = LlmCallConfig {
            metadata: HashMap::from([(SESSION_ID_KEY.to_owned(), session.to_string())]),
            ..LlmCallConfig::default()
        };
        let messages = vec![LlmMessage::text(LlmMessageRole::User, text)];
        let stream = driver.chat_completion_stream(messages, &config).await?;
        collect(stream).await.map(|response| response.text)
    }

    #[tokio::test]
    async fn r29_each_session_starts_at_the_beginning_of_the_script() {
        let driver = LlmSimDriver::new(LlmSimConfig::sequence(vec!["one".into(), "two".into()]));
        let (a, b) = (SessionId::from_seed(1), SessionId::from_seed(2));
        assert_eq!(say(&driver, a, "").await.unwrap(), "one");
        assert_eq!(say(&driver, b, "").await.unwrap(), "one");
        assert_eq!(say(&driver, a, "").await.unwrap(), "two");
        assert_eq!(say(&driver, a, "").await.unwrap(), "one");
        driver.forget_session(b);
        assert_eq!(say(&driver, b, "").await.unwrap(), "one");
    }

    #[tokio::test]
    async fn script_ends_in_one_of_three_ways() {
        let script = || {
            LlmSimConfig::scripted(vec![
                SimTurn::Assistant("a".into()),
                SimTurn::Assistant("b".into()),
            ])
        };
        let session = SessionId::from_seed(1);
        for (end, third) in [
            (OnExhausted::RepeatLast, Some("b")),
            (OnExhausted::Loop, Some("a")),
            (OnExhausted::Error, None),
        ] {
            let driver = LlmSimDriver::new(script().with_on_exhausted(end));
            assert_eq!(say(&driver, session, "").await.unwrap(), "a");
            assert_eq!(say(&driver, session, "").await.unwrap(), "b");
            assert_eq!(say(&driver, session, "").await.ok().as_deref(), third);
        }
    }

    #[tokio::test]
    async fn echo_and_lorem() {
        let session = SessionId::from_seed(1);
        assert_eq!(
            say(&LlmSimDriver::new(LlmSimConfig::echo()), session, "hi")
                .await
                .unwrap(),
            "Echo: hi"
        );
        assert_eq!(
            say(&LlmSimDriver::new(LlmSimConfig::lorem(10)), session, "")
                .await
                .unwrap()
                .len(),
            40
        );
    }
}
