//! The one way to the network for tools.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use crate::network_access::NetworkAccessList;

/// Why a request did not go out, or did not come back.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// Rules forbid the address.
    #[error("access to {url} is denied by the session's network rules")]
    Denied {
        /// The address.
        url: String,
    },
    /// Not http or https.
    #[error("only http and https can be requested, not {url}")]
    UnsupportedScheme {
        /// The address.
        url: String,
    },
    /// This host has no way out.
    #[error("this host offers no network; set an egress service on the platform")]
    Unavailable,
    /// Nothing came in time.
    #[error("the request to {url} took longer than {timeout_ms} ms")]
    Timeout {
        /// The address.
        url: String,
        /// The limit.
        timeout_ms: u64,
    },
    /// The connection failed.
    #[error("the request to {url} failed: {reason}")]
    Transport {
        /// The address.
        url: String,
        /// What went wrong.
        reason: String,
    },
}

/// The result of a request.
pub type EgressResult<T> = Result<T, EgressError>;
/// A body, piece by piece.
pub type EgressBody = Pin<Box<dyn Stream<Item = EgressResult<Vec<u8>>> + Send>>;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EgressRequestKind {
    /// A tool.
    #[default]
    Tool,
    /// An MCP client.
    Mcp,
    /// Anything else.
    Other,
}

/// A request of a tool. `Debug` shows the names of headers, not their values.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EgressRequest {
    /// The method.
    pub method: String,
    /// The address.
    pub url: String,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// Who asks.
    pub kind: EgressRequestKind,
    /// Where the asker may connect to.
    pub network_access: Option<NetworkAccessList>,
    /// How long it may take.
    pub timeout_ms: Option<u64>,
}

impl fmt::Debug for EgressRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl EgressRequest {
    /// Makes a request.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            ..Self::default()
        }
    }

    /// Refuses what no service may send: other schemes, and what the rules forbid.
    ///
    /// Every service calls this first, and again for each redirect that its caller follows.
    pub fn check(&self) -> EgressResult<()> {
        let url = || self.url.clone();
        let scheme = self
            .url
            .split_once(':')
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        if !matches!(scheme.as_deref(), Some("http" | "https")) {
            return Err(EgressError::UnsupportedScheme { url: url() });
        }
        match &self.network_access {
            Some(list) if !list.is_url_allowed(&self.url) => {
                Err(EgressError::Denied { url: url() })
            }
            _ => Ok(()),
        }
    }
}

/// An answer, whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer whose body streams.
pub struct EgressStreamResponse {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: EgressBody,
}

impl fmt::Debug for EgressStreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressStreamResponse")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Sends requests for tools. It does not follow redirects: each hop is a request of its own.
#[async_trait]
pub trait EgressService: Send + Sync {
    /// Sends a request and waits for the whole answer.
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse>;
    /// Sends a request and streams the answer.
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse>;
}

/// Stands where the host offers no network.
#[derive(Debug, Clone, Copy, Default)]
pub struct DisabledEgressService;

#[async_trait]
impl EgressService for DisabledEgressService {
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse> {
        request.check()?;
        Err(EgressError::Unavailable)
    }
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        request.check()?;
        Err(EgressError::Unavailable)
    }
}
