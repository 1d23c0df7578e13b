//! Access to a runtime's services for the host.

use std::sync::Arc;

use windlass_core::capabilities::CapabilityRegistry;
use windlass_core::egress::EgressService;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::traits::{
    EventEmitter, SessionFileSystem, SessionStorageStore, UserConnectionResolver,
};

use super::InProcessRuntime;
use crate::backends::RuntimeMessageStore;

/// Access to a runtime's services for the host.
pub trait RuntimeHostAdapter: Send + Sync {
    /// Returns the resolver of tokens of connected accounts.
    fn connection_resolver(&self) -> Option<Arc<dyn UserConnectionResolver>>;
    /// Returns the capabilities.
    fn capability_registry(&self) -> &CapabilityRegistry;
    /// Returns the drivers.
    fn driver_registry(&self) -> &DriverRegistry;
    /// Returns the messages.
    fn message_store(&self) -> Arc<dyn RuntimeMessageStore>;
    /// Returns the emitter of host events.
    fn event_emitter(&self) -> Arc<dyn EventEmitter>;
    /// Returns the files.
    fn file_store(&self) -> Arc<dyn SessionFileSystem>;
    /// Returns the keys and secrets.
    fn storage_store(&self) -> Option<Arc<dyn SessionStorageStore>>;
    /// Returns the service through which tools access the network.
    fn egress_service(&self) -> Option<Arc<dyn EgressService>>;
}

impl RuntimeHostAdapter for InProcessRuntime {
    fn connection_resolver(&self) -> Option<Arc<dyn UserConnectionResolver>> {
        self.inner.backends.connection_resolver.clone()
    }
    fn capability_registry(&self) -> &CapabilityRegistry {
        self.inner.platform.capability_registry()
    }
    fn driver_registry(&self) -> &DriverRegistry {
        self.inner.drivers.registry()
    }
    fn message_store(&self) -> Arc<dyn RuntimeMessageStore> {
        Arc::clone(&self.inner.backends.message_store)
    }
    fn event_emitter(&self) -> Arc<dyn EventEmitter> {
        Arc::clone(&self.inner.backends.event_bus) as _
    }
    fn file_store(&self) -> Arc<dyn SessionFileSystem> {
        Arc::clone(&self.inner.files)
    }
    fn storage_store(&self) -> Option<Arc<dyn SessionStorageStore>> {
        Some(Arc::clone(&self.inner.backends.storage_store))
    }
    fn egress_service(&self) -> Option<Arc<dyn EgressService>> {
        Some(self.inner.platform.egress_service())
    }
}
