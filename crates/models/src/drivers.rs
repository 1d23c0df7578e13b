//! The driver for all providers and wire APIs.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::llm_driver_registry::{
    DiscoveredModel, LlmCallConfig, LlmDriver, LlmMessage, LlmRequest, LlmResponseStream,
};

use crate::api::Api;
use crate::base_url::{BaseUrlError, check_base_url};
use crate::http::{Classify, Clients, Endpoint, ModelCall, ProviderShared};
use crate::prompt::Prompt;
use crate::settings::{KeyPlace, ModelSettings, ProviderSettings};

/// Maximum pages of a model list.
const MAX_PAGES: usize = 50;

/// A server's deviations from its API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    /// As documented by the API's owner.
    #[default]
    Plain,
    /// OpenRouter's Chat Completions.
    OpenRouter,
}

/// The parts of a request besides the conversation.
pub(crate) struct RequestOptions<'a> {
    pub(crate) provider: &'a ProviderSettings,
    pub(crate) base: &'a str,
    pub(crate) dialect: Dialect,
}

/// The driver of one wire API at one provider. `Debug` does not show the key.
#[derive(Debug)]
pub struct ModelDriver {
    api: Api,
    dialect: Dialect,
    endpoint: Endpoint,
}

impl ModelDriver {
    /// Creates a driver with its own settings. The drivers of [`register_drivers`](crate::register_drivers) share
    /// connections and limits. An unusable base URL is refused.
    pub fn new(
        api: Api,
        key: &str,
        base_url: Option<&str>,
        settings: ModelSettings,
        provider: ProviderSettings,
    ) -> std::result::Result<Self, BaseUrlError> {
        if let Some(url) = base_url.or(provider.base_url.as_deref()) {
            check_base_url(&format!("provider {api}"), url)?;
        }
        let clients = Arc::new(Clients::new(settings.http.clone()));
        let shared = Arc::new(ProviderShared::new(api, settings, provider, clients));
        let plain = Dialect::Plain;
        Ok(Self::shared(api, plain, shared, key, base_url, None))
    }

    pub(crate) fn shared(
        api: Api,
        dialect: Dialect,
        shared: Arc<ProviderShared>,
        key: &str,
        base_url: Option<&str>,
        key_place: Option<KeyPlace>,
    ) -> Self {
        let key_place = key_place.unwrap_or_else(|| default_key_place(api));
        Self {
            api,
            dialect,
            endpoint: Endpoint::new(api, shared, key, base_url, key_place, classify(api)),
        }
    }

    fn call(&self, prompt: &Prompt<'_>) -> Result<ModelCall> {
        let options = RequestOptions {
            provider: self.endpoint.provider(),
            base: self.endpoint.base(),
            dialect: self.dialect,
        };
        let call = match self.api {
            #[cfg(feature = "openai")]
            Api::OpenAi => crate::openai::request::call(prompt, &options),
            #[cfg(feature = "openai-chat")]
            Api::OpenAiChat => crate::openai_chat::request::call(prompt, &options),
            #[cfg(feature = "anthropic")]
            Api::Anthropic => crate::anthropic::request::call(prompt, &options),
            #[cfg(feature = "gemini")]
            Api::Gemini => crate::gemini::request::call(prompt, &options),
        };
        call.map_err(|error| AgentLoopError::llm(format!("the request cannot be encoded: {error}")))
    }
}

fn classify(api: Api) -> Classify {
    match api {
        #[cfg(feature = "openai")]
        Api::OpenAi => crate::openai_errors::classify,
        #[cfg(feature = "openai-chat")]
        Api::OpenAiChat => crate::openai_errors::classify,
        #[cfg(feature = "anthropic")]
        Api::Anthropic => crate::anthropic::error::classify,
        #[cfg(feature = "gemini")]
        Api::Gemini => crate::gemini::error::classify,
    }
}

fn default_key_place(api: Api) -> KeyPlace {
    match api.as_str() {
        "anthropic" => KeyPlace::Header("x-api-key".to_owned()),
        "gemini" => KeyPlace::Header("x-goog-api-key".to_owned()),
        _ => KeyPlace::Bearer,
    }
}

/// Returns the headers that an API requires on every call.
pub(crate) fn default_headers(api: Api) -> &'static [(&'static str, &'static str)] {
    match api.as_str() {
        "anthropic" => &[("anthropic-version", "2023-06-01")],
        _ => &[],
    }
}

/// A page of a model list, and the query parameter for the next one.
pub(crate) struct ModelPage {
    pub(crate) models: Vec<DiscoveredModel>,
    pub(crate) next: Option<(&'static str, String)>,
}

impl ModelPage {
    /// Reads the models of the array `list`, with the names of their fields. There is no next page.
    pub(crate) fn read(page: &Value, list: &str, id: &str, display_name: &str) -> Self {
        let models = page[list].as_array().into_iter().flatten();
        let models = models.filter_map(|model| {
            Some(DiscoveredModel {
                id: model[id].as_str()?.to_owned(),
                display_name: model[display_name].as_str().map(str::to_owned),
            })
        });
        Self {
            models: models.collect(),
            next: None,
        }
    }
}

fn model_page(api: Api, page: &Value) -> ModelPage {
    match api {
        #[cfg(feature = "openai")]
        Api::OpenAi => ModelPage::read(page, "data", "id", "name"),
        #[cfg(feature = "openai-chat")]
        Api::OpenAiChat => ModelPage::read(page, "data", "id", "name"),
        #[cfg(feature = "anthropic")]
        Api::Anthropic => crate::anthropic::models::page(page),
        #[cfg(feature = "gemini")]
        Api::Gemini => crate::gemini::models::page(page),
    }
}

fn models_path(api: Api, base: &str) -> String {
    match api {
        #[cfg(feature = "openai")]
        Api::OpenAi => "/models".to_owned(),
        #[cfg(feature = "openai-chat")]
        Api::OpenAiChat => "/models".to_owned(),
        #[cfg(feature = "anthropic")]
        Api::Anthropic => crate::anthropic::path(base, "/models"),
        #[cfg(feature = "gemini")]
        Api::Gemini => crate::gemini::path(base, "/models"),
    }
}

#[async_trait]
impl LlmDriver for ModelDriver {
    async fn chat_completion_stream(
        &self,
        messages: Vec<LlmMessage>,
        config: &LlmCallConfig,
    ) -> Result<LlmResponseStream> {
        let call = self.call(&Prompt::from_messages(&messages, config))?;
        self.endpoint.stream(call).await
    }

    async fn stream(&self, request: LlmRequest) -> Result<LlmResponseStream> {
        let call = self.call(&Prompt::from_request(&request))?;
        // The conversation is released before the answer arrives.
        drop(request);
        self.endpoint.stream(call).await
    }

    async fn list_models(&self) -> Result<Option<Vec<DiscoveredModel>>> {
        let path = models_path(self.api, self.endpoint.base());
        let (mut models, mut query) = (Vec::new(), Vec::new());
        for _ in 0..MAX_PAGES {
            let page = model_page(self.api, &self.endpoint.get(&path, &query).await?);
            models.extend(page.models);
            match page.next {
                Some(next) => query = vec![next],
                None => break,
            }
        }
        Ok(Some(models))
    }

    fn context_window(&self, model: &str) -> Option<u64> {
        crate::families::window_of(model)
    }

    fn accepts_images(&self, model: &str) -> Option<bool> {
        crate::families::accepts_images(model)
    }
}
