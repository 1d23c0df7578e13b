//! Estimates of the tokens of messages, and how oversized ones are cut.
//!
//! Only the provider knows the exact number, so this is a cautious estimate: prose has about four bytes per token, code and numbers about three.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::bounds::{json_bytes, prefix, suffix};
use windlass_core::derived_id::derive;
use windlass_core::history::History;
use windlass_core::message::{ContentPart, Message, MessageRole};
use windlass_core::typed_id::{MessageId, TurnId};

use crate::plan::CompactionPlan;
use crate::state::{Measured, Phase, Thread};

const BYTES_PER_TOKEN: u64 = 3;
/// Overhead of a message beyond its text.
const TOKENS_PER_MESSAGE: u64 = 8;
/// Maximum for an image with the providers that document it.
const TOKENS_PER_IMAGE: u64 = 1_600;
/// Size of the prompt that requests a summary.
const TOKENS_OF_QUESTION: u64 = 256;
/// Messages are not truncated further than this.
const MIN_TOKENS: u64 = 128;
/// Size of the note that marks an omission, in bytes.
const BYTES_OF_REMARK: usize = 160;

impl CompactionPlan {
    /// Returns the estimated tokens of a text with the given number of bytes.
    #[must_use]
    pub fn tokens_of_bytes(bytes: usize) -> u64 {
        tokens_of_bytes(bytes)
    }

    /// Returns the conversation as sent: a message that takes most of the available tokens is truncated, with a note.
    #[must_use]
    pub fn cut(&self, history: &History) -> History {
        let max = self.max_message();
        if history.iter().all(|message| tokens_of(message) <= max) {
            return history.clone();
        }
        history.iter().map(|message| cut(message, max)).collect()
    }

    /// Returns the tokens that are available for messages.
    pub(crate) fn available_tokens(&self) -> u64 {
        let taken = self.reserve_tokens.saturating_add(self.prompt_tokens);
        self.window_tokens.saturating_sub(taken)
    }

    /// Token limit of one message; longer messages are truncated. At least `MIN_TOKENS`.
    fn max_message(&self) -> u64 {
        (self.available_tokens() / 4 * 3).max(MIN_TOKENS)
    }

    /// Returns the tokens of a message as sent.
    pub(crate) fn tokens_of(&self, message: &Message) -> u64 {
        tokens_of(message).min(self.max_message())
    }
}

impl Thread {
    /// Returns the approximate size of the open turn's answers, calls and results, in bytes.
    #[must_use]
    pub fn turn_output_bytes(&self) -> usize {
        let since = self.ends.last().map_or(0, |end| end.messages);
        let messages = self.history().page(since, self.history().len());
        let output = messages.filter(|message| message.role != MessageRole::User);
        let bytes = output.map(|message| tokens_of(message) * BYTES_PER_TOKEN);
        usize::try_from(bytes.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Returns the tokens of the next model call: the provider's count of the last request, plus an estimate of the messages since.
    #[must_use]
    pub fn context_tokens(&self, plan: &CompactionPlan) -> u64 {
        let context = self.context();
        let (known, from) = self
            .measured_context()
            .map_or((plan.prompt_tokens, 0), |it| (it.tokens, it.messages));
        let later = context.page(from, context.len());
        later
            .map(|message| plan.tokens_of(message))
            .fold(known, u64::saturating_add)
    }

    /// Returns the estimate for the conversation as it was at the end of a turn; `None` if that turn has not ended here.
    #[must_use]
    pub fn context_tokens_at(&self, plan: &CompactionPlan, turn_id: TurnId) -> Option<u64> {
        let end = self.ends.iter().find(|end| end.turn_id == turn_id)?;
        let messages = self.history().page(0, end.messages);
        let tokens = messages.map(|message| plan.tokens_of(message));
        Some(tokens.fold(plan.prompt_tokens, u64::saturating_add))
    }

    /// Returns the count of the last model call, if its messages are still the beginning of the context.
    pub(crate) fn measured_context(&self) -> Option<Measured> {
        let context = self.context();
        self.measured
            .filter(|measured| measured.messages <= context.len())
    }

    /// Returns the input of the running compaction: all messages except those that remain verbatim. With a plan, it fits the context window: long
    /// messages are truncated, and if that is not sufficient, the oldest are left out.
    #[must_use]
    pub fn to_summarise(&self, plan: Option<&CompactionPlan>) -> History {
        let context = self.context();
        let verbatim = match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Compacting(compaction)) => compaction.recent_messages.unwrap_or(0),
            _ => 0,
        };
        let older = context.truncated(context.len().saturating_sub(verbatim));
        match plan {
            Some(plan) => fitted(
                &older,
                plan.available_tokens().saturating_sub(TOKENS_OF_QUESTION),
            ),
            None => older,
        }
    }
}

