//! Registration of the drivers in an application's registry.

use std::sync::Arc;

use windlass_core::llm_driver_registry::DriverRegistry;

use crate::base_url::{BaseUrlError, check_base_url};
use crate::drivers::ModelDriver;
use crate::http::{Clients, ProviderShared};
use crate::providers::{KnownProvider, PROVIDERS};
use crate::settings::{KeyPlace, ModelSettings, ProviderSettings};

/// Registers a driver for each compiled-in provider. The drivers share connections, and those of one provider
/// share its limit of parallel calls. If a base URL in the settings is unusable, nothing is registered.
pub fn register_drivers(
    registry: &mut DriverRegistry,
    settings: ModelSettings,
) -> Result<(), BaseUrlError> {
    let settings_of = |known: &KnownProvider| settings.providers.get(&known.provider);
    for known in PROVIDERS {
        if let Some(url) = settings_of(known).and_then(|own| own.base_url.as_deref()) {
            check_base_url(&place(known), url)?;
        }
    }
    let clients = Arc::new(Clients::new(settings.http.clone()));
    for known in PROVIDERS {
        let own = settings_of(known).cloned().unwrap_or_default();
        let usual = own.base_url.clone();
        let shared = Arc::new(shared(known, settings.clone(), own, Arc::clone(&clients)));
        registry.register(known.provider, move |key, base_url| {
            let key_place = known
                .key_header
                .map(|name| KeyPlace::Header(name.to_owned()));
            let shared = Arc::clone(&shared);
            let (api, dialect) = (known.api, known.dialect);
            let driver = ModelDriver::shared(api, dialect, shared, key, base_url, key_place);
            Box::new(driver)
        });
        registry.check_base_urls(known.provider, move |base_url| {
            let url = base_url.or(usual.as_deref()).or(known.base_url);
            Ok(check_base_url(&place(known), url.unwrap_or_default())?)
        });
    }
    Ok(())
}

fn shared(
    known: &KnownProvider,
    settings: ModelSettings,
    own: ProviderSettings,
    clients: Arc<Clients>,
) -> ProviderShared {
    let mut shared = ProviderShared::new(known.api, settings, own, clients);
    shared.name = known.name;
    shared.default_base = known.base_url.unwrap_or_default();
    shared
}

fn place(known: &KnownProvider) -> String {
    format!("provider {}", known.name)
}
