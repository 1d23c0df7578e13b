//! The components of a platform: capabilities, drivers, files and network.

use std::fmt;
use std::sync::Arc;

use crate::capabilities::{Capability, CapabilityRegistry};
use crate::egress::{DisabledEgressService, EgressService};
use crate::llm_driver_registry::DriverRegistry;
use crate::traits::{DisabledSessionFileSystemFactory, SessionFileSystemFactory};

/// The components of a platform.
#[derive(Clone)]
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

impl fmt::Debug for PlatformDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlatformDefinition")
            .field("capabilities", &self.capabilities)
            .field("drivers", &self.drivers)
            .field("files", &self.files.name())
            .finish_non_exhaustive()
    }
}

/// Builds a [`PlatformDefinition`].
#[must_use]
#[derive(Debug, Clone)]
pub struct PlatformDefinitionBuilder {
    platform: PlatformDefinition,
}

impl PlatformDefinitionBuilder {
    /// Replaces all capabilities.
    pub fn capability_registry(mut self, capabilities: CapabilityRegistry) -> Self {
        self.platform.capabilities = capabilities;
        self
    }
    /// Adds a capability.
    pub fn capability(mut self, capability: impl Capability + 'static) -> Self {
        self.platform.capabilities.register(capability);
        self
    }
    /// Replaces all drivers.
    pub fn driver_registry(mut self, drivers: DriverRegistry) -> Self {
        self.platform.drivers = drivers;
        self
    }
    /// Sets the network access.
    pub fn egress_service(mut self, egress: Arc<dyn EgressService>) -> Self {
        self.platform.egress = egress;
        self
    }
    /// Sets the factory of the file system.
    pub fn session_file_system_factory(mut self, files: Arc<dyn SessionFileSystemFactory>) -> Self {
        self.platform.files = files;
        self
    }
    /// Returns the platform.
    #[must_use]
    pub fn build(self) -> PlatformDefinition {
        self.platform
    }
}
