//! Who serves models.

use windlass_protocol::ErrorCode;
use windlass_protocol::config::{
    ModelList, ProviderEntry, ProviderList, ProviderModel, ProviderModelList,
};

use super::Asked;
use crate::chosen::Chosen;
use crate::error::{ApiError, Result};

impl Asked {
    /// Lists the providers that are known.
    pub fn list_providers(&self) -> ProviderList {
        let chosen = self.chosen();
        let current = chosen.provider().to_owned();
        let mut providers = chosen.providers.clone();
        // Its usual model is the one that is asked now.
        for entry in providers.iter_mut().filter(|entry| entry.id == current) {
            let usual = chosen.models.usual();
            let bare = usual.strip_prefix(&format!("{current}/"));
            entry.default_model = bare.unwrap_or(usual).to_owned();
        }
        ProviderList { current, providers }
    }

    /// Lists the models of the provider that serves threads whose clients name no model.
    pub fn list_models(&self) -> Result<ModelList> {
        let chosen = self.chosen();
        let provider = self.provider(&chosen, chosen.provider())?;
        let listed = self.list_provider_models(&provider.id)?;
        Ok(ModelList {
            provider: provider.id.clone(),
            provider_display_name: provider.display_name.clone(),
            models: listed.models.into_iter().map(|model| model.id).collect(),
        })
    }

    /// Lists the models of a provider that are configured, and its usual one.
    pub fn list_provider_models(&self, id: &str) -> Result<ProviderModelList> {
        let chosen = self.chosen();
        let provider = self.provider(&chosen, id)?;
        let mut models = chosen.models.of(id);
        if !provider.default_model.is_empty() && !models.contains(&provider.default_model) {
            models.push(provider.default_model.clone());
        }
        Ok(ProviderModelList {
            provider: id.to_owned(),
            models: models.into_iter().map(|id| ProviderModel { id }).collect(),
        })
    }

    /// Finds a provider.
    pub(super) fn provider<'a>(&self, chosen: &'a Chosen, id: &str) -> Result<&'a ProviderEntry> {
        let found = chosen.providers.iter().find(|entry| entry.id == id);
        found.ok_or_else(|| {
            let known: Vec<_> = chosen
                .providers
                .iter()
                .map(|entry| entry.id.as_str())
                .collect();
            let text = format!("Unknown provider id; there are {}", known.join(", "));
            ApiError::new(ErrorCode::UnknownProvider, text)
        })
    }
}
