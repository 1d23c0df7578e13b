//! Settings that clients change over the API and that survive a restart: defaults of new threads, and disabled skills.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::Utc;
use serde::{Deserialize, Serialize};
use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_protocol::ErrorCode;
use windlass_protocol::config::ProviderEntry;
use windlass_store::HostRecord;

use crate::error::{ApiError, Result};
use crate::operations::threads::thread_record::params;
use crate::service::Service;
use crate::settings::Settings;
use crate::settings::models::Models;
use crate::store::WireStore;

/// The kind of the record that stores them.
const KIND: &str = "chosen_settings";
const NAME: &str = "daemon";
/// The name of the lock for writing the record.
const LOCK: &str = "chosen settings";

/// Settings made over the API; an absent one has its configured value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Overrides {
    /// The options of turns; backend, trust and approvals cannot be set.
    #[serde(flatten)]
    pub(crate) policy: TurnPolicyOptions,
    /// Skills that are hidden from models.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) skills_off: BTreeSet<String>,
}

/// Configuration and overrides combined. A request reads it once.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveSettings {
    /// The models, with the selected one.
    pub(crate) models: Models,
    /// The providers of models.
    pub(crate) providers: Vec<ProviderEntry>,
    /// The settings made over the API.
    pub(crate) overrides: Overrides,
    /// The model that the configuration names, as last read.
    configured: Option<String>,
    /// Whether the command line names a model, which overrides the stored one for this process.
    ignores_model: bool,
}

fn unreadable(error: &dyn std::error::Error) -> ApiError {
    let text = format!("the settings made over the API cannot be read: {error}");
    ApiError::new(ErrorCode::Internal, text)
}

impl EffectiveSettings {
    /// Reads the stored overrides.
    pub(crate) async fn load(settings: &Settings, store: &dyn WireStore) -> Result<Self> {
        let record = store.records().get(KIND, NAME).await?;
        let overrides = match record {
            None => Overrides::default(),
            Some(record) => {
                serde_json::from_slice(&record.body).map_err(|error| unreadable(&error))?
            }
        };
        params(&overrides.policy).map_err(|error| unreadable(&error))?;
        let mut effective = Self {
            models: settings.models.clone(),
            providers: settings.config.providers.clone(),
            configured: settings.models.selected.clone(),
            overrides: Overrides::default(),
            ignores_model: settings.config.is_model_given,
        };
        effective.add_own_provider();
        effective.set_overrides(overrides);
        Ok(effective)
    }

    /// Adds the runtime's provider if the configuration does not list it, such as a simulator.
    fn add_own_provider(&mut self) {
        let own = self.models.provider.as_deref().unwrap_or_default();
        let is_known = self.providers.iter().any(|entry| entry.id == own);
        if !own.is_empty() && !is_known {
            self.providers.push(ProviderEntry {
                id: own.to_owned(),
                display_name: own.to_owned(),
                default_model: self.models.default.clone(),
                usable: true,
                ..ProviderEntry::default()
            });
        }
    }

    fn set_overrides(&mut self, overrides: Overrides) {
        // A model that the operator no longer offers is ignored: an old override must not stop new threads.
        let model = overrides.policy.model.clone();
        let model = model.filter(|model| {
            if self.ignores_model {
                return false;
            }
            let resolved = self.models.resolve(Some(model));
            if let Err(error) = &resolved {
                tracing::warn!(model, %error, "the model that was selected over the API is no longer available and is ignored");
            }
            resolved.is_ok()
        });
        let model = model.or_else(|| self.configured.clone());
        self.models.selected = model.filter(|model| *model != self.models.default);
        self.overrides = overrides;
    }

    /// Applies a new configuration; overrides are retained.
    fn configure(&mut self, models: Models, providers: Vec<ProviderEntry>) {
        self.configured.clone_from(&models.selected);
        (self.models, self.providers) = (models, providers);
        self.add_own_provider();
        self.set_overrides(self.overrides.clone());
    }

    /// Returns the provider of threads whose clients name no model.
    pub(crate) fn provider(&self) -> &str {
        let provider = self.models.provider_of(self.models.default_name());
        provider.unwrap_or_default()
    }
}

impl Service {
    /// Returns the settings in effect.
    pub(crate) fn effective(&self) -> Arc<EffectiveSettings> {
        Arc::clone(&self.effective.read())
    }

    fn apply(&self, effective: EffectiveSettings) {
        let skills_off = effective.overrides.skills_off.clone();
        self.settings.environments.switch_skills_off(skills_off);
        *self.effective.write() = Arc::new(effective);
    }

    /// Stores changed overrides, then applies them.
    pub(crate) async fn change_overrides(
        &self,
        change: impl FnOnce(&mut Overrides),
    ) -> Result<Arc<EffectiveSettings>> {
        let _guard = self.write_locks.lock(LOCK).await;
        let mut effective = (*self.effective()).clone();
        let mut overrides = effective.overrides.clone();
        change(&mut overrides);
        // A model set now overrides the command line.
        effective.ignores_model &= overrides.policy.model == effective.overrides.policy.model;
        let record = HostRecord {
            name: NAME.to_owned(),
            body: serde_json::to_vec(&overrides)
                .map_err(ApiError::internal)?
                .into(),
        };
        self.store.records().put(KIND, record, Utc::now()).await?;
        effective.set_overrides(overrides);
        self.apply(effective);
        Ok(self.effective())
    }

    /// Applies a reloaded configuration.
    pub(crate) async fn configure(&self, models: Models, providers: Vec<ProviderEntry>) {
        let _guard = self.write_locks.lock(LOCK).await;
        let mut effective = (*self.effective()).clone();
        effective.configure(models, providers);
        self.apply(effective);
    }
}
