//! The capabilities of a platform, by id.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Capability;
use super::builtin::*;

/// The capabilities of a platform. Clones share the capabilities themselves.
#[derive(Clone)]
pub struct CapabilityRegistry {
    capabilities: Arc<BTreeMap<String, Arc<dyn Capability>>>,
    aliases: Arc<BTreeMap<String, String>>,
}

impl CapabilityRegistry {
    /// Makes an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            capabilities: Arc::default(),
            aliases: Arc::default(),
        }
    }

    /// Creates a registry of the built-in capabilities.
    #[must_use]
    pub fn with_builtins() -> Self {
        let mut registry = Self::new();
        registry.register(AgentInstructionsCapability);
        registry.register(BtwCapability);
        registry.register(AskUserCapability);
        registry.register(CompactionCapability);
        registry.register(CurrentTimeCapability::default());
        registry.register(InfinityContextCapability);
        registry.register(LoopDetectionCapability);
        registry.register(MessageMetadataCapability);
        registry.register(NoopCapability);
        registry.register(SessionCapability);
        registry.register(SessionFileSystemCapability);
        registry.register(SessionStorageCapability);
        registry.register(SkillsCapability);
        registry.register(PlanCapability);
        registry.register(StatelessTodoListCapability);
        registry.register(TestMathCapability);
        registry
    }

    /// Adds a capability; it replaces a capability of the same ID.
    pub fn register(&mut self, capability: impl Capability + 'static) {
        self.register_arc(Arc::new(capability));
    }

    /// Adds a boxed capability.
    pub fn register_boxed(&mut self, capability: Box<dyn Capability>) {
        self.register_arc(capability.into());
    }

    /// Adds a shared capability.
    pub fn register_arc(&mut self, capability: Arc<dyn Capability>) {
        let id = capability.id().to_owned();
        self.unregister(&id);
        let aliases = capability.aliases().into_iter();
        let aliases = aliases.map(|alias| (alias.to_owned(), id.clone()));
        Arc::make_mut(&mut self.aliases).extend(aliases);
        Arc::make_mut(&mut self.capabilities).insert(id, capability);
    }

    /// Returns the capability of an id or alias. An id wins over an alias.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<dyn Capability>> {
        self.capabilities
            .get(id)
            .or_else(|| self.capabilities.get(self.aliases.get(id)?))
    }

    /// Tells whether there is a capability of this id or alias.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.get(id).is_some()
    }

    /// Returns the capabilities, ordered by id.
    #[must_use]
    pub fn list(&self) -> Vec<&Arc<dyn Capability>> {
        self.capabilities.values().collect()
    }

    /// Removes a capability and its aliases.
    pub fn unregister(&mut self, id: &str) -> Option<Arc<dyn Capability>> {
        let removed = Arc::make_mut(&mut self.capabilities).remove(id)?;
        Arc::make_mut(&mut self.aliases).retain(|_, target| target != id);
        Some(removed)
    }

    /// Returns the number of capabilities.
    #[must_use]
    pub fn len(&self) -> usize {
        self.capabilities.len()
    }

    /// Returns whether there are no capabilities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.capabilities.is_empty()
    }
}

impl Default for CapabilityRegistry {
    fn default() -> Self {
        Self::with_builtins()
    }
}

impl fmt::Debug for CapabilityRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.capabilities.keys()).finish()
    }
}
