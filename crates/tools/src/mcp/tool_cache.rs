//! Cache of the tools built from the servers' lists.
//!
//! An unchanged list is the same `Arc` each time, so a turn whose servers report no changes reuses the tools of an earlier turn.

use std::sync::{Arc, Weak};

use windlass_core::digest::Digest128;
use windlass_core::mcp::DiscoveredTools;
use windlass_core::recent_values::RecentValues;

use super::Answers;
use super::connection::ToolList;

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
pub(super) type ToolCache = RecentValues<AnswersKey, DiscoveredTools>;
