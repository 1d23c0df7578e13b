//! What was found for turns, kept for the turns after them.
//!
//! Where a connector returns the very same value again, nothing has changed, and what was made of it stays as it is too: without secrets, and with what
//! the environment has to say. So it is one value for all turns that find it, by which they also know that their tools are the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use windlass_core::mcp::DiscoveredTools;

use crate::secrets::{Mask, Secret};

/// How many are kept: about one for each set of servers in use.
const MAX_KEPT: usize = 32;

/// What was found, and what is made of it.
pub(crate) struct Asked {
    pub(super) found: Arc<DiscoveredTools>,
    /// What is taken out of it. Named alone: what is kept here must not keep a secret.
    secrets: Vec<Weak<Secret>>,
    pub(super) words: Option<String>,
}

impl Asked {
    pub(super) fn new(
        found: Arc<DiscoveredTools>,
        mask: Option<&Mask>,
        words: Option<String>,
    ) -> Self {
        Self {
            found,
            secrets: mask.map(Mask::names).unwrap_or_default(),
            words,
        }
    }
}

impl PartialEq for Asked {
    fn eq(&self, other: &Self) -> bool {
        let mut secrets = self.secrets.iter().zip(&other.secrets);
        Arc::ptr_eq(&self.found, &other.found)
            && self.words == other.words
            && self.secrets.len() == other.secrets.len()
            && secrets.all(|(one, other)| Weak::ptr_eq(one, other))
    }
}

/// What was found of late.
#[derive(Default)]
pub(crate) struct KeptDiscoveries(Mutex<VecDeque<(Asked, Arc<DiscoveredTools>)>>);

impl KeptDiscoveries {
    /// Returns what was made of the same before, or makes it. What has no tools is made as quickly as it is found.
    pub(super) fn of(
        &self,
        asked: Asked,
        make: impl FnOnce(&Asked) -> DiscoveredTools,
    ) -> Arc<DiscoveredTools> {
        if asked.found.tools.is_empty() {
            return Arc::new(make(&asked));
        }
        if let Some(kept) = self.get(&asked) {
            return kept;
        }
        let made = Arc::new(make(&asked));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(MAX_KEPT - 1);
        kept.push_front((asked, Arc::clone(&made)));
        made
    }

    fn get(&self, asked: &Asked) -> Option<Arc<DiscoveredTools>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| known == asked)?;
        let found = kept.remove(place)?;
        let made = Arc::clone(&found.1);
        kept.push_front(found);
        Some(made)
    }
}
