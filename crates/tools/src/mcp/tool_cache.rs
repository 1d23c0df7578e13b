//! Cache of the tools built from the servers' lists.
//!
//! An unchanged list is the same `Arc` each time, so a turn whose servers report no changes reuses the tools of an earlier turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use windlass_core::digest::Digest128;
use windlass_core::mcp::DiscoveredTools;

use super::Answers;
use super::connection::Listed;
use crate::lock::lock;

/// Maximum number of entries: about one for each set of servers in use.
const MAX_KEPT: usize = 32;

/// Cache key: the answers of all servers of a turn. It contains only a digest of their configuration, because that may contain keys.
pub(super) struct Answered(Vec<(String, Digest128, Weak<Listed>)>);

impl Answered {
    /// Returns the key of the answers; `None` if one of them failed or there are none.
    pub(super) fn of(answers: &Answers) -> Option<Self> {
        let mut named = Vec::with_capacity(answers.len());
        for (name, (server, listed)) in answers {
            let listed = Arc::downgrade(listed.as_ref().ok()?);
            named.push((name.clone(), Digest128::of_json(server), listed));
        }
        (!named.is_empty()).then_some(Self(named))
    }
}

impl PartialEq for Answered {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|((name, server, listed), (other, of_other, by_other))| {
                name == other && server == of_other && Weak::ptr_eq(listed, by_other)
            })
    }
}

/// Recently built tools.
#[derive(Default)]
pub(super) struct ToolCache(Mutex<VecDeque<(Answered, Arc<DiscoveredTools>)>>);

impl ToolCache {
    pub(super) fn get(&self, answered: &Answered) -> Option<Arc<DiscoveredTools>> {
        let mut kept = lock(&self.0);
        let place = kept.iter().position(|(known, _)| known == answered)?;
        let found = kept.remove(place)?;
        let made = Arc::clone(&found.1);
        kept.push_front(found);
        Some(made)
    }

    /// Adds an entry and evicts the least recently used one.
    pub(super) fn keep(&self, answered: Answered, made: &Arc<DiscoveredTools>) {
        let mut kept = lock(&self.0);
        kept.truncate(MAX_KEPT - 1);
        kept.push_front((answered, Arc::clone(made)));
    }
}
