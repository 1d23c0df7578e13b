//! A cache of the discoveries of recent turns.
//!
//! If a connector returns the same `Arc` again, nothing has changed, and the value derived from it is reused: with secrets masked, and with the
//! instructions of the environment. All turns with the same discovery share one value, so comparing pointers shows that their tools are equal.

use std::sync::{Arc, Weak};

use windlass_core::mcp::{DiscoveredTools, EnvironmentDescription};
use windlass_core::recent_values::RecentValues;

use crate::secrets::{Mask, Secret};

/// A discovery and the inputs of the value derived from it.
pub(crate) struct DiscoveryKey {
    pub(super) found: Arc<DiscoveredTools>,
    /// The secrets that are masked in it. The references are weak, so that the cache does not retain a secret.
    secrets: Vec<Weak<Secret>>,
    pub(super) instructions: Option<String>,
    pub(super) description: Option<EnvironmentDescription>,
}

impl DiscoveryKey {
    pub(super) fn new(
        found: Arc<DiscoveredTools>,
        mask: Option<&Mask>,
        instructions: Option<String>,
        description: Option<EnvironmentDescription>,
    ) -> Self {
        Self {
            found,
            secrets: mask.map(Mask::weak_secrets).unwrap_or_default(),
            instructions,
            description,
        }
    }
}

impl PartialEq for DiscoveryKey {
    fn eq(&self, other: &Self) -> bool {
        let mut secrets = self.secrets.iter().zip(&other.secrets);
        Arc::ptr_eq(&self.found, &other.found)
            && self.instructions == other.instructions
            && self.description == other.description
            && self.secrets.len() == other.secrets.len()
            && secrets.all(|(one, other)| Weak::ptr_eq(one, other))
    }
}

/// The values derived from recent discoveries.
#[derive(Default)]
pub(crate) struct DiscoveryCache(RecentValues<DiscoveryKey, DiscoveredTools>);

impl DiscoveryCache {
    /// Returns the cached value for an equal discovery, or derives a new one. A discovery without tools is not cached, because deriving it costs as
    /// little as finding it.
    pub(super) fn get_or_derive(
        &self,
        key: DiscoveryKey,
        derive: impl FnOnce(&DiscoveryKey) -> DiscoveredTools,
    ) -> Arc<DiscoveredTools> {
        if key.found.tools.is_empty() {
            return Arc::new(derive(&key));
        }
        self.0.get(&key).unwrap_or_else(|| {
            let derived = Arc::new(derive(&key));
            self.0.insert(key, &derived);
            derived
        })
    }
}
