//! Network access: a name is resolved once, all its addresses are checked, and the connection uses one of them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Method, Response};
use url::{Host, Url};
use windlass_core::egress::{
    EgressError, EgressRequest, EgressRequestKind, EgressResponse, EgressResult, EgressService,
    EgressStreamResponse,
};
use windlass_core::network_access::is_private_address;
use windlass_core::setters;
use windlass_macros::OpaqueDebug;

use super::rules::WebRules;

/// Default timeout of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an answer that is read completely.
const MAX_WHOLE_BYTES: usize = 16 * 1024 * 1024;

/// Resolves names to addresses.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Sends requests of tools to the public internet, and to hosts and networks that the operator opens.
///
/// A name is resolved once, and the connection uses the addresses that were checked: a second lookup could return others. One private address among
/// them is enough to refuse the name. No state is shared: no redirects are followed, and cookies, the host's proxy settings and connections of other
/// requests are not used.
#[derive(OpaqueDebug, Clone)]
pub struct WebEgress {
    rules: Arc<WebRules>,
    resolver: Arc<dyn Resolver>,
    certificates: Vec<Certificate>,
    default_timeout: Duration,
}

impl WebEgress {
    /// Applies the operator's rules, in addition to those of each request.
    #[must_use]
    pub fn new(rules: Arc<WebRules>) -> Self {
        Self {
            rules,
            resolver: Arc::new(SystemResolver),
            certificates: Vec::new(),
            default_timeout: DEFAULT_TIMEOUT,
        }
    }

    setters! {
        /// Replaces the system's resolver.
        with_resolver(Arc<dyn Resolver>) |builder, resolver| builder.resolver = resolver;
        /// Sets the timeout of requests that specify none; the default is one minute.
        with_default_timeout(Duration) |builder, timeout| builder.default_timeout = timeout;
    }

    /// Trusts the certificates of a PEM file in addition to the system's.
    ///
    /// # Errors
    /// If it contains no certificates.
    pub fn with_certificates(mut self, pem: &[u8]) -> Result<Self, String> {
        let read = Certificate::from_pem_bundle(pem);
        self.certificates
            .extend(read.map_err(|error| format!("a certificate cannot be read: {error}"))?);
        Ok(self)
    }

    /// Returns the addresses that a request may connect to by all rules, for callers with another transport.
    pub(crate) async fn addresses(
        &self,
        request: &EgressRequest,
        url: &Url,
    ) -> EgressResult<Vec<IpAddr>> {
        request.check()?;
        self.checked_addresses(request, url).await
    }

    /// Resolves the target of a request, and refuses it if any address is not allowed.
    async fn checked_addresses(
        &self,
        request: &EgressRequest,
        url: &Url,
    ) -> EgressResult<Vec<IpAddr>> {
        let is_tunnel = request.is_tunnel();
        let denies_tunnel =
            |address: Option<IpAddr>| is_tunnel && self.rules.denies_part_of(url, address);
        if self.rules.denies(url) || denies_tunnel(None) {
            return Err(EgressError::Denied {
                url: request.url.clone(),
            });
        }
        let found = match url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            Some(Host::Domain(name)) => self
                .resolver
                .resolve(name)
                .await
                .map_err(|error| failed(request, error.to_string()))?,
            None => Vec::new(),
        };
        if found.is_empty() {
            return Err(failed(request, "its host has no address"));
        }
        for address in &found {
            request.check_address(*address)?;
            let is_private = is_private_address(*address) && !self.rules.opens(url, *address);
            let is_denied = self.rules.denies_address(url, *address);
            if is_private || is_denied || denies_tunnel(Some(*address)) {
                return Err(EgressError::DeniedAddress {
                    url: request.url.clone(),
                    address: *address,
                });
            }
        }
        Ok(found)
    }

    fn client(&self, url: &Url, addresses: Vec<IpAddr>) -> reqwest::Result<Client> {
        let builder = match url.scheme() {
            "https" => self.certificates.iter().fold(
                ClientBuilder::new(),
                |builder: ClientBuilder, certificate| {
                    builder.tls_certs_merge([certificate.clone()])
                },
            ),
            // Also works if the system has no certificates.
            _ => ClientBuilder::new().tls_certs_only([]),
        };
        builder
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(PinnedResolver(addresses)))
            .build()
    }

    async fn answer(&self, request: &EgressRequest, limit: Duration) -> EgressResult<Response> {
        request.check()?;
        let url = Url::parse(&request.url).map_err(|error| failed(request, error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::Transport {
                url: url.host_str().unwrap_or_default().to_owned(),
                reason: "credentials in an address are not sent".to_owned(),
            });
        }
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|error| failed(request, error.to_string()))?;
        let addresses = self.checked_addresses(request, &url).await?;
        // Loading the system's certificates blocks on disk I/O.
        let (own, of) = (self.clone(), url.clone());
        let client = tokio::task::spawn_blocking(move || own.client(&of, addresses)).await;
        let client = client.map_err(|error| failed(request, error.to_string()))?;
        let client = client.map_err(|error| failed(request, reason(&error)))?;
        let mut builder = client.request(method, url);
        // An MCP stream lasts until its reader ends it, so only the wait for its start has a timeout, which the caller sets.
        if request.kind != EgressRequestKind::Mcp {
            builder = builder.timeout(limit);
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let sent = builder.body(request.body.clone()).send().await;
        sent.map_err(|error| transport(request, limit, &error))
    }
}

