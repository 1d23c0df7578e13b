//! A cache that evicts the least recently used entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by key, in the order of their last use.
#[derive(Debug)]
pub struct RecentlyUsed<K, V> {
    by_key: HashMap<K, (u64, V)>,
    /// The keys by their last use.
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K, V> Default for RecentlyUsed<K, V> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, V> RecentlyUsed<K, V> {
    /// Returns the value of a key, which counts as a use.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        let (used, value) = self.by_key.get_mut(&key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(value)
    }

    /// Puts a value in, which counts as a use.
    pub fn insert(&mut self, key: K, value: V) {
        self.remove(key);
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        self.by_key.insert(key, (self.uses, value));
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let (used, value) = self.by_key.remove(&key)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Removes the least recently used value.
    pub fn remove_oldest(&mut self) -> Option<V> {
        let (_, key) = self.by_use.pop_first()?;
        self.by_key.remove(&key).map(|(_, value)| value)
    }

    pub fn clear(&mut self) {
        self.by_key.clear();
        self.by_use.clear();
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_value_is_evicted_first() {
        let mut cache = RecentlyUsed::default();
        for key in 1..=4 {
            cache.insert(key, key * 10);
        }
        assert_eq!(cache.get(1), Some(&mut 10));
        cache.insert(2, 21);
        assert_eq!(cache.remove(4), Some(40));
        assert_eq!(cache.count(), 3);
        let mut oldest_first = std::iter::from_fn(|| cache.remove_oldest());
        assert_eq!(oldest_first.by_ref().collect::<Vec<_>>(), [30, 10, 21]);
        assert_eq!((cache.count(), cache.get(1)), (0, None));
    }
}
