//! Models and their providers, as values.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The provider of a model, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LlmProviderType {
    /// OpenAI's Responses API.
    #[serde(rename = "openai")]
    Openai,
    /// OpenRouter.
    #[serde(rename = "openrouter")]
    Openrouter,
    /// Azure's OpenAI service.
    #[serde(rename = "azure_openai")]
    AzureOpenai,
    /// Anything that speaks OpenAI's Chat Completions.
    #[serde(rename = "openai_completions")]
    OpenaiCompletions,
    /// Anthropic.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// Google Gemini.
    #[serde(rename = "gemini")]
    Gemini,
    /// The built-in simulator.
    #[serde(rename = "llmsim")]
    LlmSim,
    /// AWS Bedrock.
    #[serde(rename = "bedrock")]
    Bedrock,
}

impl LlmProviderType {
    /// Returns the text that serde writes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Openrouter => "openrouter",
            Self::AzureOpenai => "azure_openai",
            Self::OpenaiCompletions => "openai_completions",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::LlmSim => "llmsim",
            Self::Bedrock => "bedrock",
        }
    }
}

impl fmt::Display for LlmProviderType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A model with all that is needed to call it. `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelWithProvider {
    /// The provider's name of the model.
    pub model: String,
    /// Who serves it.
    pub provider_type: LlmProviderType,
    /// The key to use.
    pub api_key: Option<String>,
    /// Where to call, if not at the provider's own address.
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

/// Shows whether a secret is there without showing it.
pub(crate) fn masked<T>(secret: Option<&T>) -> &'static str {
    match secret {
        Some(_) => "[set]",
        None => "[none]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm_driver_registry::ProviderConfig;

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
