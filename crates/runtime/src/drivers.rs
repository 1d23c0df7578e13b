//! Drivers, created once per model configuration.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{DriverRegistry, LlmDriver, ProviderConfig};
use windlass_core::llm_models::ModelWithProvider;
use windlass_core::typed_id::SessionId;

use crate::secrets::KnownSecrets;

/// Creates drivers on first use and caches them.
pub(crate) struct Drivers {
    registry: DriverRegistry,
    secrets: Arc<KnownSecrets>,
    made: Mutex<HashMap<ProviderConfig, Arc<dyn LlmDriver>>>,
}

impl Drivers {
    pub(crate) fn new(registry: DriverRegistry, secrets: Arc<KnownSecrets>) -> Self {
        Self {
            registry,
            secrets,
            made: Mutex::default(),
        }
    }

    pub(crate) fn registry(&self) -> &DriverRegistry {
        &self.registry
    }

    pub(crate) fn get(&self, model: &ModelWithProvider) -> Result<Arc<dyn LlmDriver>> {
        let config = ProviderConfig::from(model);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = made.get(&config) {
            return Ok(Arc::clone(driver));
        }
        // The key is registered before any error could quote it.
        if let Some(key) = &config.api_key {
            self.secrets.note_key(config.provider_type, key);
        }
        let driver = catch_unwind(AssertUnwindSafe(|| self.registry.create_driver(&config)))
            .map_err(|_| {
                AgentLoopError::config(format!(
                    "the driver factory of provider {} panicked",
                    config.provider_type
                ))
            })??;
        let driver: Arc<dyn LlmDriver> = driver.into();
        made.insert(config, Arc::clone(&driver));
        Ok(driver)
    }

    pub(crate) fn forget_session(&self, session_id: SessionId) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.values()
            .for_each(|driver| driver.forget_session(session_id));
    }
}