fn fitted(history: &History, max_tokens: u64) -> History {
    let total = |max: u64| -> u64 { history.iter().map(|it| tokens_of(it).min(max)).sum() };
    let mut max = max_tokens.max(MIN_TOKENS);
    while total(max) > max_tokens && max / 2 >= MIN_TOKENS {
        max /= 2;
    }
    let messages: Vec<_> = history.iter().map(|message| cut(message, max)).collect();
    without_oldest(messages, max_tokens).into_iter().collect()
}

/// Omits the oldest messages except the first, which is the previous summary or the first input. Calls and their results are omitted together.
fn without_oldest(mut messages: Vec<Arc<Message>>, max_tokens: u64) -> Vec<Arc<Message>> {
    let is_result = |message: &Arc<Message>| message.role == MessageRole::ToolResult;
    let mut total: u64 = messages.iter().map(|message| tokens_of(message)).sum();
    let first = messages.iter().skip(1).take_while(|it| is_result(it));
    let first = (1 + first.count()).min(messages.len());
    let mut end = first;
    while let Some(message) = messages.get(end) {
        if total <= max_tokens && !is_result(message) {
            break;
        }
        total -= tokens_of(message);
        end += 1;
    }
    let left_out = end - first;
    if left_out > 0 {
        let id = derive(messages[first].id.uuid(), 0);
        let text = format!("({left_out} messages are left out here: they do not fit.)");
        let remark = Message::from_parts(
            MessageId::from_uuid(id),
            MessageRole::User,
            vec![ContentPart::text(text)],
            messages[first].created_at,
        );
        messages.splice(first..end, [Arc::new(remark)]);
    }
    messages
}

fn tokens_of_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

fn tokens_of(message: &Message) -> u64 {
    let parts: u64 = message.content.iter().map(tokens_of_part).sum();
    let thought = message.thinking.as_ref().map_or(0, String::len)
        + message.thinking_signature.as_ref().map_or(0, String::len)
        + message
            .reasoning_items
            .iter()
            .map(json_bytes)
            .sum::<usize>();
    TOKENS_PER_MESSAGE + parts + tokens_of_bytes(thought)
}

fn tokens_of_part(part: &ContentPart) -> u64 {
    match part {
        ContentPart::Text(part) => tokens_of_bytes(part.text.len()),
        ContentPart::Image(_) | ContentPart::ImageFile(_) => TOKENS_PER_IMAGE,
        ContentPart::ToolCall(call) => {
            tokens_of_bytes(call.id.len() + call.name.len() + json_bytes(&call.arguments))
        }
        ContentPart::ToolResult(result) => {
            let value = result.result.as_ref().map_or(0, value_bytes);
            let error = result.error.as_ref().map_or(0, String::len);
            tokens_of_bytes(result.tool_call_id.len() + value + error)
        }
    }
}

/// Returns the approximate size of a message in memory, in bytes.
pub(crate) fn memory_bytes(message: &Message) -> usize {
    let text_bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let parts = message.content.iter().map(|part| match part {
        ContentPart::Text(part) => part.text.len(),
        ContentPart::Image(image) => text_bytes(&image.base64) + text_bytes(&image.url),
        ContentPart::ImageFile(file) => text_bytes(&file.filename),
        ContentPart::ToolCall(call) => json_bytes(&call.arguments),
        ContentPart::ToolResult(result) => {
            result.result.as_ref().map_or(0, value_bytes) + text_bytes(&result.error)
        }
    });
    let thinking = text_bytes(&message.thinking) + text_bytes(&message.thinking_signature);
    let reasoning = message.reasoning_items.iter().map(json_bytes);
    size_of::<Message>() + parts.sum::<usize>() + thinking + reasoning.sum::<usize>()
}

/// Strings are sent without JSON encoding.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        value => json_bytes(value),
    }
}

