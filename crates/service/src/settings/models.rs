//! The models that clients can select.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::typed_id::ModelId;
use windlass_macros::Defaults;
use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};

/// The name that selects the configured model.
const AUTO: &str = "auto";
/// Maximum name length in bytes; no provider has names this long.
const MAX_NAME_BYTES: usize = 256;

/// Handling of a name that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownModels {
    /// The name is passed to the default model's provider.
    #[default]
    ToDefaultProvider,
    /// The request is refused.
    Refuse,
}

/// A provider that can prefix a model name.
#[derive(Debug, Clone, Default)]
pub struct ModelProvider {
    /// ID that reaches every model of the provider; `None` if it has neither a key nor an address.
    pub id: Option<ModelId>,
    /// Environment variables that may contain its key.
    pub key_variables: Vec<String>,
}

/// The models that clients can select.
#[derive(Debug, Clone, Defaults)]
pub struct Models {
    /// Name of the default model.
    #[default("llmsim-model".to_owned())]
    pub default: String,
    /// Provider of the default model.
    #[default(Some("llmsim".to_owned()))]
    pub provider: Option<String>,
    /// Further models by name.
    pub known: BTreeMap<String, ModelId>,
    /// Providers that can prefix a name, by name. A name without such a prefix belongs to the default provider.
    pub providers: BTreeMap<String, ModelProvider>,
    /// Whether a demonstration model answers because no provider is configured. It answers in no thread that a provider started.
    pub is_demonstration: bool,
    /// Handling of other names.
    pub unknown: UnknownModels,
    /// Name that a client selected in place of the default since the start.
    pub selected: Option<String>,
}

impl Models {
    /// Returns the name of the model for requests that name none.
    pub(crate) fn default_name(&self) -> &str {
        self.selected.as_deref().unwrap_or(&self.default)
    }

