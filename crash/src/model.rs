//! A model whose answers depend only on the conversation, so that a repeated call gives the same answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::json;
use tokio::time::Sleep;
use windlass_core::error::Result;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmMessageRole, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::tools::ToolCall;

use crate::faults;

/// Slow enough that a random kill interrupts an answer.
const PIECE_DELAY: Duration = Duration::from_millis(1);

/// A model that reads the tools to call from the newest input, and calls them once.
pub(crate) struct ScriptedToolModel;

#[async_trait]
impl LlmDriver for ScriptedToolModel {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        faults::pass("model.before-answer");
        let newest = messages
            .iter()
            .rposition(|m| m.role == LlmMessageRole::User);
        let (input, since) = match newest {
            Some(at) => (messages[at].content_as_text(), &messages[at..]),
            None => (String::new(), &messages[..]),
        };
        let has_results = since.iter().any(|m| m.role == LlmMessageRole::Tool);
        let calls = if has_results {
            Vec::new()
        } else {
            calls_of(&input)
        };
        let text = format!("About {input}: this is streamed in pieces.");
        let mut pieces: VecDeque<_> = text
            .split_inclusive(' ')
            .map(|word| LlmStreamEvent::TextDelta(word.to_owned()))
            .collect();
        if !calls.is_empty() {
            pieces.push_back(LlmStreamEvent::ToolCalls(calls));
        }
        pieces.push_back(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
            prompt_tokens: Some(1),
            completion_tokens: Some(1),
            ..LlmCompletionMetadata::default()
        })));
        Ok(stream_slowly(pieces, || {}))
    }
}

/// Streams chunks slowly, and signals when all are sent.
pub(crate) fn stream_slowly(
    pieces: VecDeque<LlmStreamEvent>,
    on_last_piece: impl FnOnce() + Send + 'static,
) -> LlmResponseStream {
    Box::pin(PacedStream {
        pieces,
        pause: None,
        on_last_piece: Some(Box::new(on_last_piece)),
    })
}

/// An input looks like `3 once idempotent`: a number, then tools.
fn calls_of(input: &str) -> Vec<ToolCall> {
    let tools = input.split(' ').skip(1).enumerate();
    tools
        .map(|(n, tool)| ToolCall {
            id: format!("call_{n}"),
            name: tool.to_owned(),
            arguments: json!({ "input": input }),
        })
        .collect()
}

struct PacedStream {
    pieces: VecDeque<LlmStreamEvent>,
    pause: Option<Pin<Box<Sleep>>>,
    on_last_piece: Option<Box<dyn FnOnce() + Send>>,
}

impl Stream for PacedStream {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
        }
        self.pause = Some(Box::pin(tokio::time::sleep(PIECE_DELAY)));
        if self.pieces.len() == 3 {
            faults::pass("model.in-answer");
        }
        if self.pieces.len() == 1
            && let Some(on_last_piece) = self.on_last_piece.take()
        {
            on_last_piece();
        }
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }
}
