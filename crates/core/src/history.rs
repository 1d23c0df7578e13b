//! A conversation that many can hold and one extends, without copies.

use std::sync::Arc;

use crate::digest::Digest128;
use crate::message::Message;

/// How many messages a sealed chunk holds. A push into a shared history copies at most this many pointers.
const CHUNK: usize = 64;

/// An append-only list of shared messages; cloning it costs two reference counts whatever its length.
#[derive(Debug, Clone, Default)]
pub struct History {
    sealed: Arc<Vec<Arc<[Arc<Message>]>>>,
    tail: Arc<Vec<Arc<Message>>>,
    digest: Digest128,
}

impl History {
    /// Returns how many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sealed.len() * CHUNK + self.tail.len()
    }

    /// Tells whether nothing was said yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.tail.is_empty()
    }

    /// Adds a message at the end. Clones that others hold do not change.
    pub fn push(&mut self, message: Arc<Message>) {
        self.digest = self.digest.chain(message.id.uuid().as_bytes());
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(message);
        if tail.len() == CHUNK {
            let full = std::mem::take(tail);
            Arc::make_mut(&mut self.sealed).push(full.into());
        }
    }

    /// Returns the message at a place, counted from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<Message>> {
        match self.sealed.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.tail.get(index.checked_sub(self.sealed.len() * CHUNK)?),
        }
    }

    /// Returns the newest message.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.tail.last().or_else(|| self.sealed.last()?.last())
    }

    /// Returns the chained digest of the messages' ids: it names a conversation without holding it.
    #[must_use]
    pub fn digest(&self) -> Digest128 {
        self.digest
    }

    /// Goes through the messages, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + '_ {
        self.sealed
            .iter()
            .flat_map(|chunk| chunk.iter())
            .chain(self.tail.iter())
    }

    /// Goes through one page; costs what it returns.
    pub fn page(&self, offset: usize, limit: usize) -> impl Iterator<Item = &Arc<Message>> + '_ {
        let end = offset.saturating_add(limit).min(self.len());
        (offset..end).filter_map(|index| self.get(index))
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
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
    fn a_clone_stays_as_it_was_while_the_original_grows() {
        let mut history = History::default();
        let mut snapshots = Vec::new();
        for n in 0..300 {
            snapshots.push(history.clone());
            history.push(Arc::new(Message::user(n.to_string())));
        }
        for (n, snapshot) in snapshots.iter().enumerate() {
            assert_eq!(snapshot.len(), n);
            assert_eq!(snapshot.iter().count(), n);
            assert_eq!(
                snapshot.last().and_then(|m| m.text()),
                n.checked_sub(1).map(|n| n.to_string()).as_deref()
            );
        }
        assert_eq!(history.get(299).and_then(|m| m.text()), Some("299"));
        assert!(history.get(300).is_none());
        let page: Vec<_> = history.page(62, 4).filter_map(|m| m.text()).collect();
        assert_eq!(page, ["62", "63", "64", "65"]);
        assert_eq!(history.page(299, 10).count(), 1);
        assert_eq!(
            history.iter().next_back().and_then(|m| m.text()),
            Some("299")
        );
    }
}
