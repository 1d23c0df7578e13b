//! A model by its name.

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{ModelWithDrivers, ModelWithProvider};

use crate::base_url::check_base_url;
use crate::providers::KnownProvider;
use crate::register::register_drivers;
use crate::settings::ModelSettings;

/// Returns a model with the drivers that speak to its provider, from `provider/model` and a key.
///
/// The key is a value that the program passes in: no environment variable is read. A server of one's own, which often wants
/// an empty key, is named with [`model_at`]; Azure's address is each customer's own and must be.
///
/// ```
/// let model = windlass_models::model("anthropic/claude-haiku-4-5", "the key")?;
/// assert_eq!(model.model.model, "claude-haiku-4-5");
/// # Ok::<(), windlass_core::AgentLoopError>(())
/// ```
pub fn model(name: &str, key: impl Into<String>) -> Result<ModelWithDrivers> {
    model_with(name, key, ModelSettings::default())
}

/// As [`model`], at an address of one's own. One that cannot be called is refused here.
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

/// As [`model`], with settings for the drivers: a proxy, deadlines, prices.
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

/// Says that the name of a model begins with no provider, and which one may be meant.
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
    fn only_the_first_slash_counts_and_both_names_of_a_provider_do() {
        for name in ["openai-chat/org/model", "openai_completions/org/model"] {
            let found = model(name, "k").unwrap();
            assert_eq!(found.model.provider_type.as_str(), "openai_completions");
            assert_eq!(found.model.model, "org/model");
            assert!(found.drivers.has_driver(&found.model.provider_type));
        }
    }

    #[test]
    #[cfg(feature = "openai-chat")]
    fn an_address_that_cannot_be_called_is_refused_where_it_is_given() {
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
            let told = error.to_string();
            assert!(told.contains("`ftp://host`"), "{told}");
            assert!(told.contains("openai-chat"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    #[cfg(feature = "openai")]
    fn azure_needs_an_address() {
        let model = model("azure-openai/m", "k").unwrap();
        let refused = model.drivers.check(&(&model.model).into());
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("provider azure-openai is empty"), "{told}");
    }

    #[test]
    #[cfg(feature = "anthropic")]
    fn what_is_wrong_with_a_name_is_said() {
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
