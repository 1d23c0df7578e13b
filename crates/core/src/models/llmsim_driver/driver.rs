//! Speaks for the simulated model.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use tokio::time::Sleep;

use super::config::{Calls, LlmSimConfig, OnExhausted, Script, SimToolCall, SimTurn};
use crate::error::{AgentLoopError, Result};
use crate::llm_driver_registry::{
    DiscoveredModel, LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmMessageRole,
    LlmRequest, LlmResponseStream, LlmStreamEvent, SESSION_ID_KEY,
};
use crate::message::MessageRole;
use crate::tool_types::ToolCall;
use crate::typed_id::SessionId;

/// About how many characters a token has.
const CHARS_PER_TOKEN: usize = 4;
const LOREM: &str = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ";

/// The simulated model. One driver serves many sessions, and each hears the script from its start.
#[derive(Debug)]
pub struct LlmSimDriver {
    config: LlmSimConfig,
    calls: Mutex<HashMap<Option<SessionId>, usize>>,
}

/// The answer of one call.
struct Answer {
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
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let made = calls.entry(session).or_default();
        *made += 1;
        *made - 1
    }

    fn answer(&self, n: usize, last_user_text: impl FnOnce() -> String) -> Result<Answer> {
        let (text, calls) = match &self.config.script {
            Script::Sequence(texts) => (self.pick(texts, n)?.clone(), Vec::new()),
            Script::Echo => (format!("Echo: {}", last_user_text()), Vec::new()),
            Script::Lorem(tokens) => (lorem(*tokens), Vec::new()),
            Script::Error(message) => return Err(AgentLoopError::llm(message.clone())),
            Script::Scripted(turns) => match self.pick(turns, n)? {
                SimTurn::Assistant(text) => (text.clone(), Vec::new()),
                SimTurn::ToolCalls(calls) => (String::new(), with_ids(calls, n)),
                SimTurn::Mixed { text, tool_calls } => (text.clone(), with_ids(tool_calls, n)),
                SimTurn::Error(error) => return Err(error.to_error()),
            },
        };
        let beside = match &self.config.calls {
            Calls::None => &[][..],
            Calls::Every(calls) => calls,
            Calls::Sequence(entries) => entries
                .get(n % entries.len().max(1))
                .map_or(&[][..], Vec::as_slice),
        };
        Ok(Answer {
            text,
            calls: calls.into_iter().chain(beside.iter().cloned()).collect(),
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

    fn speak(&self, answer: Answer, model: &str, prompt_chars: usize) -> LlmResponseStream {
        let metadata = self.metadata(&answer, model, prompt_chars);
        let mut events = VecDeque::with_capacity(3);
        if self.config.piece_delay.is_zero() {
            if !answer.text.is_empty() {
                events.push_back(LlmStreamEvent::TextDelta(answer.text));
            }
        } else {
            let words = answer
                .text
                .split_inclusive(' ')
                .map(|word| LlmStreamEvent::TextDelta(word.to_owned()));
            events.extend(words);
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

    fn metadata(&self, answer: &Answer, model: &str, prompt_chars: usize) -> LlmCompletionMetadata {
        let tokens =
            |chars: usize| u32::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u32::MAX);
        let (read, written) = (tokens(prompt_chars), tokens(answer.text.len()));
        LlmCompletionMetadata {
            total_tokens: Some(read.saturating_add(written)),
            prompt_tokens: Some(read),
            completion_tokens: Some(written),
            model: Some(
                self.config
                    .model
                    .clone()
                    .unwrap_or_else(|| model.to_owned()),
            ),
            finish_reason: Some(
                if answer.calls.is_empty() {
                    "stop"
                } else {
                    "tool_calls"
                }
                .to_owned(),
            ),
            response_id: self.config.response_id.clone(),
            ..LlmCompletionMetadata::default()
        }
    }

    async fn wait(&self) {
        if !self.config.response_delay.is_zero() {
            tokio::time::sleep(self.config.response_delay).await;
        }
    }
}

/// Scripted calls get ids that differ from call to call, as a provider's do.
fn with_ids(calls: &[SimToolCall], n: usize) -> Vec<ToolCall> {
    let call = |(i, call): (usize, &SimToolCall)| ToolCall {
        id: format!("call_{n}_{i}"),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    };
    calls.iter().enumerate().map(call).collect()
}

fn lorem(tokens: usize) -> String {
    LOREM
        .chars()
        .cycle()
        .take(tokens * CHARS_PER_TOKEN)
        .collect()
}

#[async_trait]
impl LlmDriver for LlmSimDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        let session = config
            .metadata
            .get(SESSION_ID_KEY)
            .and_then(|id| id.parse().ok());
        let n = self.count(session);
        self.wait().await;
        let last_user = || {
            messages
                .iter()
                .rev()
                .find(|m| m.role == LlmMessageRole::User)
        };
        let said = last_user()
            .map(LlmMessage::content_as_text)
            .unwrap_or_default();
        let prompt_chars = said.len();
        Ok(self.speak(self.answer(n, || said)?, &config.model, prompt_chars))
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let n = self.count(Some(request.session_id));
        self.wait().await;
        // Only the newest input counts as read, so that the cost of a call does not grow with the conversation.
        let last_user = request
            .history
            .iter()
            .rev()
            .find(|m| m.role == MessageRole::User);
        let said = last_user
            .and_then(|message| message.text())
            .unwrap_or_default();
        let answer = self.answer(n, || said.to_owned())?;
        Ok(self.speak(answer, &request.config.model, said.len()))
    }

    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        let id = self
            .config
            .model
            .clone()
            .unwrap_or_else(|| "llmsim-model".to_owned());
        Ok(Some(vec![DiscoveredModel {
            id,
            display_name: Some("Simulator".to_owned()),
        }]))
    }

    fn forget_session(&self, session_id: SessionId) {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&Some(session_id));
    }
}

/// Gives one piece after the other, with a pause before each but the first.
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
    async fn r29_each_session_hears_the_script_from_its_start() {
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
    async fn a_script_can_end_in_three_ways() {
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
    async fn it_echoes_and_fills() {
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
