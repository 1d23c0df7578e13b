//! The components of a platform: capabilities, drivers, files and network.

use std::sync::Arc;

use windlass_macros::OpaqueDebug;

use crate::capabilities::{Capability, CapabilityRegistry};
use crate::egress::{DisabledEgressService, EgressService};
use crate::llm_driver_registry::DriverRegistry;
use crate::traits::{DisabledSessionFileSystemFactory, SessionFileSystemFactory};

/// The components of a platform.
#[derive(OpaqueDebug, Clone)]
pub struct PlatformDefinition {
    capabilities: CapabilityRegistry,
    drivers: DriverRegistry,
    egress: Arc<dyn EgressService>,
    files: Arc<dyn SessionFileSystemFactory>,
}

impl PlatformDefinition {
    /// Creates a platform of capabilities and drivers, with files in memory and no network.
    #[must_use]
    pub fn new(capabilities: CapabilityRegistry, drivers: DriverRegistry) -> Self {
        Self {
            capabilities,
            drivers,
            egress: Arc::new(DisabledEgressService),
            files: Arc::new(DisabledSessionFileSystemFactory),
        }
    }
    /// Begins a platform with the built-in capabilities and no driver.
    pub fn builder() -> PlatformDefinitionBuilder {
        PlatformDefinitionBuilder {
            platform: Self::default(),
        }
    }
    /// Returns the capabilities.
    #[must_use]
    pub fn capability_registry(&self) -> &CapabilityRegistry {
        &self.capabilities
    }
    /// Changes the capabilities.
    pub fn capability_registry_mut(&mut self) -> &mut CapabilityRegistry {
        &mut self.capabilities
    }
    /// Returns the drivers.
    #[must_use]
    pub fn driver_registry(&self) -> &DriverRegistry {
        &self.drivers
    }
    /// Changes the drivers.
    pub fn driver_registry_mut(&mut self) -> &mut DriverRegistry {
        &mut self.drivers
    }
    /// Returns the network access.
    #[must_use]
    pub fn egress_service(&self) -> Arc<dyn EgressService> {
        Arc::clone(&self.egress)
    }
    /// Replaces the network access.
    pub fn set_egress_service(&mut self, egress: Arc<dyn EgressService>) {
        self.egress = egress;
    }
    /// Returns the factory of the file system.
    #[must_use]
    pub fn session_file_system_factory(&self) -> Arc<dyn SessionFileSystemFactory> {
        Arc::clone(&self.files)
    }
}

impl Default for PlatformDefinition {
    fn default() -> Self {
        Self::new(CapabilityRegistry::default(), DriverRegistry::new())
    }
}

/// Builds a [`PlatformDefinition`].
#[must_use]
#[derive(Debug, Clone)]
pub struct PlatformDefinitionBuilder {
    platform: PlatformDefinition,
}

impl PlatformDefinitionBuilder {
    setters! {
        /// Replaces all capabilities.
        capability_registry(CapabilityRegistry) |builder, capabilities| builder.platform.capabilities = capabilities;
        /// Adds a capability.
        capability(impl Capability + 'static) |builder, capability| builder.platform.capabilities.register(capability);
        /// Replaces all drivers.
        driver_registry(DriverRegistry) |builder, drivers| builder.platform.drivers = drivers;
        /// Sets the network access.
        egress_service(Arc<dyn EgressService>) |builder, egress| builder.platform.egress = egress;
        /// Sets the factory of the file system.
        session_file_system_factory(Arc<dyn SessionFileSystemFactory>) |builder, files| builder.platform.files = files;
    }
    /// Returns the platform.
    #[must_use]
    pub fn build(self) -> PlatformDefinition {
        self.platform
    }
}
