//! A cache of the discoveries of recent turns.
//!
//! If a connector returns the same `Arc` again, nothing has changed, and the value derived from it is reused: with secrets masked, and with the
//! instructions of the environment. All turns with the same discovery share one value, so comparing pointers shows that their tools are equal.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use windlass_core::mcp::DiscoveredTools;

use crate::secrets::{Mask, Secret};

/// Maximum number of cached discoveries: about one for each set of servers in use.
const MAX_KEPT: usize = 32;

/// A discovery and the inputs of the value derived from it.
pub(crate) struct Asked {
    pub(super) found: Arc<DiscoveredTools>,
    /// The secrets that are masked in it. The references are weak, so that the cache does not retain a secret.
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

/// The cache, most recently used first.
#[derive(Default)]
pub(crate) struct KeptDiscoveries(Mutex<VecDeque<(Asked, Arc<DiscoveredTools>)>>);

impl KeptDiscoveries {
    /// Returns the cached value for an equal discovery, or derives a new one. A discovery without tools is not cached, because deriving it costs as
    /// little as finding it.
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
