//! What an application can set about models and providers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use windlass_core::llm_driver_registry::ProviderType;

use crate::decode::{MAX_ANSWER_BYTES, MAX_LINE_BYTES};
use crate::prices::PriceTable;

/// Settings of all drivers.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// How connections are made.
    pub http: HttpSettings,
    /// How long to wait, where a provider has no deadlines of its own.
    pub deadlines: Deadlines,
    /// How long one event of an answer may be.
    pub max_line_bytes: usize,
    /// How long a whole answer may be.
    pub max_answer_bytes: usize,
    /// What models cost.
    pub prices: Arc<PriceTable>,
    /// Settings by provider.
    pub providers: HashMap<ProviderType, ProviderSettings>,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            http: HttpSettings::default(),
            deadlines: Deadlines::default(),
            max_line_bytes: MAX_LINE_BYTES,
            max_answer_bytes: MAX_ANSWER_BYTES,
            prices: PriceTable::built_in(),
            providers: HashMap::new(),
        }
    }
}

impl ModelSettings {
    /// Sets what is particular to one provider.
    #[must_use]
    pub fn with_provider(mut self, provider: ProviderType, settings: ProviderSettings) -> Self {
        self.providers.insert(provider, settings);
        self
    }
}

/// How connections are made. Nothing is read from the environment.
#[derive(Clone)]
pub struct HttpSettings {
    /// The proxy for all calls, as a URL. `Debug` does not show it, because it may hold a password.
    pub proxy: Option<String>,
    /// Certificates to trust beside those of the system, each a PEM bundle.
    pub ca_certificates: Vec<Vec<u8>>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// What is sent as `User-Agent`.
    pub user_agent: String,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            proxy: None,
            ca_certificates: Vec::new(),
            connect_timeout: Duration::from_secs(15),
            user_agent: concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
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

/// How long to wait for a provider. Each that runs out is a `stalled` error, which may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until the first byte of the answer.
    pub first_byte: Duration,
    /// From one byte to the next.
    pub silence: Duration,
    /// For the whole answer.
    pub total: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(300),
            silence: Duration::from_secs(120),
            total: Some(Duration::from_secs(3600)),
        }
    }
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

/// What is particular to one provider. Whatever is left out follows the provider's own documentation.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Where to call, when the model names no address.
    pub base_url: Option<String>,
    /// Headers for every call.
    pub headers: Vec<Header>,
    /// Parameters in the address of every call, such as `api-version`.
    pub query: Vec<(String, String)>,
    /// How the key is sent.
    pub key_place: Option<KeyPlace>,
    /// How many calls may run at once; the others wait.
    pub max_parallel_calls: Option<usize>,
    /// How long to wait.
    pub deadlines: Option<Deadlines>,
    /// How long an answer may get when the call does not say. Anthropic insists on a number.
    pub default_max_tokens: Option<u32>,
    /// Whether prompts are marked for caching. Default: yes.
    pub prompt_cache: Option<bool>,
    /// What the driver should believe about the model's way to reason, where its name does not tell.
    pub reasoning: Option<ReasoningStyle>,
    /// The field for the longest answer on Chat Completions.
    pub max_tokens_field: Option<MaxTokensField>,
}

/// How a model's thinking is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningStyle {
    /// It does not reason; nothing is sent about it.
    None,
    /// It is given a number of tokens.
    Budget,
    /// It is given a word such as `low` or `high`.
    Effort,
}

/// The field that limits an answer on Chat Completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_tokens`, which compatible servers know.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models insist on.
    MaxCompletionTokens,
}

/// A header whose value is not shown, because it may be a key.
#[derive(Clone)]
pub struct Header {
    name: String,
    value: SecretString,
}

impl Header {
    /// Makes a header.
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
