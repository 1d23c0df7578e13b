//! Network access of tools.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;
use windlass_macros::OpaqueDebug;

use crate::network_access::NetworkAccessList;

/// Why a request was not sent, or failed.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// Rules forbid the address.
    #[error("access to {url} is denied by the session's network rules")]
    Denied {
        /// The requested URL.
        url: String,
    },
    /// The rules forbid the address that the name resolves to.
    #[error("access to {url} is denied by the session's network rules: it resolves to {address}")]
    DeniedAddress {
        url: String,
        /// The resolved address.
        address: IpAddr,
    },
    #[error("only http and https can be requested, not {url}")]
    UnsupportedScheme {
        /// The requested URL.
        url: String,
    },
    /// The host has no network access.
    #[error("this host offers no network; set an egress service on the platform")]
    Unavailable,
    /// The response did not arrive in time.
    #[error("the request to {url} took longer than {timeout_ms} ms")]
    Timeout {
        /// The requested URL.
        url: String,
        timeout_ms: u64,
    },
    /// The connection failed.
    #[error("the request to {url} failed: {reason}")]
    Transport {
        /// The requested URL.
        url: String,
        reason: String,
    },
}

/// The result of a request.
pub type EgressResult<T> = Result<T, EgressError>;
/// A body, piece by piece.
pub type EgressBody = Pin<Box<dyn Stream<Item = EgressResult<Vec<u8>>> + Send>>;

/// The source of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EgressRequestKind {
    #[default]
    Tool,
    /// An MCP client.
    Mcp,
    Other,
}

