//! A small cache of values whose keys can only be compared.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_macros::OpaqueDebug;

use crate::lock::lock;

/// Maximum number of cached values: about one for each kind of agent at work, or for each session at work with its own MCP servers.
const MAX_CACHED: usize = 32;

/// The values that were used most recently, the newest first.
#[derive(OpaqueDebug)]
pub struct RecentValues<K, V>(Mutex<VecDeque<(K, Arc<V>)>>);

impl<K, V> Default for RecentValues<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V> RecentValues<K, V> {
    fn values(&self) -> MutexGuard<'_, VecDeque<(K, Arc<V>)>> {
        lock(&self.0)
    }

    /// Returns the value of a key, which becomes the newest.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut values = self.values();
        let index = values.iter().position(|(cached, _)| cached == key)?;
        let newest = values.remove(index)?;
        let value = Arc::clone(&newest.1);
        values.push_front(newest);
        Some(value)
    }

    /// Adds a value, and evicts the least recently used one if the cache is full.
    pub fn insert(&self, key: K, value: &Arc<V>) {
        let mut values = self.values();
        values.truncate(MAX_CACHED - 1);
        values.push_front((key, Arc::clone(value)));
    }
}
