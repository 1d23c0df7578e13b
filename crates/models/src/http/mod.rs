//! The connection to a provider: client, address, key, limits.

mod body;
mod client;

use std::fmt;
use std::sync::Arc;

use chrono::Utc;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use windlass_core::error::{AgentLoopError, AskedModel, ErrorKind, ProviderError, Result};
use windlass_core::llm_driver_registry::LlmResponseStream;

pub(crate) use client::Clients;

use crate::api::Api;
use crate::base_url::unusual_host;
use crate::decode::{AnswerDecoder, DecodeOptions};
use crate::error::{add_response_headers, body_value, network, without_key};
use crate::prompt::Prompt;
use crate::settings::{Deadlines, KeyPlace, ModelSettings, ProviderSettings};

/// Maximum bytes read of an error body.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Converts a provider's error body.
pub(crate) type Classify = fn(Option<u16>, &Value) -> ProviderError;

/// Settings and connections shared by all drivers of one provider.
pub(crate) struct ProviderShared {
    pub(crate) settings: ModelSettings,
    pub(crate) provider: ProviderSettings,
    /// Name of the provider in errors.
    pub(crate) name: &'static str,
    /// Base URL of the provider's own servers.
    pub(crate) default_base: &'static str,
    clients: Arc<Clients>,
    limiter: Option<Arc<Semaphore>>,
}

impl ProviderShared {
    pub(crate) fn new(
        api: Api,
        settings: ModelSettings,
        provider: ProviderSettings,
        clients: Arc<Clients>,
    ) -> Self {
        let limiter = provider.max_parallel_calls;
        Self {
            settings,
            provider,
            name: api.as_str(),
            default_base: api.default_base_url(),
            clients,
            limiter: limiter.map(|limit| Arc::new(Semaphore::new(limit.max(1)))),
        }
    }
}

/// One provider at one address with one key. `Debug` does not show the key.
pub(crate) struct Endpoint {
    api: Api,
    shared: Arc<ProviderShared>,
    base: String,
    key: SecretString,
    key_place: KeyPlace,
    classify: Classify,
    source: Arc<ErrorSource>,
}

/// The provider as named in errors.
pub(crate) struct ErrorSource {
    provider: &'static str,
    host: Option<String>,
}

impl ErrorSource {
    fn name(&self, error: AgentLoopError, model: Option<&str>) -> AgentLoopError {
        error.of_model(|| AskedModel {
            provider: self.provider.to_owned(),
            model: model.map(str::to_owned),
            host: self.host.clone(),
        })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key.expose_secret().is_empty() {
            "[none]"
        } else {
            "[set]"
        };
        f.debug_struct("Endpoint")
            .field("api", &self.api)
            .field("base_url", &shown_address(&self.base))
            .field("api_key", &key)
            .finish()
    }
}

/// A model call: path, body and metadata.
pub(crate) struct ModelCall {
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) model: String,
    pub(crate) call_seed: String,
}

impl ModelCall {
    pub(crate) fn new(
        prompt: &Prompt<'_>,
        path: String,
        body: &impl Serialize,
    ) -> serde_json::Result<Self> {
        let mut body = serde_json::to_vec(body)?;
        // The body stays in memory until the provider has read it.
        body.shrink_to_fit();
        Ok(Self {
            path,
            query: Vec::new(),
            body,
            model: prompt.config.model.clone(),
            call_seed: prompt.call_seed.clone(),
        })
    }
}

