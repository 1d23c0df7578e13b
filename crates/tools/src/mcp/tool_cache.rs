//! Cache of the tools built from the servers' lists.
//!
//! An unchanged list is the same `Arc` each time, so a turn whose servers report no changes reuses the tools of an earlier turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use windlass_core::digest::Digest128;
use windlass_core::mcp::DiscoveredTools;

use super::Answers;
use super::connection::ToolList;
use crate::lock::lock;

/// Maximum number of entries: about one for each set of servers in use.
const MAX_ENTRIES: usize = 32;

/// Cache key: the answers of all servers of a turn. It contains only a digest of their configuration, because that may contain keys.
pub(super) struct AnswersKey(Vec<(String, Digest128, Weak<ToolList>)>);

impl AnswersKey {
    /// Returns the key of the answers; `None` if one of them failed or there are none.
    pub(super) fn new(answers: &Answers) -> Option<Self> {
        let mut lists = Vec::with_capacity(answers.len());
        for (name, (server, listed)) in answers {
            let listed = Arc::downgrade(listed.as_ref().ok()?);
            lists.push((name.clone(), Digest128::of_json(server), listed));
        }
        (!lists.is_empty()).then_some(Self(lists))
    }
}

impl PartialEq for AnswersKey {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|(a, b)| a.0 == b.0 && a.1 == b.1 && Weak::ptr_eq(&a.2, &b.2))
    }
}

/// Recently built tools.
#[derive(Default)]
pub(super) struct ToolCache(Mutex<VecDeque<(AnswersKey, Arc<DiscoveredTools>)>>);

impl ToolCache {
    pub(super) fn get(&self, key: &AnswersKey) -> Option<Arc<DiscoveredTools>> {
        let mut entries = lock(&self.0);
        let index = entries.iter().position(|(cached, _)| cached == key)?;
        let entry = entries.remove(index)?;
        let tools = Arc::clone(&entry.1);
        entries.push_front(entry);
        Some(tools)
    }

    /// Adds an entry and evicts the least recently used one.
    pub(super) fn insert(&self, key: AnswersKey, tools: &Arc<DiscoveredTools>) {
        let mut entries = lock(&self.0);
        entries.truncate(MAX_ENTRIES - 1);
        entries.push_front((key, Arc::clone(tools)));
    }
}