/// A request of a tool. `Debug` shows the names of headers, not their values.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EgressRequest {
    pub method: String,
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub kind: EgressRequestKind,
    /// The hosts that the caller may connect to.
    pub network_access: Option<NetworkAccessList>,
    /// Timeout in milliseconds.
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

    /// Rejects requests that no service may send: unsupported schemes, and URLs that the rules forbid.
    ///
    /// Every service calls this first, and again for each redirect that its caller follows. It then calls [`Self::check_address`] for the address
    /// that it connects to.
    pub fn check(&self) -> EgressResult<()> {
        let url = || self.url.clone();
        let scheme = self.url.split_once(':').map(|(scheme, _)| scheme);
        let is_http = |scheme: &str| {
            ["http", "https"]
                .iter()
                .any(|it| scheme.eq_ignore_ascii_case(it))
        };
        if !scheme.is_some_and(is_http) {
            return Err(EgressError::UnsupportedScheme { url: url() });
        }
        match &self.network_access {
            Some(list) if !list.is_url_allowed(&self.url) || self.is_partly_blocked(None) => {
                Err(EgressError::Denied { url: url() })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the request opens a tunnel, whose traffic cannot be inspected.
    pub fn is_tunnel(&self) -> bool {
        self.method.eq_ignore_ascii_case("CONNECT")
    }

    fn is_partly_blocked(&self, address: Option<IpAddr>) -> bool {
        let list = self.network_access.as_ref();
        self.is_tunnel() && list.is_some_and(|list| list.blocks_part_of(&self.url, address))
    }

    /// Refuses an address that the rules forbid, even if they allow the URL.
    ///
    /// A service that resolves names calls this for each address before it connects. The owner of a name controls its address, so an allowed name
    /// must not lead into the private network.
    pub fn check_address(&self, address: IpAddr) -> EgressResult<()> {
        match &self.network_access {
            Some(list)
                if !list.is_address_allowed(&self.url, address)
                    || self.is_partly_blocked(Some(address)) =>
            {
                Err(EgressError::DeniedAddress {
                    url: self.url.clone(),
                    address,
                })
            }
            _ => Ok(()),
        }
    }
}

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EgressResponse {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// A response with a streamed body.
#[derive(OpaqueDebug)]
pub struct EgressStreamResponse {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: EgressBody,
}

/// Sends requests for tools. It does not follow redirects: each hop is a separate request.
#[async_trait]
pub trait EgressService: Send + Sync {
    /// Sends a request and waits for the complete response.
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse>;
    /// Sends a request and streams the response body.
    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse>;
}

/// The service of a host without network access: every request fails.
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

#[cfg(all(test, feature = "url-rules"))]
mod tests {
    use super::*;

    fn request(url: &str, list: Option<NetworkAccessList>) -> EgressRequest {
        EgressRequest {
            network_access: list,
            ..EgressRequest::new("GET", url)
        }
    }

    #[test]
    fn r69_request_is_checked_against_its_rules() {
        let list = || Some(NetworkAccessList::allow_only(["example.com"]));
        assert!(request("https://example.com/a", list()).check().is_ok());
        assert!(request("https://other.com/", None).check().is_ok());
        for (url, list) in [
            ("https://other.com/", list()),
            ("http://2130706433/", list()),
        ] {
            let refused = request(url, list).check();
            assert!(matches!(refused, Err(EgressError::Denied { url: named }) if named == url));
        }
        let refused = request("file:///etc/passwd", None).check();
        assert!(matches!(
            refused,
            Err(EgressError::UnsupportedScheme { .. })
        ));
    }

    #[test]
    fn tunnel_to_a_partly_blocked_host_is_denied() {
        let to = |method: &str, url: &str| EgressRequest {
            network_access: Some(NetworkAccessList::block([
                "https://api.example/private",
                "http://site.example/admin",
                "http://*.under.example:8080/x",
                "http://93.184.216.34/x",
            ])),
            ..EgressRequest::new(method, url)
        };
        let address = "93.184.216.34".parse().unwrap();
        for (url, is_open) in [
            ("https://api.example/", false),
            ("https://api.example:8443/", true),
            ("https://site.example:80/", false),
            ("https://site.example/", true),
            ("https://a.under.example:8080/", false),
            ("https://other.example/", true),
        ] {
            assert_eq!(to("CONNECT", url).check().is_ok(), is_open, "{url}");
            assert_eq!(to("connect", url).check().is_ok(), is_open, "{url}");
            assert!(to("GET", url).check().is_ok(), "{url}");
        }
        let by_name = "https://other.example:80/";
        assert!(to("CONNECT", by_name).check_address(address).is_err());
        assert!(to("GET", by_name).check_address(address).is_ok());
        let elsewhere = to("CONNECT", "https://other.example/");
        assert!(elsewhere.check_address(address).is_ok());
    }

    #[test]
    fn r69_name_that_resolves_to_a_private_or_blocked_address_is_denied() {
        let allow = |patterns: &[&str]| Some(NetworkAccessList::allow_only(patterns.to_vec()));
        let block = |patterns: &[&str]| Some(NetworkAccessList::block(patterns.to_vec()));
        for (url, list, address, is_fine) in [
            ("https://a.com/", allow(&["a.com"]), "93.184.216.34", true),
            ("https://a.com/", allow(&["a.com"]), "127.0.0.1", false),
            (
                "https://a.com/",
                allow(&["a.com"]),
                "169.254.169.254",
                false,
            ),
            (
                "https://a.com/",
                allow(&["a.com"]),
                "::ffff:10.0.0.1",
                false,
            ),
            (
                "https://a.com/",
                allow(&["a.com", "10.0.0.1"]),
                "10.0.0.1",
                true,
            ),
            (
                "https://a.com/",
                allow(&["a.com", "10.0.0.1:80"]),
                "10.0.0.1",
                false,
            ),
            ("https://a.com/", block(&["b.com"]), "192.168.0.1", false),
            ("https://a.com/", block(&["b.com"]), "93.184.216.34", true),
            (
                "https://a.com/",
                block(&["93.184.216.34"]),
                "93.184.216.34",
                false,
            ),
            (
                "http://127.0.0.1/",
                allow(&["127.0.0.1"]),
                "127.0.0.1",
                true,
            ),
            ("http://2130706433/", block(&["b.com"]), "127.0.0.1", true),
            ("https://a.com/", None, "127.0.0.1", true),
            ("https://a.com/", allow(&[]), "127.0.0.1", true),
        ] {
            let shown = format!("{url} {list:?} {address}");
            let request = request(url, list);
            let checked = request.check_address(address.parse().unwrap());
            assert_eq!(checked.is_ok(), is_fine, "{shown}");
        }
    }
}
