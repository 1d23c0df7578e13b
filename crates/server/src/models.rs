//! The models that clients can name.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::typed_id::ModelId;
use windlass_protocol::ErrorCode;

use crate::error::{ApiError, Result};

/// What a client writes for the configured model.
const AUTO: &str = "auto";
/// No provider has names as long as this.
const MAX_NAME_BYTES: usize = 256;

/// What becomes of a name that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownModels {
    /// The default model's provider is asked for a model of that name.
    #[default]
    ToDefaultProvider,
    /// The request is refused.
    Refuse,
}

/// The models that clients can name.
#[derive(Debug, Clone)]
pub struct Models {
    /// The name of the model that is used when none is named.
    pub default: String,
    /// Who serves it.
    pub provider: Option<String>,
    /// Further models by name.
    pub known: BTreeMap<String, ModelId>,
    /// What becomes of other names.
    pub unknown: UnknownModels,
    /// The name that is used in place of the default one when none is named; somebody chose it since the start.
    pub chosen: Option<String>,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            default: "llmsim-model".to_owned(),
            provider: Some("llmsim".to_owned()),
            known: BTreeMap::new(),
            unknown: UnknownModels::default(),
            chosen: None,
        }
    }
}

impl Models {
    /// Returns the name that is used when none is named.
    pub(crate) fn usual(&self) -> &str {
        self.chosen.as_deref().unwrap_or(&self.default)
    }

    /// Returns who serves a model.
    pub(crate) fn provider_of(&self, name: &str) -> Option<&str> {
        let Some(id) = self.id(name) else {
            return self.provider.as_deref();
        };
        let mut same = self.known.iter().filter(|(_, known)| **known == id);
        let named = same.find_map(|(name, _)| Some(name.split_once('/')?.0));
        named.or(self.provider.as_deref())
    }

    /// Returns the names that are configured for a provider, as it knows them.
    pub(crate) fn of(&self, provider: &str) -> Vec<String> {
        let own = (self.provider.as_deref() == Some(provider)).then(|| self.default.clone());
        let known = self.known.keys().filter_map(|name| {
            let (of, model) = name.split_once('/')?;
            (of == provider).then(|| model.to_owned())
        });
        let mut names: Vec<String> = own.into_iter().chain(known).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Returns the name to show for what a client wrote.
    pub(crate) fn name(&self, wished: Option<&str>) -> Result<String> {
        let name = match wished.map(str::trim) {
            None | Some("" | AUTO) => return Ok(self.usual().to_owned()),
            Some(name) => name,
        };
        // A name goes to the provider, into records and onto screens.
        // It can become an argument of a program, where a dash would make it another option.
        let is_option = name.starts_with('-');
        if is_option || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(ApiError::field(
                "/model",
                format!(
                    "a model's name has at most {MAX_NAME_BYTES} bytes, no control characters, and no dash at its beginning"
                ),
            ));
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

    /// Makes sure that the model of a thread is still there: a turn must not be answered by another one in silence.
    pub(crate) fn still(&self, name: &str) -> Result<String> {
        self.name(Some(name)).map_err(|error| {
            let text = format!(
                "the thread's model `{name}` is no longer configured; name another with the turn, change the thread's \
                 with PATCH, or configure it again under `models` in windlass.toml"
            );
            error.saying(text)
        })
    }

    /// Returns the id of a model; `None` is the default one.
    pub(crate) fn id(&self, name: &str) -> Option<ModelId> {
        if name == self.default {
            // A turn that is resumed under another default goes on with that one.
            return None;
        }
        let known = self.known.get(name).copied();
        known.or_else(|| self.of_provider(name)?.0)
    }

    /// Returns the name that a provider is asked for in place of the configured one: that which the name begins with, else the default model's.
    pub(crate) fn other_name(&self, name: &str) -> Option<String> {
        if self.is_configured(name) {
            return None;
        }
        let model = self.of_provider(name).map_or(name, |(_, model)| model);
        Some(model.to_owned())
    }

    /// Takes `provider/model` apart where the provider is known: by which of its models it is reached, and what is asked of it.
    fn of_provider<'a>(&self, name: &'a str) -> Option<(Option<ModelId>, &'a str)> {
        let (provider, model) = name.split_once('/')?;
        if model.is_empty() {
            return None;
        }
        if self.provider.as_deref() == Some(provider) {
            return Some((None, model));
        }
        let mut of_it = self.known.iter();
        let reached = of_it.find(|(known, _)| {
            let rest = known.strip_prefix(provider);
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        reached.map(|(_, id)| (Some(*id), model))
    }

    fn is_configured(&self, name: &str) -> bool {
        name == self.default || self.known.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_before_a_name_is_who_is_asked() {
        let id = ModelId::from_seed(1);
        let models = Models {
            default: "big".to_owned(),
            provider: Some("anthropic".to_owned()),
            known: [("gpt".to_owned(), id), ("openai/gpt".to_owned(), id)].into(),
            unknown: UnknownModels::default(),
            chosen: None,
        };
        let asked = |name: &str| (models.id(name), models.other_name(name));
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(asked("big"), (None, None));
        assert_eq!(asked("gpt"), (Some(id), None));
        assert_eq!(asked("openai/gpt"), (Some(id), None));
        assert_eq!(asked("openai/other"), (Some(id), named("other")));
        assert_eq!(asked("anthropic/small"), (None, named("small")));
        assert_eq!(asked("small"), (None, named("small")));
        assert_eq!(asked("mistral/a/b"), (None, named("mistral/a/b")));
        assert_eq!(asked("openai/"), (None, named("openai/")));
    }

    #[test]
    fn what_was_chosen_is_asked_when_nothing_is_named() {
        let id = ModelId::from_seed(1);
        let models = Models {
            default: "big".to_owned(),
            provider: Some("anthropic".to_owned()),
            known: [("gpt".to_owned(), id), ("openai/gpt".to_owned(), id)].into(),
            unknown: UnknownModels::default(),
            chosen: Some("openai/gpt".to_owned()),
        };
        assert_eq!(models.name(None).unwrap(), "openai/gpt");
        assert_eq!(models.name(Some("auto")).unwrap(), "openai/gpt");
        assert_eq!(models.name(Some("big")).unwrap(), "big");
        assert_eq!(models.id("big"), None, "the runtime's own stays what it is");
        assert_eq!(models.provider_of("openai/gpt"), Some("openai"));
        assert_eq!(models.provider_of("openai/other"), Some("openai"));
        assert_eq!(models.provider_of("gpt"), Some("openai"));
        assert_eq!(models.provider_of("mistral/x"), Some("anthropic"));
        assert_eq!(models.provider_of("big"), Some("anthropic"));
        assert_eq!(models.of("openai"), ["gpt"]);
        assert_eq!(models.of("anthropic"), ["big"]);
    }
}
