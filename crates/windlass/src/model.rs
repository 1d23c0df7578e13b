//! Which model answers, and with which key.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_models::prices::PriceTable;
use windlass_models::settings::ProviderSettings;
use windlass_models::{ModelSettings, register_drivers};

use crate::config::{Config, Layer, Origin, Provider};
use crate::demonstration;

/// A provider as the command line knows it.
struct ProviderDefaults {
    name: &'static str,
    provider: LlmProviderType,
    key_variables: &'static [&'static str],
    url_variable: &'static str,
    /// What is asked when only a key is there.
    default_model: &'static str,
}

const KNOWN: &[ProviderDefaults] = &[
    ProviderDefaults {
        name: "openai",
        provider: LlmProviderType::Openai,
        key_variables: &["OPENAI_API_KEY"],
        url_variable: "OPENAI_BASE_URL",
        default_model: "gpt-5-mini",
    },
    ProviderDefaults {
        name: "anthropic",
        provider: LlmProviderType::Anthropic,
        key_variables: &["ANTHROPIC_API_KEY"],
        url_variable: "ANTHROPIC_BASE_URL",
        default_model: "claude-haiku-4-5",
    },
    ProviderDefaults {
        name: "gemini",
        provider: LlmProviderType::Gemini,
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        url_variable: "GOOGLE_GEMINI_BASE_URL",
        default_model: "gemini-3.5-flash",
    },
    ProviderDefaults {
        name: "openai-chat",
        provider: LlmProviderType::OpenaiCompletions,
        key_variables: &["OPENAI_API_KEY"],
        url_variable: "OPENAI_BASE_URL",
        default_model: "gpt-5-mini",
    },
];

/// The model that answers.
pub(crate) enum Choice {
    /// A provider's.
    Real(ModelWithProvider),
    /// The built-in one, because it was asked for.
    Simulator,
    /// The built-in one that shows what an agent does, also where nothing else is configured.
    Demonstration,
}

/// What people are told when nothing is configured.
pub(crate) const DEMONSTRATION: &str =
    "no model is set up: the demonstration model answers (see `windlass doctor`)";

