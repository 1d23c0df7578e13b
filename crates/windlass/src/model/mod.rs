//! Selects the model and its API key.

pub(crate) mod demonstration;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use windlass_config::without_login;
use windlass_core::llm_driver_registry::DriverRegistry;
use windlass_core::llm_models::{LlmProviderType, ModelWithProvider};
use windlass_models::prices::PriceTable;
use windlass_models::settings::ProviderSettings;
use windlass_models::{
    KnownProvider, ModelSettings, PROVIDERS, check_base_url, register_drivers, unknown_provider,
};
use windlass_protocol::config::ProviderEntry;

use crate::config::{Config, Layer, Origin, Provider};

/// The selected model.
pub(crate) enum Choice {
    /// A model of a provider.
    Real(ModelWithProvider),
    /// The built-in simulator, only on request.
    Simulator,
    /// The built-in demonstration, on request or if nothing is configured.
    Demonstration,
}

/// The name of the built-in simulator.
pub(crate) const SIMULATOR: &str = "sim";

/// The message if nothing is configured.
pub(crate) const DEMONSTRATION: &str =
    "no model is configured: the demonstration model responds (see `windlass doctor`)";

/// Selects a model by name, else by the first API key that is set.
pub(crate) fn choose(
    requested: Option<&str>,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Choice> {
    for (name, provider) in &config.providers {
        if find(name).is_none() {
            bail!(
                "unknown provider `{name}` in the configuration file; it can be one of {}",
                KnownProvider::names()
            );
        }
        if let Some(url) = &provider.base_url {
            check_base_url(&config_key(name), url)?;
        }
    }
    if let Some(name) = requested.or(config.model.as_deref()) {
        return choose_named(name, config, variable);
    }
    for known in PROVIDERS {
        let credentials = Credentials::for_provider(known, &config.providers, &variable);
        if credentials.key.is_some()
            && credentials.is_usable()
            && let Some(model) = default_model(known, config)
        {
            return Ok(Choice::Real(credentials.model(model)?));
        }
    }
    Ok(Choice::Demonstration)
}

fn choose_named(
    name: &str,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Choice> {
    let (provider, model) = name.split_once('/').unwrap_or((name, ""));
    match provider {
        SIMULATOR if model.is_empty() => return Ok(Choice::Simulator),
        demonstration::NAME if model.is_empty() => return Ok(Choice::Demonstration),
        SIMULATOR | demonstration::NAME => {
            bail!("there is no model `{name}`; use `{provider}` alone")
        }
        _ => {}
    }
    let Some(known) = find(provider) else {
        bail!("{}, {SIMULATOR}", unknown_provider(name));
    };
    let credentials = Credentials::for_provider(known, &config.providers, &variable);
    if !credentials.is_usable() {
        bail!(
            "no key for provider `{provider}`; set {}",
            credentials.missing()
        );
    }
    let model = match model {
        "" => default_model(known, config)
            .with_context(|| format!("`{name}` names no model; use {provider}/model"))?,
        model => model,
    };
    Ok(Choice::Real(credentials.model(model)?))
}

/// Returns the models that clients can select with a provider prefix: the default if it was named, those of the configuration, and the default model of
/// every other usable provider.
pub(crate) fn further(
    requested: Option<&str>,
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, ModelWithProvider)>> {
    let mut models = Vec::new();
    let default = requested.or(config.model.as_deref());
    let configured = config.models.iter().map(String::as_str);
    for name in default.into_iter().chain(configured) {
        if let Choice::Real(model) = choose_named(name, config, &variable)? {
            models.push((name.to_owned(), model));
        }
    }
    for known in PROVIDERS {
        let credentials = Credentials::for_provider(known, &config.providers, &variable);
        let Some(model) = default_model(known, config) else {
            continue;
        };
        let name = format!("{}/{model}", known.name);
        if credentials.is_usable() && !models.iter().any(|(listed, _)| *listed == name) {
            models.push((name, credentials.model(model)?));
        }
    }
    Ok(models)
}

/// Returns every provider that can prefix a model name, with its connection settings if it is usable.
pub(crate) fn providers(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static KnownProvider, Option<ModelWithProvider>)>> {
    let reached = PROVIDERS.iter().map(|known| {
        let credentials = Credentials::for_provider(known, &config.providers, &variable);
        let is_usable = credentials.is_usable();
        let reached = is_usable.then(|| credentials.model("")).transpose()?;
        Ok((known, reached))
    });
    reached.collect()
}

/// Returns the API backends by name: each usable provider, whose model runs in the daemon's own loop.
pub(crate) fn api_backends(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let is_usable =
        |known| Credentials::for_provider(known, &config.providers, &variable).is_usable();
    let usable = PROVIDERS.iter().filter(|known| is_usable(known));
    let by_name = usable.filter_map(|known| {
        let model = format!("{}/{}", known.name, default_model(known, config)?);
        Some((format!("{}-api", known.name), model))
    });
    by_name.collect()
}

/// Returns the providers as clients see them: their names and whether they are usable, but no key.
pub(crate) fn entries(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<ProviderEntry> {
    let entry = |known: &'static KnownProvider| {
        let credentials = Credentials::for_provider(known, &config.providers, &variable);
        ProviderEntry {
            id: known.name.to_owned(),
            display_name: known.title.to_owned(),
            usable: credentials.is_usable(),
            default_base_url: credentials
                .base_url
                .as_deref()
                .map(address)
                .unwrap_or_default(),
            default_model: default_model(known, config).unwrap_or_default().to_owned(),
            has_model_catalog: false,
            env_vars: known
                .key_variables
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    };
    PROVIDERS.iter().map(entry).collect()
}

/// Returns the default model of a provider: the first of its models in the configuration, because a self-hosted server seldom has another. `None` if
/// the provider has no default model.
fn default_model<'a>(provider: &'static KnownProvider, config: &'a Config) -> Option<&'a str> {
    let configured = config.model.iter().chain(&config.models);
    let mut own = configured.filter_map(|name| {
        let model = name.strip_prefix(provider.name)?.strip_prefix('/')?;
        Some(model).filter(|model| !model.is_empty())
    });
    own.next().or(provider.default_model)
}

/// Formats a URL without parts that may contain a key: the login and the query.
fn address(url: &str) -> String {
    let url = without_login(url);
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Returns the name of a provider as users write it.
pub(crate) fn provider_name(provider: LlmProviderType) -> String {
    let known = PROVIDERS.iter().find(|known| known.provider == provider);
    known.map_or_else(|| provider.to_string(), |known| known.name.to_owned())
}

fn find(name: &str) -> Option<&'static KnownProvider> {
    PROVIDERS.iter().find(|known| known.name == name)
}

/// Returns the configuration key for the address of a provider.
fn config_key(provider: &str) -> String {
    format!("`providers.{provider}.base_url` in the configuration file")
}

/// The user's settings for a provider.
struct Credentials {
    known: &'static KnownProvider,
    key: Option<String>,
    base_url: Option<String>,
    /// The origin of the address.
    url_origin: String,
}

impl Credentials {
    fn for_provider(
        known: &'static KnownProvider,
        configured: &BTreeMap<String, Provider>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Provider {
            api_key, base_url, ..
        } = configured.get(known.name).cloned().unwrap_or_default();
        let key = known.key_variables.iter().find_map(|name| set(name));
        let by_variable = set(known.url_variable);
        Self {
            known,
            key: key.or(api_key),
            url_origin: match by_variable {
                Some(_) => known.url_variable.to_owned(),
                None => config_key(known.name),
            },
            base_url: by_variable.or(base_url),
        }
    }

    /// A self-hosted server, such as Ollama, often needs no key. A provider without a built-in address needs one.
    fn is_usable(&self) -> bool {
        let has_address = self.known.base_url.is_some();
        (self.key.is_some() && has_address) || self.base_url.is_some()
    }

    /// Returns the environment variables to set.
    fn missing(&self) -> String {
        let keys = self.known.key_variables.join(" or ");
        match self.known.base_url {
            Some(_) => keys,
            None => format!("{keys}, and {}", self.known.url_variable),
        }
    }

    fn model(self, model: &str) -> Result<ModelWithProvider> {
        if let Some(url) = &self.base_url {
            check_base_url(&self.url_origin, url)?;
        }
        Ok(ModelWithProvider {
            model: model.to_owned(),
            provider_type: self.known.provider,
            api_key: Some(self.key.unwrap_or_default()),
            base_url: self.base_url,
        })
    }
}

/// Returns the provider settings of environment variables, each as its own layer.
pub(crate) fn layers_of(variable: impl Fn(&str) -> Option<String>) -> Vec<Layer> {
    let set = |name: &&&str| variable(name).is_some_and(|value| !value.is_empty());
    let mut layers = Vec::new();
    for known in PROVIDERS {
        let key = known.key_variables.iter().find(set);
        let url = Some(&known.url_variable).filter(set);
        for (variables, name) in [(key, "api_key"), (url, "base_url")] {
            if let Some(from) = variables {
                let value = variable(from).unwrap_or_default();
                let layer = Layer::new(Origin::Variable((*from).to_owned()));
                layers.push(layer.with(&["providers", known.name, name], value));
            }
        }
    }
    layers
}

/// Creates the drivers of all providers.
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
    for known in PROVIDERS {
        let of = config.providers.get(known.name);
        let provider = ProviderSettings {
            max_parallel_calls: of.and_then(|provider| provider.max_parallel_calls),
            ..ProviderSettings::default()
        };
        settings = settings.with_provider(known.provider, provider);
    }
    let mut drivers = DriverRegistry::new();
    register_drivers(&mut drivers, settings)?;
    Ok(drivers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(requested: Option<&str>, set: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let variable = set.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        match choose(requested, &Config::default(), variable) {
            Ok(Choice::Real(model)) => {
                format!("{}/{}", provider_name(model.provider_type), model.model)
            }
            Ok(Choice::Simulator) => "sim".to_owned(),
            Ok(Choice::Demonstration) => "demonstration".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn named_model_precedes_the_first_key_and_the_demonstration() {
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
    fn provider_with_a_url_needs_no_key() {
        let ollama = Provider {
            base_url: Some("http://127.0.0.1:11434/v1".to_owned()),
            ..Provider::default()
        };
        let config = Config {
            providers: BTreeMap::from([("openai-chat".to_owned(), ollama)]),
            ..Config::default()
        };
        let variable = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "a".to_owned());
        let further = further(None, &config, variable).unwrap();
        let names: Vec<_> = further.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.iter().any(|name| name.starts_with("openai-chat/")),
            "{names:?}"
        );
        assert!(api_backends(&config, variable).contains_key("openai-chat-api"));
        let entries = entries(&config, variable);
        for entry in entries.iter().filter(|entry| entry.usable) {
            let prefix = format!("{}/", entry.id);
            assert!(
                names.iter().any(|name| name.starts_with(&prefix)),
                "{entry:?}"
            );
        }
    }

    #[test]
    fn configured_model_of_a_provider_precedes_its_default() {
        let ollama = Provider {
            base_url: Some("http://127.0.0.1:11434/v1".to_owned()),
            ..Provider::default()
        };
        let config = Config {
            providers: BTreeMap::from([("openai-chat".to_owned(), ollama)]),
            models: vec!["anthropic/x".to_owned(), "openai-chat/glm-2".to_owned()],
            ..Config::default()
        };
        let variable = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "a".to_owned());
        let further = further(None, &config, variable).unwrap();
        let mut names: Vec<_> = further.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["anthropic/x", "openai-chat/glm-2"]);
        let default_model = entries(&config, variable);
        let default_model = default_model.iter().find(|entry| entry.id == "openai-chat");
        assert_eq!(default_model.unwrap().default_model, "glm-2");
        assert_eq!(
            api_backends(&config, variable)["openai-chat-api"],
            "openai-chat/glm-2"
        );
        for (requested, names) in [(None, "x"), (Some("openai-chat"), "glm-2")] {
            match choose(requested, &config, variable) {
                Ok(Choice::Real(model)) => assert_eq!(model.model, names),
                _ => panic!("{requested:?}"),
            }
        }
    }

    #[test]
    fn invalid_url_is_rejected_with_its_origin() {
        let key = ("OPENAI_API_KEY", "k");
        for url in [
            "localhost:11434",
            "ftp://h",
            "http://me:hunter2@h",
            "nonsense",
        ] {
            let set = [key, ("OPENAI_BASE_URL", url)];
            for requested in [None, Some("openai/x"), Some("openai-chat/x")] {
                let error = chosen(requested, &set);
                assert!(error.contains("of OPENAI_BASE_URL"), "{error}");
                assert!(!error.contains("hunter2"), "{error}");
            }
            // The variable of one provider does not change the address of another.
            let set = [key, ("OPENAI_BASE_URL", url), ("GEMINI_API_KEY", "k")];
            assert_eq!(chosen(Some("gemini/x"), &set), "gemini/x");
        }
        for url in ["", "nonsense"] {
            let provider = Provider {
                base_url: Some(url.to_owned()),
                ..Provider::default()
            };
            let config = Config {
                providers: [("gemini".to_owned(), provider)].into(),
                ..Config::default()
            };
            let error = choose(Some("sim"), &config, |_| None).err().unwrap();
            let error = error.to_string();
            assert!(error.contains(&format!("`{url}`")), "{error}");
            assert!(error.contains("`providers.gemini.base_url`"), "{error}");
        }
    }

    #[test]
    fn missing_keys_and_unknown_providers_are_named() {
        assert!(chosen(Some("openai/gpt-5"), &[]).contains("OPENAI_API_KEY"));
        assert!(chosen(Some("acme/x"), &[]).contains("unknown provider `acme`"));
    }
}
