//! A model by its name.

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{ModelWithDrivers, ModelWithProvider};

use crate::base_url::check_base_url;
use crate::providers::KnownProvider;
use crate::register::register_drivers;
use crate::settings::ModelSettings;

/// Returns a model with its drivers, from `provider/model` and a key.
///
/// No environment variable is read. A self-hosted server, which often takes
/// an empty key, and Azure, where each customer has an own URL, need [`model_at`].
///
/// ```
/// let model = windlass_models::model("anthropic/claude-haiku-4-5", "the key")?;
/// assert_eq!(model.model.model, "claude-haiku-4-5");
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// ```
pub fn model(name: &str, key: impl Into<String>) -> Result<ModelWithDrivers> {
    model_with(name, key, ModelSettings::default())
}

/// Like [`model`], with a base URL. An unusable URL is refused.
///
/// ```
/// let local = windlass_models::model_at("openai-chat/llama3.2", "", "http://127.0.0.1:11434/v1")?;
/// # let _ = local;
/// let error = windlass_models::model_at("openai-chat/llama3.2", "", "localhost:11434/v1").unwrap_err();
/// assert!(error.to_string().contains("`localhost:11434/v1`"));
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// ```
pub fn model_at(
    name: &str,
    key: impl Into<String>,
    base_url: impl Into<String>,
) -> Result<ModelWithDrivers> {
    let (model, base_url) = (model(name, key)?, base_url.into());
    check_base_url(&format!("model {name}"), &base_url)?;
    Ok(model.with_base_url(base_url))
}

/// Like [`model`], with settings for the drivers: a proxy, deadlines, prices.
///
/// ```
/// use windlass_models::{ModelSettings, model_with};
/// let mut settings = ModelSettings::default();
/// settings.http.proxy = Some("http://127.0.0.1:3128".into());
/// let model = model_with("gemini/gemini-3.5-flash", "the key", settings)?;
/// # let _ = model;
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// ```
pub fn model_with(
    name: &str,
    key: impl Into<String>,
    settings: ModelSettings,
) -> Result<ModelWithDrivers> {
    let (provider, model) = name.split_once('/').unwrap_or((name, ""));
    let Some(known) = KnownProvider::named(provider) else {
        return Err(AgentLoopError::config(unknown_provider(name)));
    };
    if model.is_empty() {
        return Err(AgentLoopError::config(format!(
            "model `{name}` names no model; write {provider}/ and the provider's name of it"
        )));
    }
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, settings)?;
    Ok(ModelWithDrivers {
        model: ModelWithProvider {
            model: model.to_owned(),
            provider_type: known.provider,
            api_key: Some(key.into()),
            base_url: None,
        },
        drivers,
    })
}

/// Returns the error message for a model name without a known provider, with a suggestion.
#[must_use]
pub fn unknown_provider(model: &str) -> String {
    let provider = model.split('/').next().unwrap_or_default();
    let names = KnownProvider::names();
    let hint = KnownProvider::completed(model);
    let hint = hint.map_or(String::new(), |name| format!("did you mean {name}? "));
    format!(
        "unknown provider `{provider}` in model `{model}`; {hint}Write provider/model with one of {names}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "openai-chat")]
    fn first_slash_separates_the_provider_and_aliases_are_accepted() {
        for name in ["openai-chat/org/model", "openai_completions/org/model"] {
            let found = model(name, "k").unwrap();
            assert_eq!(found.model.provider_type.as_str(), "openai_completions");
            assert_eq!(found.model.model, "org/model");
            assert!(found.drivers.has_driver(&found.model.provider_type));
        }
    }

    #[test]
    #[cfg(feature = "openai-chat")]
    fn invalid_address_is_refused_at_configuration() {
        use crate::settings::ProviderSettings;
        use windlass_core::llm_driver_registry::{ProviderConfig, ProviderType};

        let bad = "ftp://me:secret@host";
        let own = ProviderSettings {
            base_url: Some(bad.to_owned()),
            ..ProviderSettings::default()
        };
        let settings = ModelSettings::default().with_provider(ProviderType::OpenAICompletions, own);
        let by_settings = model_with("openai-chat/m", "k", settings).map(drop);
        let at_once = model_at("openai-chat/m", "k", bad).map(drop);
        let later = model("openai-chat/m", "k").unwrap().with_base_url(bad);
        let config = ProviderConfig::from(&later.model);
        let checked = later.drivers.check(&config);
        let created = later.drivers.create_driver(&config).map(drop);
        for refused in [by_settings, at_once, checked, created] {
            let error = refused.unwrap_err();
            assert!(matches!(error, AgentLoopError::Configuration(_)));
            let message = error.to_string();
            assert!(message.contains("`ftp://host`"), "{message}");
            assert!(message.contains("openai-chat"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    #[cfg(feature = "openai")]
    fn azure_needs_an_address() {
        let model = model("azure-openai/m", "k").unwrap();
        let refused = model.drivers.check(&(&model.model).into());
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("provider azure-openai is empty"),
            "{message}"
        );
    }

    #[test]
    #[cfg(feature = "anthropic")]
    fn invalid_model_name_is_explained() {
        for (name, words) in [
            ("acme/x", "unknown provider `acme`"),
            (
                "claude-haiku-4-5",
                "did you mean anthropic/claude-haiku-4-5?",
            ),
            ("gpt-4o", "did you mean openai/gpt-4o?"),
            ("anthropic", "names no model"),
            ("anthropic/", "names no model"),
            ("", "unknown provider ``"),
        ] {
            let error = model(name, "secret-key").unwrap_err().to_string();
            assert!(error.contains(words), "{name}: {error}");
            assert!(!error.contains("secret-key"), "{error}");
        }
    }
}
