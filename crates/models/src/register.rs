//! Puts the drivers into an application's registry.

use std::sync::Arc;

use windlass_core::llm_driver_registry::{DriverRegistry, ProviderType};

use crate::api::Api;
use crate::drivers::{Dialect, ModelDriver};
use crate::http::{Clients, Shared};
use crate::settings::{KeyPlace, ModelSettings};

/// A provider and how it is spoken to.
struct ProviderEntry {
    /// What people write before the slash of `provider/model`.
    name: &'static str,
    provider: ProviderType,
    api: Api,
    dialect: Dialect,
    /// Where it is, when it is not at the API's own address.
    base_url: Option<&'static str>,
    key_header: Option<&'static str>,
}

const KNOWN: &[ProviderEntry] = &[
    #[cfg(feature = "openai")]
    ProviderEntry {
        name: "openai",
        provider: ProviderType::OpenAI,
        api: Api::OpenAi,
        dialect: Dialect::Plain,
        base_url: None,
        key_header: None,
    },
    // Each customer has an address of their own; without one the call is refused before a key is sent anywhere.
    #[cfg(feature = "openai")]
    ProviderEntry {
        name: "azure-openai",
        provider: ProviderType::AzureOpenAI,
        api: Api::OpenAi,
        dialect: Dialect::Plain,
        base_url: Some(""),
        key_header: Some("api-key"),
    },
    #[cfg(feature = "openai-chat")]
    ProviderEntry {
        name: "openai-chat",
        provider: ProviderType::OpenAICompletions,
        api: Api::OpenAiChat,
        dialect: Dialect::Plain,
        base_url: None,
        key_header: None,
    },
    #[cfg(feature = "openai-chat")]
    ProviderEntry {
        name: "openrouter",
        provider: ProviderType::OpenRouter,
        api: Api::OpenAiChat,
        dialect: Dialect::OpenRouter,
        base_url: Some("https://openrouter.ai/api/v1"),
        key_header: None,
    },
    #[cfg(feature = "anthropic")]
    ProviderEntry {
        name: "anthropic",
        provider: ProviderType::Anthropic,
        api: Api::Anthropic,
        dialect: Dialect::Plain,
        base_url: None,
        key_header: None,
    },
    #[cfg(feature = "gemini")]
    ProviderEntry {
        name: "gemini",
        provider: ProviderType::Gemini,
        api: Api::Gemini,
        dialect: Dialect::Plain,
        base_url: None,
        key_header: None,
    },
];

/// Returns the provider of this name. The names that records use are understood too.
pub(crate) fn provider_named(name: &str) -> Option<ProviderType> {
    let known = KNOWN
        .iter()
        .find(|known| known.name == name || known.provider.as_str() == name);
    known.map(|known| known.provider)
}

/// Returns the names of all providers that are compiled in.
pub(crate) fn provider_names() -> String {
    let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
    names.join(", ")
}

/// Registers a driver for each provider that is compiled in. The drivers share connections, and those of one provider
/// share its limit of parallel calls.
pub fn register_drivers(registry: &mut DriverRegistry, settings: ModelSettings) {
    let clients = Arc::new(Clients::new(settings.http.clone()));
    for known in KNOWN {
        let mut provider = settings
            .providers
            .get(&known.provider)
            .cloned()
            .unwrap_or_default();
        if provider.base_url.is_none() {
            provider.base_url = known.base_url.map(str::to_owned);
        }
        let shared = Shared::new(settings.clone(), provider, Arc::clone(&clients));
        let shared = Arc::new(shared);
        registry.register(known.provider, move |key, base_url| {
            let key_place = known
                .key_header
                .map(|name| KeyPlace::Header(name.to_owned()));
            let shared = Arc::clone(&shared);
            let (api, dialect) = (known.api, known.dialect);
            let driver = ModelDriver::shared(api, dialect, shared, key, base_url, key_place);
            Box::new(driver)
        });
    }
}
