//! A model that is honest in some conversations and hostile in others, depending on the input.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_core::Stream;
use serde_json::{Value, json};
use windlass_core::error::Result;
use windlass_core::llm_driver_registry::{
    LlmCallConfig, LlmCompletionMetadata, LlmDriver, LlmMessage, LlmMessageRole, LlmResponseStream,
    LlmStreamEvent,
};
use windlass_core::tools::ToolCall;

use super::values;
use crate::random::Random;

/// Answers with calls in a hostile turn.
const HOSTILE_ANSWERS: usize = 3;

/// A model that is honest in some conversations and hostile in others.
pub(super) struct MixedModel {
    /// How many hostile calls were made.
    pub(super) tried: Arc<AtomicU64>,
}

/// The content that an honest turn writes to its file.
pub(super) fn honest_text(n: u64) -> String {
    format!("An honest turn with the number {n} was here.\n")
}

/// The file of an honest turn.
pub(super) fn honest_file(n: u64) -> String {
    format!("notes/{}-{}.txt", n >> 32, n % 64)
}

#[async_trait]
impl LlmDriver for MixedModel {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        _config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        let newest = messages
            .iter()
            .rposition(|message| message.role == LlmMessageRole::User);
        let (input, since) = match newest {
            Some(at) => (messages[at].content_as_text(), &messages[at..]),
            None => (String::new(), &messages[..]),
        };
        let answers = since
            .iter()
            .filter(|message| message.role == LlmMessageRole::Assistant)
            .count();
        let (role, n) = input.split_once(' ').unwrap_or((&input, "0"));
        let n: u64 = n.parse().unwrap_or(0);
        let calls = match role {
            "hostile" if answers < HOSTILE_ANSWERS => {
                let mut random = Random::new(n ^ ((answers as u64) << 56));
                let calls = values::calls(&mut random);
                self.tried.fetch_add(calls.len() as u64, Ordering::Relaxed);
                calls
            }
            "honest" => honest_call(n, answers).into_iter().collect(),
            _ => Vec::new(),
        };
        let mut pieces = vec![LlmStreamEvent::TextDelta(format!("{role}: {answers}"))];
        if !calls.is_empty() {
            pieces.push(LlmStreamEvent::ToolCalls(calls));
        }
        pieces.push(LlmStreamEvent::Done(Box::new(LlmCompletionMetadata {
            prompt_tokens: Some(1),
            completion_tokens: Some(1),
            ..LlmCompletionMetadata::default()
        })));
        let pieces = pieces.into_iter().map(Ok);
        Ok(Box::pin(ReplyStream(pieces)) as Pin<Box<dyn Stream<Item = _> + Send>>)
    }
}

/// Writes a file, finds it, changes it and looks at it with a command.
fn honest_call(n: u64, answers: usize) -> Option<ToolCall> {
    let path = honest_file(n);
    let (name, arguments): (_, Value) = match answers {
        0 => (
            "write",
            json!({"path": path, "content": format!("draft {n}")}),
        ),
        1 => (
            "grep",
            json!({"pattern": format!("^draft {n}$"), "path": "notes"}),
        ),
        2 => (
            "edit",
            json!({"path": path, "old_string": format!("draft {n}"), "new_string": honest_text(n)}),
        ),
        3 => ("shell", json!({"command": format!("cat {path}")})),
        _ => return None,
    };
    Some(ToolCall {
        id: format!("call_{answers}"),
        name: name.to_owned(),
        arguments,
    })
}

struct ReplyStream<I>(I);

impl<I: Iterator<Item = Result<LlmStreamEvent>> + Unpin> Stream for ReplyStream<I> {
    type Item = Result<LlmStreamEvent>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}