/// Returns a message truncated to about the given number of tokens, with the same ID. Only this request contains the truncated form.
fn cut(message: &Arc<Message>, max_tokens: u64) -> Arc<Message> {
    if tokens_of(message) <= max_tokens {
        return Arc::clone(message);
    }
    let share = max_tokens.saturating_sub(TOKENS_PER_MESSAGE) * BYTES_PER_TOKEN;
    let parts = message.content.len().max(1);
    let share = usize::try_from(share).unwrap_or(usize::MAX) / parts;
    let max_bytes = share.saturating_sub(BYTES_OF_REMARK);
    let mut short = Message::clone(message);
    // Reasoning is useful only in full.
    (short.thinking, short.thinking_signature) = (None, None);
    short.reasoning_items = Vec::new();
    for part in &mut short.content {
        match part {
            ContentPart::Text(part) => cut_text(&mut part.text, max_bytes),
            ContentPart::ToolCall(call) if json_bytes(&call.arguments) > share => {
                let bytes = json_bytes(&call.arguments);
                call.arguments =
                    json!({ "left_out": format!("{bytes} bytes: they do not fit here") });
            }
            ContentPart::ToolResult(result) => {
                if let Some(error) = &mut result.error {
                    cut_text(error, max_bytes);
                }
                if let Some(value) = &mut result.result
                    && value_bytes(value) > max_bytes
                {
                    let mut text = match value.take() {
                        Value::String(text) => text,
                        value => value.to_string(),
                    };
                    cut_text(&mut text, max_bytes);
                    *value = Value::String(text);
                }
            }
            ContentPart::ToolCall(_) | ContentPart::Image(_) | ContentPart::ImageFile(_) => {}
        }
    }
    Arc::new(short)
}

/// Truncates a text to its beginning and a part of its end.
fn cut_text(text: &mut String, max_bytes: usize) {
    if text.len() <= max_bytes {
        return;
    }
    let head = prefix(text, max_bytes / 4 * 3).len();
    let tail = text.len() - suffix(text, max_bytes / 4).len();
    let left_out = tail - head;
    let remark = format!(
        "\n[{left_out} bytes are left out here: the message is too long for the model's window]\n"
    );
    text.replace_range(head..tail, &remark);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(history: &History) -> Vec<String> {
        let texts = history.iter().map(|message| match message.text() {
            Some(text) => text.to_owned(),
            None => format!("{:?}", message.role),
        });
        texts.collect()
    }

    #[test]
    fn truncated_message_retains_its_beginning_end_and_id() {
        let words = format!("begin{}end", "ä".repeat(10_000));
        let call = Message::tool_result("c", Some(json!({ "out": words })), None);
        for message in [Message::user(&words), call] {
            let message = Arc::new(message);
            let short = cut(&message, 500);
            assert!(tokens_of(&short) <= 500, "{}", tokens_of(&short));
            assert_eq!(short.id, message.id);
            let text = serde_json::to_string(&short.content).unwrap();
            for part in ["begin", "end", "bytes are left out"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn fitting_message_is_unchanged() {
        let message = Arc::new(Message::user("short"));
        assert!(Arc::ptr_eq(&cut(&message, 500), &message));
        let plan = CompactionPlan {
            window_tokens: 1_000,
            reserve_tokens: 100,
            keep_recent_tokens: 100,
            prompt_tokens: 100,
        };
        let history: History = [message].into_iter().collect();
        assert_eq!(plan.cut(&history), history);
    }

    #[test]
    fn longest_messages_are_truncated_before_the_oldest_pairs_are_omitted() {
        let long = "x".repeat(30_000);
        let history = History::from(vec![
            Message::user("first"),
            Message::user(&long),
            Message::user("last"),
        ]);
        let short = fitted(&history, 1_000);
        assert_eq!(short.len(), 3);
        assert!(short.iter().map(|it| tokens_of(it)).sum::<u64>() <= 1_000);

        let call = windlass_core::tools::ToolCall {
            id: "c".to_owned(),
            name: "read".to_owned(),
            arguments: json!({}),
        };
        let mut messages = vec![Message::user("first")];
        for _ in 0..50 {
            messages.push(Message::assistant_with_tools("", vec![call.clone()]));
            messages.push(Message::tool_result("c", Some(json!(long)), None));
        }
        let short = fitted(&History::from(messages), 1_000);
        assert!(short.iter().map(|it| tokens_of(it)).sum::<u64>() <= 1_000 + 32);
        let shown = shown(&short);
        assert_eq!(shown[0], "first");
        assert!(shown[1].contains("messages are left out"), "{shown:?}");
        assert_eq!(shown[2], "Agent", "a result without its call");
    }
}