impl Endpoint {
    pub(crate) fn new(
        api: Api,
        shared: Arc<ProviderShared>,
        key: &str,
        base_url: Option<&str>,
        key_place: KeyPlace,
        classify: Classify,
    ) -> Self {
        let provider = &shared.provider;
        let base = base_url
            .or(provider.base_url.as_deref())
            .unwrap_or(shared.default_base);
        let source = ErrorSource {
            provider: shared.name,
            host: unusual_host(base, shared.default_base),
        };
        Self {
            source: Arc::new(source),
            api,
            base: base.trim_end_matches('/').to_owned(),
            key: SecretString::from(key),
            key_place: provider.key_place.clone().unwrap_or(key_place),
            classify,
            shared,
        }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn provider(&self) -> &ProviderSettings {
        &self.shared.provider
    }

    fn deadlines(&self) -> Deadlines {
        let own = self.shared.provider.deadlines;
        own.unwrap_or(self.shared.settings.deadlines)
    }

    /// Makes a call and returns its answer as a stream.
    pub(crate) async fn stream(&self, call: ModelCall) -> Result<LlmResponseStream> {
        let permit = self.permit().await;
        let deadlines = self.deadlines();
        let started = Instant::now();
        let mut request = self.request(Method::POST, &call.path, &call.query)?;
        *request.body_mut() = Some(call.body.into());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert("content-type", json);
        let stream = HeaderValue::from_static("text/event-stream");
        request.headers_mut().insert("accept", stream);
        let first_byte = started + deadlines.first_byte;
        let response = self.send(request, first_byte).await;
        let response = response.map_err(|error| self.source.name(error, Some(&call.model)))?;
        let settings = &self.shared.settings;
        let decoder = AnswerDecoder::new(
            self.api,
            DecodeOptions {
                model: call.model.clone(),
                max_line_bytes: settings.max_line_bytes,
                max_answer_bytes: settings.max_answer_bytes,
                call_seed: call.call_seed,
            },
        );
        let costs = body::CostEstimate {
            prices: Arc::clone(&settings.prices),
            provider: price_provider(self.api),
            model: call.model,
        };
        let stream = body::AnswerStream::new(
            response,
            decoder,
            permit,
            body::StreamDeadlines {
                first_byte,
                silence: deadlines.silence,
                total: deadlines.total.map(|total| started + total),
            },
            costs,
            self.key.clone(),
            Arc::clone(&self.source),
        );
        Ok(Box::pin(stream))
    }

    /// Gets a JSON document.
    pub(crate) async fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value> {
        let got = self.document(path, query).await;
        got.map_err(|error| self.source.name(error, None))
    }

    async fn document(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value> {
        let request = self.request(Method::GET, path, query)?;
        let until = Instant::now() + self.deadlines().first_byte;
        let response = self.send(request, until).await?;
        let limit = self.shared.settings.max_line_bytes;
        let body = self.read(response, until, limit).await?;
        serde_json::from_slice(&body).map_err(|_| {
            let text = "the provider's answer is not JSON";
            AgentLoopError::provider(ProviderError::new(ErrorKind::BrokenStream, text))
        })
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let limiter = Arc::clone(self.shared.limiter.as_ref()?);
        // The semaphore is never closed.
        limiter.acquire_owned().await.ok()
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, String)]) -> Result<Request> {
        // The URL is omitted because it may contain a key.
        let invalid = |what: &str| {
            AgentLoopError::config(format!("{what} of provider {} is not valid", self.api))
        };
        let address = format!("{}{path}", self.base);
        let mut url = Url::parse(&address).map_err(|_| invalid("the base URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("the base URL"));
        }
        let own = self.shared.provider.query.iter();
        let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
        let given = query.iter().map(|(name, value)| (*name, value.as_str()));
        let pairs: Vec<_> = given.chain(own).collect();
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        let mut request = Request::new(method, url);
        *request.headers_mut() = self
            .headers()
            .ok_or_else(|| invalid("a header or the key"))?;
        Ok(request)
    }

    fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let key = self.key.expose_secret();
        let secret = |text: String| {
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        match &self.key_place {
            _ if key.is_empty() => {}
            KeyPlace::Nowhere => {}
            KeyPlace::Bearer => {
                headers.insert("authorization", secret(format!("Bearer {key}"))?);
            }
            KeyPlace::Header(name) => {
                let name = HeaderName::try_from(name).ok()?;
                headers.insert(name, secret(key.to_owned())?);
            }
        }
        for (name, value) in crate::drivers::default_headers(self.api) {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        for header in &self.shared.provider.headers {
            let (name, value) = header.parts();
            let name = HeaderName::try_from(name).ok()?;
            headers.insert(name, secret(value.to_owned())?);
        }
        Some(headers)
    }

    /// Sends a request and returns the response if its status is a success.
    /// Many calls wait here at once, so the future contains neither the request nor the state for an error response.
    fn send(
        &self,
        request: Request,
        until: Instant,
    ) -> impl Future<Output = Result<Response>> + use<'_> {
        let client = self.shared.clients.for_url(request.url());
        let sent = client.map(|client| client.execute(request));
        async move {
            let response = timeout_at(until, sent?)
                .await
                .map_err(|_| stalled("the provider did not answer in time"))?
                .map_err(|error| AgentLoopError::provider(self.masked(network(error))))?;
            if response.status().is_success() {
                Ok(response)
            } else {
                Err(Box::pin(self.refusal(response, until)).await)
            }
        }
    }

    /// Reads the provider's error response.
    async fn refusal(&self, response: Response, until: Instant) -> AgentLoopError {
        let (status, head) = (response.status(), response.headers().clone());
        // An unreadable body still gives an error with this status.
        let body = self.read(response, until, MAX_ERROR_BODY).await;
        let body = body_value(&body.unwrap_or_default());
        let mut error = (self.classify)(Some(status.as_u16()), &body);
        add_response_headers(&mut error, &head, Utc::now());
        AgentLoopError::provider(self.masked(error))
    }

    async fn read(&self, mut response: Response, until: Instant, limit: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let chunk = timeout_at(until, response.chunk())
                .await
                .map_err(|_| stalled("the provider's answer did not end in time"))?
                .map_err(|error| AgentLoopError::provider(self.masked(network(error))))?;
            match chunk {
                Some(chunk) if body.len() < limit => {
                    let room = chunk.len().min(limit - body.len());
                    body.extend_from_slice(&chunk[..room]);
                }
                _ => return Ok(body),
            }
        }
    }

    fn masked(&self, error: ProviderError) -> ProviderError {
        masked(error, &self.key)
    }
}

/// Masks the key in a provider's error.
fn masked(mut error: ProviderError, key: &SecretString) -> ProviderError {
    error.message = without_key(&error.message, key.expose_secret());
    error
}

fn stalled(text: &str) -> AgentLoopError {
    AgentLoopError::provider(ProviderError::new(ErrorKind::Stalled, text))
}

/// Returns a URL without user, password and parameters.
fn shown_address(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => "[not a URL]".to_owned(),
    }
}

/// Both OpenAI APIs share one price list.
fn price_provider(api: Api) -> &'static str {
    match api.as_str() {
        "openai-chat" => "openai",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_secrets() {
        let shown = shown_address("https://user:secret@host.example/v1?key=secret");
        assert_eq!(shown, "https://host.example/v1");
    }
}
