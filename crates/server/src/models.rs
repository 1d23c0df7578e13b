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
}

impl Default for Models {
    fn default() -> Self {
        Self {
            default: "llmsim-model".to_owned(),
            provider: Some("llmsim".to_owned()),
            known: BTreeMap::new(),
            unknown: UnknownModels::default(),
        }
    }
}

impl Models {
    /// Returns the name to show for what a client wrote.
    pub(crate) fn name(&self, wished: Option<&str>) -> Result<String> {
        let name = match wished.map(str::trim) {
            None | Some("" | AUTO) => return Ok(self.default.clone()),
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
        let known = self.known.get(name).copied();
        // A turn that is resumed under another default goes on with that one.
        known.filter(|_| name != self.default)
    }

    /// Returns the name that the default model's provider is asked for in place of the configured one.
    pub(crate) fn other_name(&self, name: &str) -> Option<String> {
        (!self.is_configured(name)).then(|| name.to_owned())
    }

    fn is_configured(&self, name: &str) -> bool {
        name == self.default || self.known.contains_key(name)
    }
}
