//! The prompt of an external agent, as text.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use windlass_core::events::BackendPrompt;
use windlass_core::items::plain_text;
use windlass_core::message::{ContentPart, Message, MessageRole};

use crate::run::{Run, Settled};
use crate::state::Thread;

/// Maximum bytes of a call's arguments or result in a history.
const MAX_CALL_BYTES: usize = 2_000;

const GO_ON: &str = "You were stopped before your work was done. Go on with your task where it was left. \
A step whose result you do not know may or may not have taken effect: look before you repeat it.";
const APPROVED: &str = "While you were stopped, this call was approved. It has not been run; make it again, unchanged, if it is \
still needed";
const REFUSED: &str =
    "While you were stopped, this call was refused. It has not been run; do not make it again";
const SO_FAR: &str =
    "This is the conversation so far. You had no part in this process yet; go on from it.";
const NOW: &str = "This is what you are told now:";

/// A prompt for an external agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// The prompt as plain text.
    pub text: String,
    /// How many messages of the conversation were left out of it, the oldest ones.
    pub left_out: usize,
}

impl Thread {
    /// Returns the prompt of the running agent. A history has at most so many bytes: whole turns, the newest ones.
    #[must_use]
    pub fn backend_prompt(&self, max_history_bytes: usize) -> Option<PromptText> {
        let run = self.turn.as_ref()?.run()?;
        let words = self.words_of(run);
        let (text, left_out) = match (run.prompt, words.is_empty()) {
            (BackendPrompt::Words, _) => (words, 0),
            (BackendPrompt::GoOn, true) => (GO_ON.to_owned(), 0),
            (BackendPrompt::GoOn, false) => (format!("{GO_ON}\n\n{NOW}\n\n{words}"), 0),
            (BackendPrompt::History, is_empty) => {
                let (history, left_out) = self.told_history(run, max_history_bytes);
                let now = if is_empty { GO_ON.to_owned() } else { words };
                match (history.is_empty(), left_out) {
                    (true, 0) => (now, 0),
                    _ => (format!("{SO_FAR}\n\n{history}\n{NOW}\n\n{now}"), left_out),
                }
            }
        };
        let text = [self.settled_calls(), text].concat();
        Some(PromptText { text, left_out })
    }

    /// Reports to the external agent the decisions about calls that were lost with its process.
    fn settled_calls(&self) -> String {
        let settled = self.turn.iter().flat_map(|turn| &turn.settled);
        let lines = settled.map(|Settled { call, is_allowed }| {
            let (name, arguments) = (&call.name, call.arguments.to_string());
            let decision = if *is_allowed { APPROVED } else { REFUSED };
            format!("{decision}: {name} {}\n\n", cut(&arguments))
        });
        lines.collect()
    }

    /// The input of this run.
    fn words_of(&self, run: &Run) -> String {
        let is_told = |message: &&Arc<Message>| run.message_ids.contains(&message.id);
        // They are among the newest messages: part of this turn, or after those that the agent has read.
        let since = self.ends.last().map_or(0, |end| end.messages);
        let known = self.session.as_ref().map(|known| known.messages);
        let since = known.map_or(since, |known| known.min(since));
        let said = self.history().page(since, self.history().len());
        let words = said.filter(is_told).map(|it| plain_text(&it.content));
        words.collect::<Vec<_>>().join("\n\n")
    }

    /// The conversation as the model would read it, without this run's input.
    fn told_history(&self, run: &Run, max_bytes: usize) -> (String, usize) {
        let context = self.context();
        let ends: HashSet<usize> = self.ends.iter().map(|end| end.messages).collect();
        let mut turns: Vec<(String, usize)> = vec![(String::new(), 0)];
        for (at, message) in context.iter().enumerate() {
            // A summary replaces the oldest messages, so both lists end alike.
            let place = (self.history().len() + at).saturating_sub(context.len());
            let begins = at > 0 && ends.contains(&place);
            if begins {
                turns.push((String::new(), 0));
            }
            if run.message_ids.contains(&message.id) {
                continue;
            }
            if let Some(turn) = turns.last_mut() {
                tell(&mut turn.0, message);
                turn.1 += 1;
            }
        }
        let mut left = max_bytes;
        let mut kept = turns.len();
        for (text, _) in turns.iter().rev() {
            match left.checked_sub(text.len()) {
                Some(rest) => left = rest,
                None => break,
            }
            kept -= 1;
        }
        let left_out: usize = turns[..kept].iter().map(|(_, messages)| messages).sum();
        let mut told = String::new();
        if left_out > 0 {
            let _ = writeln!(told, "({left_out} earlier messages are left out.)\n");
        }
        turns[kept..].iter().for_each(|(text, _)| told += text);
        (told, left_out)
    }
}

/// Puts a message into words.
fn tell(told: &mut String, message: &Message) {
    let speaker = match message.role {
        MessageRole::User => "User",
        MessageRole::Agent => "Assistant",
        MessageRole::System => "System",
        MessageRole::ToolResult => "Result",
    };
    for part in &message.content {
        let text = match part {
            ContentPart::ToolCall(call) => {
                let arguments = call.arguments.to_string();
                format!("[calls {} {}]", call.name, cut(&arguments))
            }
            ContentPart::ToolResult(result) => {
                let value = result.result.as_ref().map(ToString::to_string);
                let text = result.error.clone().or(value).unwrap_or_default();
                cut(&text).to_owned()
            }
            part => plain_text(std::slice::from_ref(part)).into_owned(),
        };
        let _ = writeln!(told, "{speaker}: {text}\n");
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_CALL_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
