//! The known providers: names, base URLs and APIs.

use windlass_core::llm_driver_registry::ProviderType;

use crate::api::Api;
use crate::drivers::Dialect;
use crate::prices::PriceTable;

/// A known model provider and its defaults.
///
/// The library reads no environment variables; their names are for programs that do.
#[derive(Debug)]
#[non_exhaustive]
pub struct KnownProvider {
    /// The prefix in `provider/model`.
    pub name: &'static str,
    /// Name for display, such as `Google Gemini`.
    pub title: &'static str,
    /// The provider type in records.
    pub provider: ProviderType,
    /// Default base URL; `None` if each customer has an own one.
    pub base_url: Option<&'static str>,
    /// Usual environment variables of the key; the first that is set applies.
    pub key_variables: &'static [&'static str],
    /// Usual environment variable of the base URL.
    pub url_variable: &'static str,
    /// Model if none is named.
    pub default_model: Option<&'static str>,
    pub(crate) api: Api,
    pub(crate) dialect: Dialect,
    pub(crate) key_header: Option<&'static str>,
}

/// The compiled-in providers, in the order of preference if several have a key.
pub const PROVIDERS: &[KnownProvider] = &[
    #[cfg(feature = "openai")]
    KnownProvider {
        name: "openai",
        title: "OpenAI",
        provider: ProviderType::OpenAI,
        base_url: Some(Api::OpenAi.default_base_url()),
        key_variables: &["OPENAI_API_KEY"],
        url_variable: "OPENAI_BASE_URL",
        default_model: Some("gpt-5-mini"),
        api: Api::OpenAi,
        dialect: Dialect::Plain,
        key_header: None,
    },
    #[cfg(feature = "anthropic")]
    KnownProvider {
        name: "anthropic",
        title: "Anthropic",
        provider: ProviderType::Anthropic,
        base_url: Some(Api::Anthropic.default_base_url()),
        key_variables: &["ANTHROPIC_API_KEY"],
        url_variable: "ANTHROPIC_BASE_URL",
        default_model: Some("claude-haiku-4-5"),
        api: Api::Anthropic,
        dialect: Dialect::Plain,
        key_header: None,
    },
    #[cfg(feature = "gemini")]
    KnownProvider {
        name: "gemini",
        title: "Google Gemini",
        provider: ProviderType::Gemini,
        base_url: Some(Api::Gemini.default_base_url()),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        url_variable: "GOOGLE_GEMINI_BASE_URL",
        default_model: Some("gemini-3.5-flash"),
        api: Api::Gemini,
        dialect: Dialect::Plain,
        key_header: None,
    },
    #[cfg(feature = "openai-chat")]
    KnownProvider {
        name: "openai-chat",
        title: "OpenAI Chat Completions, and servers that speak it",
        provider: ProviderType::OpenAICompletions,
        base_url: Some(Api::OpenAiChat.default_base_url()),
        key_variables: &["OPENAI_API_KEY"],
        url_variable: "OPENAI_BASE_URL",
        default_model: Some("gpt-5-mini"),
        api: Api::OpenAiChat,
        dialect: Dialect::Plain,
        key_header: None,
    },
    #[cfg(feature = "openai-chat")]
    KnownProvider {
        name: "openrouter",
        title: "OpenRouter",
        provider: ProviderType::OpenRouter,
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variables: &["OPENROUTER_API_KEY"],
        url_variable: "OPENROUTER_BASE_URL",
        default_model: None,
        api: Api::OpenAiChat,
        dialect: Dialect::OpenRouter,
        key_header: None,
    },
    // Without a base URL the model is refused before a key is sent.
    #[cfg(feature = "openai")]
    KnownProvider {
        name: "azure-openai",
        title: "Azure OpenAI",
        provider: ProviderType::AzureOpenAI,
        base_url: None,
        key_variables: &["AZURE_OPENAI_API_KEY"],
        url_variable: "AZURE_OPENAI_BASE_URL",
        default_model: None,
        api: Api::OpenAi,
        dialect: Dialect::Plain,
        key_header: Some("api-key"),
    },
];

impl KnownProvider {
    /// Returns the provider with this name or this name in records.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let mut known = PROVIDERS.iter();
        known.find(|known| known.name == name || known.provider.as_str() == name)
    }

    /// Completes the name of a model that has no provider, such as `openai/gpt-4o` for `gpt-4o`: the provider is the first with a priced model of
    /// the same family, which is the part before the first dash.
    #[must_use]
    pub fn completed(model: &str) -> Option<String> {
        let family = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        if model.contains('/') {
            return None;
        }
        let prices = PriceTable::built_in();
        let has_family = |known: &&Self| {
            let mut models = prices.models_of(known.name);
            models.any(|priced| family(priced) == family(model))
        };
        let known = PROVIDERS.iter().find(has_family)?;
        Some(format!("{}/{model}", known.name))
    }

    /// Returns the names of the compiled-in providers, separated by commas.
    #[must_use]
    pub fn names() -> String {
        let names: Vec<_> = PROVIDERS.iter().map(|known| known.name).collect();
        names.join(", ")
    }
}
