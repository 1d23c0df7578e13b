//! Model providers.

use windlass_protocol::config::{
    ModelList, ProviderEntry, ProviderList, ProviderModel, ProviderModelList,
};

use crate::operations::prelude::*;
use crate::settings::effective::EffectiveSettings;

impl Handle<op::ListProviders> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::ListProviders>) -> Result<ProviderList> {
        let effective = self.effective();
        let current = effective.provider().to_owned();
        let mut providers = effective.providers.clone();
        // The current provider's default model is the current model.
        for entry in providers.iter_mut().filter(|entry| entry.id == current) {
            let default_name = effective.models.default_name();
            let bare = default_name.strip_prefix(&format!("{current}/"));
            entry.default_model = bare.unwrap_or(default_name).to_owned();
        }
        Ok(ProviderList { current, providers })
    }
}

/// Lists the models of the provider that serves threads that name no model.
impl Handle<op::ListModels> for Service {
    async fn handle(&self, _: &RequestContext, _: Call<op::ListModels>) -> Result<ModelList> {
        let effective = self.effective();
        let provider = self.provider(&effective, effective.provider())?;
        let listed = self.configured_models(&provider.id)?;
        Ok(ModelList {
            provider: provider.id.clone(),
            provider_display_name: provider.display_name.clone(),
            models: listed.models.into_iter().map(|model| model.id).collect(),
        })
    }
}

impl Handle<op::ListProviderModels> for Service {
    async fn handle(
        &self,
        _: &RequestContext,
        call: Call<op::ListProviderModels>,
    ) -> Result<ProviderModelList> {
        self.configured_models(&call.path.id)
    }
}

impl Service {
    /// Lists the configured models of a provider, and its default model.
    fn configured_models(&self, id: &str) -> Result<ProviderModelList> {
        let effective = self.effective();
        let provider = self.provider(&effective, id)?;
        let mut models = effective.models.names_of_provider(id);
        if !provider.default_model.is_empty() && !models.contains(&provider.default_model) {
            models.push(provider.default_model.clone());
        }
        Ok(ProviderModelList {
            provider: id.to_owned(),
            models: models.into_iter().map(|id| ProviderModel { id }).collect(),
        })
    }

    pub(crate) fn provider<'a>(
        &self,
        effective: &'a EffectiveSettings,
        id: &str,
    ) -> Result<&'a ProviderEntry> {
        let found = effective.providers.iter().find(|entry| entry.id == id);
        found.ok_or_else(|| {
            let known: Vec<_> = effective
                .providers
                .iter()
                .map(|entry| entry.id.as_str())
                .collect();
            let text = format!("Unknown provider id; there are {}", known.join(", "));
            ApiError::new(ErrorCode::UnknownProvider, text)
        })
    }
}
