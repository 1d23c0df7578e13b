//! What was said, and what of it the model still reads.

use std::sync::Arc;

use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::shared_list::SharedList;

/// A summary in the place of what was said before it.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// The record that brought it.
    seq: u64,
    /// How many messages it stands for.
    messages: usize,
    text: Arc<Message>,
}

/// A conversation: whole for people, and as far as the model reads it. Both grow by the same messages, so neither is
/// ever copied.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Transcript {
    whole: History,
    /// A summary and what came after it; `None` before the first.
    short: Option<History>,
    summaries: SharedList<Summary>,
}

impl Transcript {
    pub(crate) fn whole(&self) -> &History {
        &self.whole
    }

    pub(crate) fn context(&self) -> &History {
        self.short.as_ref().unwrap_or(&self.whole)
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len()
    }

    pub(crate) fn last(&self) -> Option<&Arc<Message>> {
        self.whole.last()
    }

    pub(crate) fn push(&mut self, message: Arc<Message>) {
        if let Some(short) = &mut self.short {
            short.push(Arc::clone(&message));
        }
        self.whole.push(message);
    }

    /// Lets a summary stand for everything that was said so far.
    pub(crate) fn summarise(&mut self, seq: u64, text: Message) {
        let (messages, text) = (self.whole.len(), Arc::new(text));
        self.short = Some(History::from_iter([Arc::clone(&text)]));
        self.summaries.push(Summary {
            seq,
            messages,
            text,
        });
    }

    /// Returns the conversation as it was at a record, when it had so many messages.
    pub(crate) fn truncated(&self, messages: usize, seq: u64) -> Self {
        let made = self.summaries.iter();
        let summaries = self
            .summaries
            .truncated(made.take_while(|summary| summary.seq <= seq).count());
        let whole = self.whole.truncated(messages);
        let short = summaries.last().map(|summary| {
            let later = whole.page(summary.messages, whole.len()).cloned();
            std::iter::once(Arc::clone(&summary.text))
                .chain(later)
                .collect()
        });
        Self {
            whole,
            short,
            summaries,
        }
    }
}