/// Chooses by name, else by the first key that is set.
pub(crate) fn choose(
    wanted: Option<&str>,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Choice> {
    let unknown = |name: &&String| KNOWN.iter().all(|known| known.name != *name);
    if let Some(name) = config.providers.keys().find(unknown) {
        bail!(
            "unknown provider `{name}` in the configuration file; it can be one of {}",
            names()
        );
    }
    if let Some(name) = wanted.or(config.model.as_deref()) {
        return named(name, config, variable);
    }
    for known in KNOWN {
        let (key, base_url) = known.credentials(config, &variable);
        if key.is_some() {
            return Ok(Choice::Real(known.model(
                known.default_model,
                key,
                base_url,
            )));
        }
    }
    Ok(Choice::Demonstration)
}

fn named(name: &str, config: &Config, variable: impl Fn(&str) -> Option<String>) -> Result<Choice> {
    let (provider, model) = name.split_once('/').unwrap_or((name, ""));
    match provider {
        "sim" => return Ok(Choice::Simulator),
        demonstration::NAME => return Ok(Choice::Demonstration),
        _ => {}
    }
    let Some(known) = KNOWN.iter().find(|known| known.name == provider) else {
        bail!(
            "unknown provider `{provider}` in model `{name}`; write provider/model with one of {}, sim",
            names()
        );
    };
    let (key, base_url) = known.credentials(config, &variable);
    // A server of one's own, as Ollama is, often wants no key.
    if key.is_none() && base_url.is_none() {
        bail!(
            "no key for provider `{provider}`; set {}",
            known.key_variables.join(" or ")
        );
    }
    let model = if model.is_empty() {
        known.default_model
    } else {
        model
    };
    Ok(Choice::Real(known.model(model, key, base_url)))
}

/// Returns the models that clients can name with their provider: the one that answers by default, where it was named,
/// those of the configuration, and the usual one of each provider that has a key.
pub(crate) fn further(
    wanted: Option<&str>,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, ModelWithProvider)>> {
    let mut models = Vec::new();
    let default = wanted.or(config.model.as_deref());
    let configured = config.models.iter().map(String::as_str);
    for name in default.into_iter().chain(configured) {
        if let Choice::Real(model) = named(name, config, &variable)? {
            models.push((name.to_owned(), model));
        }
    }
    for known in KNOWN {
        let (key, base_url) = known.credentials(config, &variable);
        let name = format!("{}/{}", known.name, known.default_model);
        if key.is_some() && !models.iter().any(|(listed, _)| *listed == name) {
            models.push((name, known.model(known.default_model, key, base_url)));
        }
    }
    Ok(models)
}

/// Returns the backends that are the daemon's own loop with a provider's model, by name: each provider that has a key.
pub(crate) fn api_backends(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let usable = KNOWN
        .iter()
        .filter(|known| known.credentials(config, &variable).0.is_some());
    let named = usable.map(|known| {
        let model = format!("{}/{}", known.name, known.default_model);
        (format!("{}-api", known.name), model)
    });
    named.collect()
}

/// Returns the name of a provider as people write it.
pub(crate) fn provider_name(provider: LlmProviderType) -> String {
    let known = KNOWN.iter().find(|known| known.provider == provider);
    known.map_or_else(|| provider.to_string(), |known| known.name.to_owned())
}

fn names() -> String {
    let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
    names.join(", ")
}

impl ProviderDefaults {
    fn credentials(
        &self,
        config: &Config,
        variable: impl Fn(&str) -> Option<String>,
    ) -> (Option<String>, Option<String>) {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Provider {
            api_key, base_url, ..
        } = config.providers.get(self.name).cloned().unwrap_or_default();
        let key = self.key_variables.iter().find_map(|name| set(name));
        (key.or(api_key), set(self.url_variable).or(base_url))
    }

    fn model(
        &self,
        model: &str,
        key: Option<String>,
        base_url: Option<String>,
    ) -> ModelWithProvider {
        ModelWithProvider {
            model: model.to_owned(),
            provider_type: self.provider,
            api_key: Some(key.unwrap_or_default()),
            base_url,
        }
    }
}

/// Returns what variables say about providers, each as a layer of its own.
pub(crate) fn layers_of(variable: impl Fn(&str) -> Option<String>) -> Vec<Layer> {
    let set = |name: &&&str| variable(name).is_some_and(|value| !value.is_empty());
    let mut layers = Vec::new();
    for known in KNOWN {
        let key = known.key_variables.iter().find(set);
        let url = Some(&known.url_variable).filter(set);
        for (variables, name) in [(key, "api_key"), (url, "base_url")] {
            if let Some(from) = variables {
                let value = variable(from).unwrap_or_default();
                let layer = Layer::of(Origin::Variable((*from).to_owned()));
                layers.push(layer.with(&["providers", known.name, name], value));
            }
        }
    }
    layers
}

/// Makes the drivers of all providers.
pub(crate) fn drivers(config: &Config) -> Result<DriverRegistry> {
    let mut settings = ModelSettings::default();
    settings.http.proxy.clone_from(&config.proxy);
    let read = |file: &std::path::Path| {
        std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
    };
    if let Some(file) = &config.ca_file {
        settings.http.ca_certificates.push(read(file)?);
    }
    if let Some(file) = &config.prices_file {
        let text = String::from_utf8(read(file)?)?;
        let own = PriceTable::from_toml(&text)?;
        settings.prices = Arc::new(settings.prices.overridden_by(&own));
    }
    for known in KNOWN {
        let of = config.providers.get(known.name);
        let provider = ProviderSettings {
            max_parallel_calls: of.and_then(|provider| provider.max_parallel_calls),
            ..ProviderSettings::default()
        };
        settings = settings.with_provider(known.provider, provider);
    }
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, settings);
    Ok(drivers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wanted: Option<&str>, set: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match choose(wanted, &Config::default(), variable) {
            Ok(Choice::Real(model)) => {
                format!("{}/{}", provider_name(model.provider_type), model.model)
            }
            Ok(Choice::Simulator) => "sim".to_owned(),
            Ok(Choice::Demonstration) => "demonstration".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_name_wins_then_the_first_key_then_the_demonstration() {
        let both = [("ANTHROPIC_API_KEY", "a"), ("GEMINI_API_KEY", "g")];
        assert_eq!(chosen(None, &[]), "demonstration");
        assert_eq!(chosen(None, &[("OPENAI_API_KEY", "")]), "demonstration");
        assert_eq!(chosen(None, &both), "anthropic/claude-haiku-4-5");
        assert_eq!(chosen(Some("gemini/gemini-x"), &both), "gemini/gemini-x");
        assert_eq!(chosen(Some("sim"), &both), "sim");
        let ollama = [("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")];
        assert_eq!(
            chosen(Some("openai-chat/org/model"), &ollama),
            "openai-chat/org/model"
        );
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        assert!(chosen(Some("openai/gpt-5"), &[]).contains("OPENAI_API_KEY"));
        assert!(chosen(Some("acme/x"), &[]).contains("unknown provider `acme`"));
    }
}