    /// Returns the provider of a model.
    pub(crate) fn provider_of<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if name == self.default {
            return self.provider.as_deref();
        }
        if let Some(id) = self.known.get(name) {
            let mut same = self.known.iter().filter(|(_, known)| *known == id);
            let prefix = same.find_map(|(name, _)| Some(name.split_once('/')?.0));
            return prefix.or(self.provider.as_deref());
        }
        let prefix = self.split_provider(name).map(|(provider, _)| provider);
        prefix.or(self.provider.as_deref())
    }

    /// Returns a name with its provider prefix, as threads record it.
    pub(crate) fn qualified(&self, name: &str) -> Option<String> {
        let provider = self.provider_of(name)?;
        let model = name.strip_prefix(provider);
        let model = model.and_then(|rest| rest.strip_prefix('/'));
        Some(format!("{provider}/{}", model.unwrap_or(name)))
    }

    /// Sets the model of a thread, and its provider.
    pub(crate) fn set(&self, policy: &mut TurnPolicy, name: String) {
        let provider = self.provider_of(&name).map(str::to_owned);
        policy.qualified_model = self.qualified(&name);
        policy.provider_id.clone_from(&provider);
        policy.provider = provider;
        policy.model = name;
    }

    /// Returns the names that are configured for a provider, without its prefix.
    pub(crate) fn names_of_provider(&self, provider: &str) -> Vec<String> {
        let own = (self.provider.as_deref() == Some(provider)).then_some(&*self.default);
        let known = self.known.keys().filter_map(|name| name.split_once('/'));
        let known = known.filter_map(|(of, model)| (of == provider).then_some(model));
        // The keys of a map are unique, so only the default model can be in both.
        let known = known.filter(|model| own != Some(*model));
        own.into_iter().chain(known).map(str::to_owned).collect()
    }

    /// Validates a model name from a client; returns the configured default for `None` and `auto`.
    pub(crate) fn resolve(&self, requested: Option<&str>) -> Result<String> {
        let name = self.resolve_for_agent(requested)?;
        if !self.is_configured(&name) {
            self.check_provider(&name)?;
        }
        Ok(name)
    }

    /// Validates a model name for an external agent, which reaches its provider directly.
    pub(crate) fn resolve_for_agent(&self, requested: Option<&str>) -> Result<String> {
        let name = match requested.map(str::trim) {
            None | Some("" | AUTO) => return Ok(self.default_name().to_owned()),
            Some(name) => name,
        };
        // A name is sent to the provider, recorded and displayed. It can become a program argument, where a leading dash would make it an option.
        let is_option = name.starts_with('-');
        if is_option || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let text = format!(
                "a model's name has at most {MAX_NAME_BYTES} bytes, no control characters and no leading dash"
            );
            return Err(ApiError::field("/model", text));
        }
        if self.is_configured(name) || self.unknown == UnknownModels::ToDefaultProvider {
            return Ok(name.to_owned());
        }
        let known: Vec<&String> = std::iter::once(&self.default)
            .chain(self.known.keys())
            .collect();
        Err(
            ApiError::new(ErrorCode::InvalidField, "the model is not configured")
                .with(json!({"field": "/model", "known": known})),
        )
    }

    /// Refuses a provider without a model, and a model of an unreachable provider: another provider must not receive it.
    fn check_provider(&self, name: &str) -> Result<()> {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let Some(ModelProvider { id, key_variables }) = self.providers.get(provider) else {
            return Ok(());
        };
        if id.is_none() {
            let text = match key_variables[..] {
                [] => format!("this daemon does not serve `{name}`; name another model"),
                _ => format!(
                    "there is no key for provider `{provider}`; set {}, or name another model",
                    key_variables.join(" or ")
                ),
            };
            return Err(ApiError::new(ErrorCode::ProviderUnusable, text)
                .with(json!({"model": name, "variables": key_variables})));
        }
        if model.is_empty() {
            let text = format!("`{provider}` is a provider; write {provider}/model");
            Err(ApiError::field("/model", text))
        } else {
            Ok(())
        }
    }

    /// Returns the model of a thread's turn. The thread's history is sent to another provider only if the request names one of that provider's
    /// models.
    pub(crate) fn for_turn(&self, thread: &TurnPolicy, requested: Option<&str>) -> Result<String> {
        let Some(own) = self.recorded_model(thread) else {
            return match requested {
                None => self.check_available(&thread.model),
                requested => self.resolve(requested),
            };
        };
        let provider = own.split('/').next().unwrap_or_default();
        let is_own = self.provider.as_deref() == Some(provider);
        let known = self.providers.get(provider);
        let is_usable = is_own || known.is_some_and(|it| it.id.is_some());
        if self.is_demonstration && !is_own {
            return Err(self.unusable(&own));
        }
        match requested.map(str::trim) {
            None if self.provider_of(&thread.model) == Some(provider) => {
                self.check_available(&thread.model)
            }
            None if is_usable => self.check_available(&own),
            Some("" | AUTO) if self.provider_of(self.default_name()) == Some(provider) => {
                self.resolve(None)
            }
            None | Some("" | AUTO) => Err(self.unusable(&own)),
            Some(name) if name == thread.model => self.for_turn(thread, None),
            Some(name) if self.names_provider(name) => self.resolve(Some(name)),
            // Without a provider prefix, it is a model of the thread's provider.
            Some(name) if is_own => self.resolve(Some(name)),
            Some(name) if is_usable => self.resolve(Some(&format!("{provider}/{name}"))),
            Some(_) => Err(self.unusable(&own)),
        }
    }

    /// Returns the model that a thread is recorded with, provider first; `None` if neither the thread nor this daemon names a provider.
    ///
    /// Threads of earlier versions have no `qualified_model`. Their `provider` is the daemon's, unless a client chose another name.
    pub(crate) fn recorded_model(&self, thread: &TurnPolicy) -> Option<String> {
        if let Some(qualified) = &thread.qualified_model {
            return Some(qualified.clone());
        }
        let own = self.provider.as_deref()?;
        let recorded = (thread.provider.as_deref().unwrap_or(own), &*thread.model);
        let (provider, model) = self.split_provider(&thread.model).unwrap_or(recorded);
        Some(format!("{provider}/{model}"))
    }

    /// Refuses to resume a turn whose provider this daemon cannot reach.
    pub fn check_open_turn(&self, thread: &TurnPolicy, provider: Option<&str>) -> Result<()> {
        let Some(provider) = provider.filter(|it| self.provider.as_deref() != Some(it)) else {
            return Ok(());
        };
        let is_missing = |known: &ModelProvider| known.id.is_none();
        if self.providers.get(provider).is_some_and(is_missing) {
            Err(self.unusable(&self.recorded_model(thread).unwrap_or_default()))
        } else {
            Ok(())
        }
    }

    /// Refuses a turn of a thread whose provider this daemon cannot reach.
    fn unusable(&self, model: &str) -> ApiError {
        let provider = model.split('/').next().unwrap_or_default();
        let provider = self.providers.get(provider);
        let variables = provider.map_or(&[][..], |it| &it.key_variables);
        let set = match variables {
            [] => String::new(),
            names => format!("set {}, or ", names.join(" or ")),
        };
        let default = self.default_name();
        let other = match self.qualified(default) {
            _ if self.is_demonstration => "PROVIDER/MODEL".to_owned(),
            qualified => qualified.unwrap_or_else(|| default.to_owned()),
        };
        let text = format!(
            "this thread uses {model}; {set}name another model with the turn (--model {other})"
        );
        ApiError::new(ErrorCode::ProviderUnusable, text)
            .with(json!({"model": model, "variables": variables}))
    }

    /// Checks that a thread's model is still available: another model must not answer silently.
    fn check_available(&self, name: &str) -> Result<String> {
        self.resolve(Some(name)).map_err(|error| {
            if error.code() == ErrorCode::ProviderUnusable {
                return error;
            }
            let text = format!(
                "the thread's model `{name}` is no longer configured; name another with the turn, change the thread's \
                 with PATCH, or configure it again under `models` in windlass.toml"
            );
            error.with_message(text)
        })
    }

    /// Returns the ID of a model; `None` is the runtime's default, which only a daemon without configured providers leaves unnamed.
    pub(crate) fn id(&self, name: &str) -> Option<ModelId> {
        if name == self.default {
            let qualified = format!("{}/{name}", self.provider.as_deref()?);
            return self.known.get(&qualified).copied();
        }
        if let Some(id) = self.known.get(name) {
            return Some(*id);
        }
        let split = self.split_provider(name);
        let (provider, model) = split.or_else(|| Some((self.provider.as_deref()?, name)))?;
        let known = self.known.get(&format!("{provider}/{model}")).copied();
        known.or_else(|| self.providers.get(provider)?.id)
    }

    /// Returns the model name to send to the provider if the name is not configured. The provider is the name's prefix, else the default one.
    pub(crate) fn provider_model_name(&self, name: &str) -> Option<String> {
        if self.is_configured(name) {
            return None;
        }
        let model = self.split_provider(name).map_or(name, |(_, model)| model);
        Some(model.to_owned())
    }

    /// Splits `provider/model` if the provider is known.
    fn split_provider<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let (provider, model) = name.split_once('/')?;
        let is_known =
            self.provider.as_deref() == Some(provider) || self.providers.contains_key(provider);
        (is_known && !model.is_empty()).then_some((provider, model))
    }

    /// Returns whether a model ID recorded with an earlier turn is still reachable.
    pub(crate) fn reaches(&self, id: ModelId) -> bool {
        let providers = self.providers.values().filter_map(|it| it.id.as_ref());
        self.known.values().chain(providers).any(|it| *it == id)
    }

    /// Returns whether a name determines its provider: it is configured, or has a provider prefix.
    pub(crate) fn names_provider(&self, name: &str) -> bool {
        self.is_configured(name) || self.split_provider(name).is_some()
    }

    fn is_configured(&self, name: &str) -> bool {
        name == self.default || self.known.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(ids: &[(&str, Option<ModelId>)]) -> BTreeMap<String, ModelProvider> {
        let provider = |(name, id): &(&str, Option<ModelId>)| {
            let key_variables = vec![format!("{}_KEY", name.to_uppercase())];
            let id = *id;
            ((*name).to_owned(), ModelProvider { id, key_variables })
        };
        ids.iter().map(provider).collect()
    }

    fn policy(model: &str, provider: Option<&str>, qualified_model: Option<&str>) -> TurnPolicy {
        TurnPolicy {
            model: model.to_owned(),
            provider: provider.map(str::to_owned),
            qualified_model: qualified_model.map(str::to_owned),
            ..TurnPolicy::default()
        }
    }

    /// `None`: the request is refused with the name of the thread's provider.
    #[test]
    fn provider_of_a_thread_changes_only_by_request() {
        let (openai, gemini) = (ModelId::from_seed(1), ModelId::from_seed(2));
        let models = Models {
            default: "gpt".to_owned(),
            provider: Some("openai".to_owned()),
            known: [("openai/gpt".to_owned(), openai)].into(),
            providers: providers(&[
                ("openai", Some(openai)),
                ("gemini", Some(gemini)),
                ("anthropic", None),
            ]),
            ..Models::default()
        };
        let of_openai = policy("gpt", None, Some("openai/gpt"));
        let of_gemini = policy("flash", None, Some("gemini/flash"));
        let of_anthropic = policy("opus", None, Some("anthropic/opus"));
        let unqualified = policy("opus", Some("anthropic"), None);
        let of_client = policy("opus", Some("own"), Some("openai/opus"));
        for (thread, requested, expected) in [
            (&of_openai, None, Some("gpt")),
            (&of_openai, Some("auto"), Some("gpt")),
            (&of_openai, Some("other"), Some("other")),
            (&of_openai, Some("gemini/flash"), Some("gemini/flash")),
            (&of_openai, Some("anthropic/opus"), None),
            (&of_gemini, None, Some("gemini/flash")),
            (&of_gemini, Some("flash"), Some("gemini/flash")),
            (&of_gemini, Some("other"), Some("gemini/other")),
            (&of_gemini, Some("gpt"), Some("gpt")),
            (&of_gemini, Some("auto"), None),
            (&of_anthropic, None, None),
            (&of_anthropic, Some("opus"), None),
            (&of_anthropic, Some("other"), None),
            (&of_anthropic, Some("openai/other"), Some("openai/other")),
            (&unqualified, None, None),
            (&unqualified, Some("opus"), None),
            (&of_client, None, Some("opus")),
        ] {
            let selected = models.for_turn(thread, requested);
            let case = format!("{:?} {requested:?}: {selected:?}", thread.qualified_model);
            match expected {
                Some(name) => assert_eq!(selected.unwrap(), name, "{case}"),
                None => assert_eq!(
                    selected.unwrap_err().code(),
                    ErrorCode::ProviderUnusable,
                    "{case}"
                ),
            }
        }
        assert_eq!(models.id("gemini/other"), Some(gemini));
        assert_eq!(models.provider_model_name("gemini/other").unwrap(), "other");
        assert_eq!(models.id("gpt"), Some(openai));
        let demonstration = Models {
            is_demonstration: true,
            ..Models::default()
        };
        for requested in [None, Some("auto"), Some("llmsim-model"), Some("any")] {
            let refused = demonstration.for_turn(&of_openai, requested).unwrap_err();
            assert_eq!(refused.code(), ErrorCode::ProviderUnusable, "{requested:?}");
        }
    }

    #[test]
    fn provider_prefix_selects_the_provider() {
        let id = ModelId::from_seed(1);
        let models = Models {
            default: "big".to_owned(),
            provider: Some("anthropic".to_owned()),
            known: [("gpt".to_owned(), id), ("openai/gpt".to_owned(), id)].into(),
            providers: providers(&[("openai", Some(id))]),
            ..Models::default()
        };
        let model = |name: &str| (models.id(name), models.provider_model_name(name));
        let unconfigured = |name: &str| Some(name.to_owned());
        assert_eq!(model("big"), (None, None));
        assert_eq!(model("gpt"), (Some(id), None));
        assert_eq!(model("openai/gpt"), (Some(id), None));
        assert_eq!(model("openai/other"), (Some(id), unconfigured("other")));
        assert_eq!(model("anthropic/small"), (None, unconfigured("small")));
        assert_eq!(model("small"), (None, unconfigured("small")));
        assert_eq!(model("mistral/a/b"), (None, unconfigured("mistral/a/b")));
        assert_eq!(model("openai/"), (None, unconfigured("openai/")));
    }

    #[test]
    fn selected_model_is_the_default() {
        let id = ModelId::from_seed(1);
        let models = Models {
            default: "big".to_owned(),
            provider: Some("anthropic".to_owned()),
            known: [("gpt".to_owned(), id), ("openai/gpt".to_owned(), id)].into(),
            providers: providers(&[("openai", Some(id))]),
            selected: Some("openai/gpt".to_owned()),
            ..Models::default()
        };
        assert_eq!(models.resolve(None).unwrap(), "openai/gpt");
        assert_eq!(models.resolve(Some("auto")).unwrap(), "openai/gpt");
        assert_eq!(models.resolve(Some("big")).unwrap(), "big");
        assert_eq!(
            models.id("big"),
            None,
            "the runtime's own model is unchanged"
        );
        assert_eq!(models.provider_of("openai/gpt"), Some("openai"));
        assert_eq!(models.provider_of("openai/other"), Some("openai"));
        assert_eq!(models.provider_of("gpt"), Some("openai"));
        assert_eq!(models.provider_of("mistral/x"), Some("anthropic"));
        assert_eq!(models.provider_of("big"), Some("anthropic"));
        assert_eq!(models.names_of_provider("openai"), ["gpt"]);
        assert_eq!(models.names_of_provider("anthropic"), ["big"]);
    }
}
