//! The full conversation, and the part of it that the model still reads.

use std::sync::Arc;

use windlass_core::SharedList;
use windlass_core::history::History;
use windlass_core::message::Message;
use windlass_core::typed_id::MessageId;

use crate::discovered_tools::DiscoveredTools;
use crate::size::memory_bytes;

/// A summary that replaces earlier messages.
#[derive(Debug, Clone, PartialEq)]
struct Summary {
    /// The record that brought it.
    seq: u64,
    /// Number of messages that it replaces.
    messages: usize,
    text: Arc<Message>,
    /// The input of the turn that ran at that time, which remains verbatim.
    input: Option<Arc<Message>>,
}

impl Summary {
    /// The summary and the messages after it.
    fn before(&self, whole: &History) -> History {
        let later = whole.page(self.messages, whole.len()).cloned();
        let head = std::iter::once(Arc::clone(&self.text)).chain(self.input.clone());
        head.chain(later).collect()
    }
}

/// A conversation: whole for people, and as far as the model reads it. Both grow by the same messages, so neither is
/// ever copied.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Transcript {
    whole: History,
    /// The summary and the messages after it; `None` before the first summary.
    short: Option<History>,
    summaries: SharedList<Summary>,
    /// What all of it has named. Shared, because every decision starts from a copy.
    named: Arc<DiscoveredTools>,
    /// Approximate size of `whole` in memory.
    bytes: usize,
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
        DiscoveredTools::note(&mut self.named, &message);
        self.bytes += memory_bytes(&message);
        self.whole.push(message);
    }

    /// Returns the approximate size of the conversation in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn named(&self) -> &DiscoveredTools {
        &self.named
    }

    /// Returns how many messages precede the newer ones in the model's view: a summary, and the input of the turn in which it was made.
    pub(crate) fn head(&self) -> usize {
        let summary = self.summaries.last();
        summary.map_or(0, |summary| 1 + usize::from(summary.input.is_some()))
    }

    /// Returns a message that the model reads and that is not among so many of the newest.
    pub(crate) fn outside(&self, newest: usize, id: MessageId) -> Option<Arc<Message>> {
        let context = self.context();
        let mut older = context.page(0, context.len().saturating_sub(newest));
        older.find(|message| message.id == id).cloned()
    }

    /// Replaces all messages so far by a summary, except one message and the given number of the newest.
    pub(crate) fn summarise(
        &mut self,
        seq: u64,
        text: Message,
        input: Option<Arc<Message>>,
        kept: usize,
    ) {
        let kept = kept.min(self.context().len().saturating_sub(self.head()));
        let summary = Summary {
            seq,
            messages: self.whole.len() - kept,
            text: Arc::new(text),
            input,
        };
        self.short = Some(summary.before(&self.whole));
        self.summaries.push(summary);
    }

    /// Returns the conversation as it was at a record, when it had so many messages.
    pub(crate) fn truncated(&self, messages: usize, seq: u64) -> Self {
        let made = self.summaries.iter();
        let summaries = self
            .summaries
            .truncated(made.take_while(|summary| summary.seq <= seq).count());
        let whole = self.whole.truncated(messages);
        let short = summaries.last().map(|summary| summary.before(&whole));
        let mut named = Arc::default();
        let mut bytes = 0;
        for message in whole.iter() {
            DiscoveredTools::note(&mut named, message);
            bytes += memory_bytes(message);
        }
        Self {
            whole,
            short,
            summaries,
            named,
            bytes,
        }
    }
}