/// A resolver that returns only the checked addresses.
struct PinnedResolver(Vec<IpAddr>);

impl Resolve for PinnedResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        // Port 0 means the port of the URL.
        let addresses: Vec<_> = self.0.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        let addresses: Addrs = Box::new(addresses.into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

fn failed(request: &EgressRequest, reason: impl Into<String>) -> EgressError {
    EgressError::Transport {
        url: request.url.clone(),
        reason: reason.into(),
    }
}

fn transport(request: &EgressRequest, limit: Duration, error: &reqwest::Error) -> EgressError {
    if error.is_timeout() {
        timed_out(request, limit)
    } else {
        failed(request, reason(error))
    }
}

fn timed_out(request: &EgressRequest, limit: Duration) -> EgressError {
    EgressError::Timeout {
        url: request.url.clone(),
        timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Returns the innermost cause, which is the most specific.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A body that converts errors to those of the egress service.
struct ResponseBody {
    pieces: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    request: EgressRequest,
    limit: Duration,
}

impl Stream for ResponseBody {
    type Item = EgressResult<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = self.pieces.as_mut().poll_next(cx);
        piece.map(|piece| {
            let piece = piece?.map(Vec::from);
            Some(piece.map_err(|error| transport(&self.request, self.limit, &error)))
        })
    }
}

#[async_trait]
impl EgressService for WebEgress {
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse> {
        let refused = failed(&request, "the answer is too large");
        let mut streamed = self.send_stream(request).await?;
        let mut body = Vec::new();
        while let Some(piece) = next(&mut streamed).await {
            body.extend(piece?);
            if body.len() > MAX_WHOLE_BYTES {
                return Err(refused);
            }
        }
        Ok(EgressResponse {
            status: streamed.status,
            headers: streamed.headers,
            body,
        })
    }

    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        let limit = request
            .timeout_ms
            .map_or(self.default_timeout, Duration::from_millis);
        let answer = tokio::time::timeout(limit, self.answer(&request, limit)).await;
        let response = answer.unwrap_or_else(|_| Err(timed_out(&request, limit)))?;
        let headers = response.headers().iter();
        let headers: BTreeMap<_, _> = headers
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.as_str().to_owned(), value.into_owned())
            })
            .collect();
        Ok(EgressStreamResponse {
            status: response.status().as_u16(),
            headers,
            body: Box::pin(ResponseBody {
                pieces: Box::pin(response.bytes_stream()),
                request,
                limit,
            }),
        })
    }
}

/// Returns the next piece of a body.
pub(super) async fn next(response: &mut EgressStreamResponse) -> Option<EgressResult<Vec<u8>>> {
    std::future::poll_fn(|cx| response.body.as_mut().poll_next(cx)).await
}
