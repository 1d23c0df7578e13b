//! Models and their providers, as values.

use std::fmt;

use crate::llm_driver_registry::DriverRegistry;

text_enum! {
    /// The provider of a model. Drivers are registered for it, and records name it.
    LlmProviderType {
        /// OpenAI's Responses API.
        Openai = "openai",
        Openrouter = "openrouter",
        /// Azure's OpenAI service.
        AzureOpenai = "azure_openai",
        /// Any API compatible with OpenAI's Chat Completions.
        OpenaiCompletions = "openai_completions",
        Anthropic = "anthropic",
        Gemini = "gemini",
        /// The built-in simulator.
        LlmSim = "llmsim",
        Bedrock = "bedrock",
    }
}

/// Alternative spellings of the same values.
#[expect(non_upper_case_globals, reason = "they are used like variants")]
impl LlmProviderType {
    /// The same as [`Openai`](Self::Openai).
    pub const OpenAI: Self = Self::Openai;
    /// The same as [`Openrouter`](Self::Openrouter).
    pub const OpenRouter: Self = Self::Openrouter;
    /// The same as [`AzureOpenai`](Self::AzureOpenai).
    pub const AzureOpenAI: Self = Self::AzureOpenai;
    /// The same as [`OpenaiCompletions`](Self::OpenaiCompletions).
    pub const OpenAICompletions: Self = Self::OpenaiCompletions;
}

/// A model with all that is needed to call it. `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelWithProvider {
    /// The provider's name of the model.
    pub model: String,
    pub provider_type: LlmProviderType,
    /// The key to use.
    pub api_key: Option<String>,
    /// The base URL; `None` is the provider's own.
    pub base_url: Option<String>,
}

impl fmt::Debug for ModelWithProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelWithProvider")
            .field("model", &self.model)
            .field("provider_type", &self.provider_type)
            .field("api_key", &masked(self.api_key.as_ref()))
            .field("base_url", &self.base_url)
            .finish()
    }
}

/// A model together with the drivers that a runtime needs to call it.
#[derive(Debug, Clone)]
pub struct ModelWithDrivers {
    pub model: ModelWithProvider,
    /// The drivers, at least of its provider. Drivers that an application registers take precedence.
    pub drivers: DriverRegistry,
}

impl ModelWithDrivers {
    /// Sets the base URL, for a self-hosted server or a proxy. The runtime that receives the model refuses an address that the driver cannot use.
    #[must_use]
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.model.base_url = Some(url.into());
        self
    }
}

impl From<ModelWithProvider> for ModelWithDrivers {
    /// Contains no driver; the application registers one.
    fn from(model: ModelWithProvider) -> Self {
        Self {
            model,
            drivers: DriverRegistry::new(),
        }
    }
}

/// Tells whether a secret is set, without its value.
pub(crate) fn masked<T>(secret: Option<&T>) -> &'static str {
    match secret {
        Some(_) => "[set]",
        None => "[none]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm_driver_registry::{ProviderConfig, ProviderType};

    #[test]
    fn a_provider_is_one_type_under_both_names_and_spellings() {
        let registered: ProviderType = LlmProviderType::Openai;
        assert_eq!(registered, ProviderType::OpenAI);
        let texts = [
            ProviderType::OpenAI,
            ProviderType::OpenRouter,
            ProviderType::AzureOpenAI,
            ProviderType::OpenAICompletions,
        ]
        .map(LlmProviderType::as_str);
        let expected = ["openai", "openrouter", "azure_openai", "openai_completions"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn registered_drivers_take_precedence() {
        use crate::llmsim_driver::{LlmSimConfig, LlmSimDriver};
        fn registry(providers: &[ProviderType], name: &'static str) -> DriverRegistry {
            let mut registry = DriverRegistry::new();
            for provider in providers {
                registry.register(*provider, move |key, _| {
                    assert_eq!(key, name);
                    Box::new(LlmSimDriver::new(LlmSimConfig::echo()))
                });
            }
            registry
        }
        let mut own = registry(&[LlmProviderType::Openai], "own");
        let both = [LlmProviderType::Openai, LlmProviderType::Gemini];
        own.add_missing(registry(&both, "other"));
        for (provider_type, key) in both.into_iter().zip(["own", "other"]) {
            let config = ProviderConfig {
                provider_type,
                api_key: Some(key.to_owned()),
                base_url: None,
            };
            own.create_driver(&config).unwrap();
        }
    }

    #[test]
    fn r70_debug_shows_no_key() {
        let model = ModelWithProvider {
            model: "m".to_owned(),
            provider_type: LlmProviderType::Openai,
            api_key: Some("sk-7391".to_owned()),
            base_url: None,
        };
        let shown = format!("{model:?} {model:#?} {:?}", ProviderConfig::from(&model));
        assert!(
            shown.contains("[set]") && !shown.contains("7391"),
            "{shown}"
        );
    }
}
