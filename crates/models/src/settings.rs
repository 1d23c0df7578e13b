//! Settings of models and providers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use windlass_core::llm_driver_registry::ProviderType;
use windlass_macros::Defaults;

use crate::decode::{MAX_ANSWER_BYTES, MAX_LINE_BYTES};
use crate::prices::PriceTable;

/// Settings of all drivers.
#[derive(Debug, Clone, Defaults)]
pub struct ModelSettings {
    /// Proxy, certificates and connect timeout.
    pub http: HttpSettings,
    /// Default deadlines; a provider may have its own.
    pub deadlines: Deadlines,
    /// Maximum length of one event of an answer in bytes.
    #[default(MAX_LINE_BYTES)]
    pub max_line_bytes: usize,
    /// Maximum length of a whole answer in bytes.
    #[default(MAX_ANSWER_BYTES)]
    pub max_answer_bytes: usize,
    /// Price list for cost estimates.
    #[default(PriceTable::built_in())]
    pub prices: Arc<PriceTable>,
    /// Settings by provider.
    #[default(HashMap::new())]
    pub providers: HashMap<ProviderType, ProviderSettings>,
}

impl ModelSettings {
    /// Sets the settings of one provider.
    #[must_use]
    pub fn with_provider(mut self, provider: ProviderType, settings: ProviderSettings) -> Self {
        self.providers.insert(provider, settings);
        self
    }
}

/// Connection settings; nothing is read from the environment.
#[derive(Clone, Defaults)]
pub struct HttpSettings {
    /// URL of the proxy for all calls. `Debug` does not show it, because it may contain a password.
    pub proxy: Option<String>,
    /// Additional trusted certificates, each a PEM bundle.
    pub ca_certificates: Vec<Vec<u8>>,
    /// Time limit for connecting. Default: 15 seconds.
    #[default(Duration::from_secs(15))]
    pub connect_timeout: Duration,
    /// Value of the `User-Agent` header.
    #[default(concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned())]
    pub user_agent: String,
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("proxy", &self.proxy.as_ref().map(|_| "[set]"))
            .field("ca_certificates", &self.ca_certificates.len())
            .field("connect_timeout", &self.connect_timeout)
            .field("user_agent", &self.user_agent)
            .finish()
    }
}

/// Time limits for a provider. Exceeding one is a retryable `stalled` error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct Deadlines {
    /// Time until the first byte of the answer. Default: 5 minutes.
    #[default(Duration::from_secs(300))]
    pub first_byte: Duration,
    /// Time between two chunks. Default: 2 minutes.
    #[default(Duration::from_secs(120))]
    pub silence: Duration,
    /// Time for the whole answer. Default: 1 hour.
    #[default(Some(Duration::from_secs(3600)))]
    pub total: Option<Duration>,
}

/// How the key is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    /// As `Authorization: Bearer`.
    Bearer,
    /// In a header of this name.
    Header(String),
    /// Not at all.
    Nowhere,
}

/// Settings of one provider. Unset fields follow the provider's documentation.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Base URL for models without one.
    pub base_url: Option<String>,
    /// Headers for every call.
    pub headers: Vec<Header>,
    /// Query parameters of every call, such as `api-version`.
    pub query: Vec<(String, String)>,
    /// How the key is sent.
    pub key_place: Option<KeyPlace>,
    /// Maximum number of concurrent calls; others wait.
    pub max_parallel_calls: Option<usize>,
    /// Time limits. Default: those of [`ModelSettings`].
    pub deadlines: Option<Deadlines>,
    /// Output limit in tokens for calls without one. Anthropic requires a limit.
    pub default_max_tokens: Option<u32>,
    /// Whether prompts are marked for caching. Default: yes.
    pub prompt_cache: Option<bool>,
    /// Reasoning style of models whose name does not determine it.
    pub reasoning: Option<ReasoningStyle>,
    /// The output limit field of Chat Completions.
    pub max_tokens_field: Option<MaxTokensField>,
}

/// How a model's thinking is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningStyle {
    /// No reasoning; no field is sent.
    None,
    /// A budget in tokens.
    Budget,
    /// An effort level such as `low` or `high`.
    Effort,
}

/// The field that limits an answer on Chat Completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_tokens`, for compatible servers.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models require.
    MaxCompletionTokens,
}

/// A header whose value is not shown, because it may be a key.
#[derive(Clone)]
pub struct Header {
    name: String,
    value: SecretString,
}

impl Header {
    /// Creates a header with a masked value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: SecretString::from(value.into()),
        }
    }

    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.name, self.value.expose_secret())
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [set]", self.name)
    }
}
