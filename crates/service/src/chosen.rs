//! What is chosen over the API while the server runs, and kept: what threads get whose clients say nothing, and which skills are off.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use chrono::Utc;
use serde::{Deserialize, Serialize};
use windlass_core::turn_policy::TurnPolicyOptions;
use windlass_protocol::ErrorCode;
use windlass_protocol::config::ProviderEntry;
use windlass_store::HostRecord;

use crate::error::{ApiError, Result};
use crate::models::Models;
use crate::operations::thread_record::params;
use crate::service::Service;
use crate::settings::Settings;
use crate::store::WireStore;

/// The record that keeps it.
const KIND: &str = "chosen_settings";
const NAME: &str = "daemon";
/// The name of the lock under which it is written.
const WRITING: &str = "chosen settings";

/// What somebody chose. What is not there is as it is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Choices {
    /// The options of turns; backend, trust and approvals cannot be set.
    #[serde(flatten)]
    pub(crate) policy: TurnPolicyOptions,
    /// Skills that no model is told of.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) skills_off: BTreeSet<String>,
}

/// What counts now. A request takes it once and works with that.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// The models, with the one that was chosen.
    pub(crate) models: Models,
    /// The providers of models.
    pub(crate) providers: Vec<ProviderEntry>,
    /// What was chosen.
    pub(crate) choices: Choices,
    /// The model that the configuration names since it was read again.
    configured: Option<String>,
    /// Whether a model that was chosen before does not count, because the command line names one. It stays chosen for other starts.
    ignores_model: bool,
}

fn unreadable(error: &dyn std::error::Error) -> ApiError {
    let text = format!("what was chosen over the API cannot be read: {error}");
    ApiError::new(ErrorCode::Internal, text)
}

impl Chosen {
    /// Reads what was chosen before.
    pub(crate) async fn kept(settings: &Settings, store: &dyn WireStore) -> Result<Self> {
        let record = store.records().get(KIND, NAME).await?;
        let choices = match record {
            None => Choices::default(),
            Some(record) => {
                serde_json::from_slice(&record.body).map_err(|error| unreadable(&error))?
            }
        };
        params(&choices.policy).map_err(|error| unreadable(&error))?;
        let mut chosen = Self {
            models: settings.models.clone(),
            providers: settings.config.providers.clone(),
            configured: settings.models.chosen.clone(),
            choices: Choices::default(),
            ignores_model: settings.config.is_model_given,
        };
        chosen.add_own_provider();
        chosen.choose(choices);
        Ok(chosen)
    }

    /// Adds the provider that the runtime has where the program does not know it, such as a simulator.
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

    fn choose(&mut self, choices: Choices) {
        // One that the operator no longer lets anybody name does not count either, and keeps nobody from working.
        let model = choices.policy.model.clone().filter(|_| !self.ignores_model);
        let model = model.filter(|model| {
            let named = self.models.name(Some(model));
            if let Err(error) = &named {
                tracing::warn!(model, %error, "the model that was chosen over the API is left out");
            }
            named.is_ok()
        });
        let model = model.or_else(|| self.configured.clone());
        self.models.chosen = model.filter(|model| *model != self.models.default);
        self.choices = choices;
    }

    /// Takes what the configuration says now; what was chosen stays.
    fn configure(&mut self, models: Models, providers: Vec<ProviderEntry>) {
        self.configured.clone_from(&models.chosen);
        (self.models, self.providers) = (models, providers);
        self.add_own_provider();
        self.choose(self.choices.clone());
    }

    /// Returns who serves threads whose clients name no model.
    pub(crate) fn provider(&self) -> &str {
        let provider = self.models.provider_of(self.models.usual());
        provider.unwrap_or_default()
    }
}

impl Service {
    /// Returns what counts now.
    pub(crate) fn chosen(&self) -> Arc<Chosen> {
        let chosen = self.chosen.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&chosen)
    }

    fn count(&self, chosen: Chosen) {
        let skills_off = chosen.choices.skills_off.clone();
        self.settings.environments.switch_skills_off(skills_off);
        *self.chosen.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(chosen);
    }

    /// Keeps a choice, then lets it count.
    pub(crate) async fn choose(&self, change: impl FnOnce(&mut Choices)) -> Result<Arc<Chosen>> {
        let _held = self.changing.lock(WRITING).await;
        let mut chosen = (*self.chosen()).clone();
        let mut choices = chosen.choices.clone();
        change(&mut choices);
        // Who chooses one now means it.
        chosen.ignores_model &= choices.policy.model == chosen.choices.policy.model;
        let record = HostRecord {
            name: NAME.to_owned(),
            body: serde_json::to_vec(&choices)
                .map_err(ApiError::internal)?
                .into(),
        };
        self.store.records().put(KIND, record, Utc::now()).await?;
        chosen.choose(choices);
        self.count(chosen);
        Ok(self.chosen())
    }

    /// Lets count what the configuration says now.
    pub(crate) async fn configure(&self, models: Models, providers: Vec<ProviderEntry>) {
        let _held = self.changing.lock(WRITING).await;
        let mut chosen = (*self.chosen()).clone();
        chosen.configure(models, providers);
        self.count(chosen);
    }
}
