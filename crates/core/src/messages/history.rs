//! A conversation that is shared without copies and extended by one owner.

use std::sync::Arc;

use crate::digest::Digest128;
use crate::message::Message;
use crate::shared_list::SharedList;

/// An append-only list of shared messages. A clone costs two reference counts, regardless of the length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    messages: SharedList<Arc<Message>>,
    digest: Digest128,
}

impl History {
    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether there are no messages yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Appends a message. Existing clones do not change.
    pub fn push(&mut self, message: Arc<Message>) {
        self.digest = self.digest.chain(message.id.uuid().as_bytes());
        self.messages.push(message);
    }

    /// Returns the message at an index, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<Message>> {
        self.messages.get(index)
    }

    /// Returns the newest message.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Returns the chained digest of the messages' IDs, which identifies the conversation.
    #[must_use]
    pub fn digest(&self) -> Digest128 {
        self.digest
    }

    /// Returns the first `len` messages as a new conversation, which shares them.
    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        if len >= self.len() {
            return self.clone();
        }
        let messages = self.messages.truncated(len);
        let digest = messages
            .iter()
            .fold(Digest128::default(), |digest, message| {
                digest.chain(message.id.uuid().as_bytes())
            });
        Self { messages, digest }
    }

    /// Iterates over the messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + '_ {
        self.messages.iter()
    }

    /// Iterates over one page; the cost is proportional to the page.
    pub fn page(&self, offset: usize, limit: usize) -> impl Iterator<Item = &Arc<Message>> + '_ {
        let end = offset.saturating_add(limit).min(self.len());
        (offset..end).filter_map(|index| self.get(index))
    }
}

impl FromIterator<Arc<Message>> for History {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        let mut history = Self::default();
        messages
            .into_iter()
            .for_each(|message| history.push(message));
        history
    }
}

impl From<Vec<Message>> for History {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().map(Arc::new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_taken_from_the_middle_and_the_end() {
        let texts = (0..300).map(|n| Message::user(n.to_string()));
        let history = History::from(texts.collect::<Vec<_>>());
        let page = |offset, limit| -> Vec<_> {
            let page = history.page(offset, limit).filter_map(|m| m.text());
            page.map(str::to_owned).collect()
        };
        assert_eq!(page(62, 4), ["62", "63", "64", "65"]);
        assert_eq!(page(299, 10), ["299"]);
        assert!(page(300, 10).is_empty());
    }

    #[test]
    fn truncated_conversation_equals_the_earlier_one() {
        let mut history = History::default();
        let mut before = Vec::new();
        for n in 0..200 {
            before.push(history.clone());
            history.push(Arc::new(Message::user(n.to_string())));
        }
        for (len, before) in before.iter().enumerate() {
            assert_eq!(history.truncated(len), *before);
        }
        assert_eq!(history.truncated(500), history);
    }
}
