//! Drivers, created once per model configuration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{DriverRegistry, LlmDriver, ProviderConfig};
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::typed_id::SessionId;

use crate::panics::catch_panic;
use crate::secrets::KnownSecrets;
use windlass_core::lock::lock;

/// Creates drivers on first use and caches them.
pub(crate) struct Drivers {
    registry: DriverRegistry,
    secrets: Arc<KnownSecrets>,
    drivers: Mutex<HashMap<ProviderConfig, Arc<dyn LlmDriver>>>,
}

impl Drivers {
    pub(crate) fn new(registry: DriverRegistry, secrets: Arc<KnownSecrets>) -> Self {
        Self {
            registry,
            secrets,
            drivers: Mutex::default(),
        }
    }

    pub(crate) fn registry(&self) -> &DriverRegistry {
        &self.registry
    }

    pub(crate) fn get(&self, model: &ModelWithProvider) -> Result<Arc<dyn LlmDriver>> {
        let config = ProviderConfig::from(model);
        let mut drivers = lock(&self.drivers);
        if let Some(driver) = drivers.get(&config) {
            return Ok(Arc::clone(driver));
        }
        // The key is registered before any error could quote it.
        if let Some(key) = &config.api_key {
            self.secrets.note_key(config.provider_type, key);
        }
        let created = catch_panic(|| self.registry.create_driver(&config)).ok_or_else(|| {
            let provider = &config.provider_type;
            AgentLoopError::config(format!(
                "the driver factory of provider {provider} panicked"
            ))
        })?;
        let driver: Arc<dyn LlmDriver> = created?.into();
        drivers.insert(config, Arc::clone(&driver));
        Ok(driver)
    }

    pub(crate) fn forget_session(&self, session_id: SessionId) {
        for driver in lock(&self.drivers).values() {
            driver.forget_session(session_id);
        }
    }
}
