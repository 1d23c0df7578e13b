//! A cache that knows what was used longest ago.

use std::collections::{BTreeMap, HashMap};

/// Values of streams, in the order of their last use.
#[derive(Debug)]
pub(crate) struct RecentlyUsed<V> {
    by_stream: HashMap<u64, (u64, V)>,
    /// The streams by their last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl<V> Default for RecentlyUsed<V> {
    fn default() -> Self {
        Self {
            by_stream: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<V> RecentlyUsed<V> {
    /// Returns the value of a stream, which counts as a use.
    pub(crate) fn get(&mut self, stream: u64) -> Option<&mut V> {
        let (used, value) = self.by_stream.get_mut(&stream)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, stream);
        Some(value)
    }

    pub(crate) fn insert(&mut self, stream: u64, value: V) {
        self.remove(stream);
        self.uses += 1;
        self.by_use.insert(self.uses, stream);
        self.by_stream.insert(stream, (self.uses, value));
    }

    pub(crate) fn remove(&mut self, stream: u64) -> Option<V> {
        let (used, value) = self.by_stream.remove(&stream)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Takes out what was used longest ago.
    pub(crate) fn remove_oldest(&mut self) -> Option<V> {
        let (_, stream) = self.by_use.pop_first()?;
        self.by_stream.remove(&stream).map(|(_, value)| value)
    }

    pub(crate) fn clear(&mut self) {
        self.by_stream.clear();
        self.by_use.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.by_stream.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut cache = RecentlyUsed::default();
        for stream in 1..=4 {
            cache.insert(stream, stream * 10);
        }
        assert_eq!(cache.get(1), Some(&mut 10));
        cache.insert(2, 21);
        assert_eq!(cache.remove(4), Some(40));
        assert_eq!(cache.len(), 3);
        let mut oldest_first = std::iter::from_fn(|| cache.remove_oldest());
        assert_eq!(oldest_first.by_ref().collect::<Vec<_>>(), [30, 10, 21]);
        assert_eq!((cache.len(), cache.get(1)), (0, None));
    }
}
