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
struct HistorySummary {
    /// The sequence number of its record.
    seq: u64,
    /// Number of messages that it replaces.
    messages: usize,
    text: Arc<Message>,
    /// The input of the turn that ran at that time, which remains verbatim.
    input: Option<Arc<Message>>,
}

impl HistorySummary {
    /// Returns the summary and the messages after it.
    fn context(&self, whole: &History) -> History {
        let later = whole.page(self.messages, whole.len()).cloned();
        let head = std::iter::once(Arc::clone(&self.text)).chain(self.input.clone());
        head.chain(later).collect()
    }
}

/// A conversation: in full for users, and the part that the model reads. Both share their messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Transcript {
    whole: History,
    /// The summary and the messages after it; `None` before the first summary.
    short: Option<History>,
    summaries: SharedList<HistorySummary>,
    /// The tools that it mentions. Shared, because every decision starts from a copy.
    mentioned_tools: Arc<DiscoveredTools>,
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
        DiscoveredTools::note(&mut self.mentioned_tools, &message);
        self.bytes += memory_bytes(&message);
        self.whole.push(message);
    }

    /// Returns the approximate size of the conversation in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn mentioned_tools(&self) -> &DiscoveredTools {
        &self.mentioned_tools
    }

    /// Returns how many messages precede the newer ones in the model's view: a summary, and the input of the turn in which it was made.
    pub(crate) fn head(&self) -> usize {
        let summary = self.summaries.last();
        summary.map_or(0, |summary| 1 + usize::from(summary.input.is_some()))
    }

    /// Returns a message that the model reads, unless it is one of the newest ones.
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
        verbatim: usize,
    ) {
        let verbatim = verbatim.min(self.context().len().saturating_sub(self.head()));
        let summary = HistorySummary {
            seq,
            messages: self.whole.len() - verbatim,
            text: Arc::new(text),
            input,
        };
        self.short = Some(summary.context(&self.whole));
        self.summaries.push(summary);
    }

    /// Returns the conversation as of the record `seq`, when it had `messages` messages.
    pub(crate) fn truncated(&self, messages: usize, seq: u64) -> Self {
        let earlier = self
            .summaries
            .iter()
            .take_while(|summary| summary.seq <= seq);
        let summaries = self.summaries.truncated(earlier.count());
        let whole = self.whole.truncated(messages);
        let short = summaries.last().map(|summary| summary.context(&whole));
        let mut mentioned_tools = Arc::default();
        let mut bytes = 0;
        for message in whole.iter() {
            DiscoveredTools::note(&mut mentioned_tools, message);
            bytes += memory_bytes(message);
        }
        Self {
            whole,
            short,
            summaries,
            mentioned_tools,
            bytes,
        }
    }
}
