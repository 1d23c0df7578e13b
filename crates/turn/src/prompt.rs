//! The prompt of an external agent, as text.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use windlass_core::bounds::prefix;
use windlass_core::events::BackendPrompt;
use windlass_core::items::plain_text;
use windlass_core::message::{ContentPart, Message, MessageRole};

use crate::run::{OfflineDecision, Run};
use crate::state::Thread;

/// Maximum bytes of a call's arguments or result in a history.
const MAX_CALL_BYTES: usize = 2_000;

const RESUME: &str = "You were stopped before your work was done. Continue your task where you left off. \
A step whose result you do not know may or may not have taken effect: check before you repeat it.";
const APPROVED: &str = "While you were stopped, this call was approved. It has not been run; make it again, unchanged, if it is \
still needed";
const REFUSED: &str =
    "While you were stopped, this call was refused. It has not been run; do not make it again";
const HISTORY: &str =
    "This is the conversation so far. You did not take part in it yet; continue from here.";
const NEW_INPUT: &str = "This is the new input:";

/// A prompt for an external agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptText {
    /// The prompt as plain text.
    pub text: String,
    /// Number of the oldest messages that were left out.
    pub left_out: usize,
}

impl Thread {
    /// Returns the prompt of the running agent. Its history consists of the newest whole turns, up to `max_history_bytes`.
    #[must_use]
    pub fn backend_prompt(&self, max_history_bytes: usize) -> Option<PromptText> {
        let run = self.turn.as_ref()?.run()?;
        let input = self.input_text(run);
        let (text, left_out) = match (run.prompt, input.is_empty()) {
            (BackendPrompt::Words, _) => (input, 0),
            (BackendPrompt::GoOn, true) => (RESUME.to_owned(), 0),
            (BackendPrompt::GoOn, false) => (format!("{RESUME}\n\n{NEW_INPUT}\n\n{input}"), 0),
            (BackendPrompt::History, is_empty) => {
                let (history, left_out) = self.history_text(run, max_history_bytes);
                let new = if is_empty { RESUME.to_owned() } else { input };
                match (history.is_empty(), left_out) {
                    (true, 0) => (new, 0),
                    _ => (
                        format!("{HISTORY}\n\n{history}\n{NEW_INPUT}\n\n{new}"),
                        left_out,
                    ),
                }
            }
        };
        let text = [self.offline_decisions(), text].concat();
        Some(PromptText { text, left_out })
    }

    /// Reports to the external agent the decisions about calls that were lost with its process.
    fn offline_decisions(&self) -> String {
        let decisions = self.turn.iter().flat_map(|turn| &turn.offline_decisions);
        let lines = decisions.map(|OfflineDecision { call, is_allowed }| {
            let (name, arguments) = (&call.name, call.arguments.to_string());
            let decision = if *is_allowed { APPROVED } else { REFUSED };
            format!(
                "{decision}: {name} {}\n\n",
                prefix(&arguments, MAX_CALL_BYTES)
            )
        });
        lines.collect()
    }

    /// Returns the input of this run.
    fn input_text(&self, run: &Run) -> String {
        let is_input = |message: &&Arc<Message>| run.message_ids.contains(&message.id);
        // They are part of this turn, or later than the messages that the agent has read.
        let since = self.ends.last().map_or(0, |end| end.messages);
        let known = self.session.as_ref().map(|known| known.messages);
        let since = known.map_or(since, |known| known.min(since));
        let recent = self.history().page(since, self.history().len());
        let texts = recent.filter(is_input).map(|it| plain_text(&it.content));
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the model's view of the conversation without this run's input, and the number of messages left out.
    fn history_text(&self, run: &Run, max_bytes: usize) -> (String, usize) {
        let context = self.context();
        let ends: HashSet<usize> = self.ends.iter().map(|end| end.messages).collect();
        let mut turns: Vec<(String, usize)> = vec![(String::new(), 0)];
        for (at, message) in context.iter().enumerate() {
            // A summary replaces the oldest messages, so both lists have the same end.
            let position = (self.history().len() + at).saturating_sub(context.len());
            let begins = at > 0 && ends.contains(&position);
            if begins {
                turns.push((String::new(), 0));
            }
            if run.message_ids.contains(&message.id) {
                continue;
            }
            if let Some(turn) = turns.last_mut() {
                write_message(&mut turn.0, message);
                turn.1 += 1;
            }
        }
        let mut left = max_bytes;
        let mut first = turns.len();
        for (text, _) in turns.iter().rev() {
            match left.checked_sub(text.len()) {
                Some(rest) => left = rest,
                None => break,
            }
            first -= 1;
        }
        let left_out: usize = turns[..first].iter().map(|(_, messages)| messages).sum();
        let mut history = String::new();
        if left_out > 0 {
            let _ = writeln!(history, "({left_out} earlier messages are left out.)\n");
        }
        turns[first..].iter().for_each(|(text, _)| history += text);
        (history, left_out)
    }
}

/// Appends a message as text.
fn write_message(text: &mut String, message: &Message) {
    let speaker = match message.role {
        MessageRole::User => "User",
        MessageRole::Agent => "Assistant",
        MessageRole::System => "System",
        MessageRole::ToolResult => "Result",
    };
    for part in &message.content {
        let content = match part {
            ContentPart::ToolCall(call) => {
                let arguments = call.arguments.to_string();
                format!(
                    "[calls {} {}]",
                    call.name,
                    prefix(&arguments, MAX_CALL_BYTES)
                )
            }
            ContentPart::ToolResult(result) => {
                let value = result.result.as_ref().map(ToString::to_string);
                let text = result.error.clone().or(value).unwrap_or_default();
                prefix(&text, MAX_CALL_BYTES).to_owned()
            }
            part => plain_text(std::slice::from_ref(part)).into_owned(),
        };
        let _ = writeln!(text, "{speaker}: {content}\n");
    }
}
