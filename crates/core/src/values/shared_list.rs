//! A list that is shared without copies and extended by one owner.

use std::sync::Arc;

/// Entries per sealed chunk. A push into a shared list copies at most this many.
const CHUNK: usize = 64;

/// An append-only list. A clone costs two reference counts, regardless of the length.
#[derive(Debug, Clone)]
pub struct SharedList<T> {
    sealed: Arc<Vec<Arc<[T]>>>,
    tail: Arc<Vec<T>>,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self {
            sealed: Arc::default(),
            tail: Arc::default(),
        }
    }
}

impl<T: Clone> SharedList<T> {
    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sealed.len() * CHUNK + self.tail.len()
    }

    /// Returns whether the list has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.tail.is_empty()
    }

    /// Appends an entry. Existing clones do not change.
    pub fn push(&mut self, entry: T) {
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(entry);
        if tail.len() == CHUNK {
            let full = std::mem::take(tail);
            Arc::make_mut(&mut self.sealed).push(full.into());
        }
    }

    /// Returns the entry at an index, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.sealed.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.tail.get(index.checked_sub(self.sealed.len() * CHUNK)?),
        }
    }

    /// Returns the first `len` entries as a new list, which shares all but the last few.
    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        if len >= self.len() {
            return self.clone();
        }
        let (whole, rest) = (len / CHUNK, len % CHUNK);
        let cut = self.sealed.get(whole).map_or(&self.tail[..], |cut| cut);
        Self {
            sealed: Arc::new(self.sealed.iter().take(whole).cloned().collect()),
            tail: Arc::new(cut.iter().take(rest).cloned().collect()),
        }
    }

    /// Returns the newest entry.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.tail.last().or_else(|| self.sealed.last()?.last())
    }

    /// Iterates over the entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + '_ {
        let sealed = self.sealed.iter().flat_map(|chunk| chunk.iter());
        sealed.chain(self.tail.iter())
    }
}

impl<T: Clone + PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_does_not_change_when_the_original_grows() {
        let mut list = SharedList::default();
        let mut snapshots = Vec::new();
        for n in 0..300 {
            snapshots.push(list.clone());
            list.push(n);
        }
        for (n, snapshot) in snapshots.iter().enumerate() {
            assert_eq!(snapshot.len(), n);
            assert_eq!(snapshot.last().copied(), n.checked_sub(1));
            assert!(snapshot.iter().copied().eq(0..n));
        }
        for len in [0, 1, 63, 64, 65, 256, 257, 299, 300, 301] {
            let mut cut = list.truncated(len);
            assert_eq!(cut.len(), len.min(300));
            assert!(cut.iter().copied().eq(0..len.min(300)));
            cut.push(7);
            assert_eq!((cut.last(), list.len()), (Some(&7), 300));
        }
        assert_eq!(list.get(299), Some(&299));
        assert_eq!(list.get(300), None);
        assert_eq!(list.iter().next_back(), Some(&299));
    }
}
