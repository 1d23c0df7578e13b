//! The models that clients can name.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::typed_id::ModelId;
use windlass_protocol::ErrorCode;

use crate::error::ApiError;

/// What a client writes for the configured model.
const AUTO: &str = "auto";

/// The models that clients can name.
#[derive(Debug, Clone)]
pub struct Models {
    /// The name of the model that is used when none is named.
    pub default: String,
    /// Who serves it.
    pub provider: Option<String>,
    /// Further models by name.
    pub known: BTreeMap<String, ModelId>,
    /// Whether a name that is not known means the default model, as for a simulator.
    pub any_name: bool,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            default: "llmsim-model".to_owned(),
            provider: Some("llmsim".to_owned()),
            known: BTreeMap::new(),
            any_name: true,
        }
    }
}

impl Models {
    /// Returns the name to show for what a client wrote.
    pub(crate) fn name(&self, wished: Option<&str>) -> Result<String, ApiError> {
        let name = match wished.map(str::trim) {
            None | Some("" | AUTO) => return Ok(self.default.clone()),
            Some(name) => name,
        };
        if name == self.default || self.any_name || self.known.contains_key(name) {
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
    pub(crate) fn still(&self, name: &str) -> Result<String, ApiError> {
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
        self.known.get(name).copied()
    }
}
