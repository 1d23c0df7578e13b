//! The way to the network of a host that has no other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use windlass_core::egress::{
    EgressError, EgressRequest, EgressResponse, EgressResult, EgressService, EgressStreamResponse,
};

/// How long it may take until a connection stands.
const CONNECT: Duration = Duration::from_secs(15);
/// How many bytes an answer may have that is waited for as a whole.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Sends requests over HTTP. It follows no redirect and takes no proxy from the environment. Where a request has rules, the addresses
/// behind its name are checked before anything is connected to.
#[derive(Debug, Clone)]
pub struct HttpEgress {
    client: Client,
}

impl HttpEgress {
    /// Makes one.
    ///
    /// # Errors
    /// If there is no TLS to be had.
    pub fn new() -> Result<Self, EgressError> {
        let client = builder().build().map_err(|error| failed("", &error))?;
        Ok(Self { client })
    }

    /// Returns who connects for a request: only to addresses that its rules allow, and by no connection of others.
    async fn client_for(&self, request: &EgressRequest) -> EgressResult<Client> {
        if request.network_access.is_none() {
            return Ok(self.client.clone());
        }
        let transport = |reason: String| EgressError::Transport {
            url: request.url.clone(),
            reason,
        };
        let url =
            reqwest::Url::parse(&request.url).map_err(|error| transport(error.to_string()))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or(80);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((bare, port)).await;
        let found: Vec<SocketAddr> = found
            .map_err(|error| transport(error.to_string()))?
            .collect();
        for address in &found {
            request.check_address(address.ip())?;
        }
        let made = builder()
            .pool_max_idle_per_host(0)
            .resolve_to_addrs(&host, &found)
            .build();
        made.map_err(|error| failed(&request.url, &error))
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
}

fn failed(url: &str, error: &reqwest::Error) -> EgressError {
    // Its own words name the address with everything in it; the cause says enough.
    let mut reason = String::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        reason = inner.to_string();
        cause = inner.source();
    }
    if reason.is_empty() {
        reason = "the request cannot be sent".to_owned();
    }
    EgressError::Transport {
        url: url.to_owned(),
        reason,
    }
}

#[async_trait]
impl EgressService for HttpEgress {
    async fn send(&self, request: EgressRequest) -> EgressResult<EgressResponse> {
        let (url, timeout_ms) = (request.url.clone(), request.timeout_ms);
        let sending = async {
            let answer = self.send_stream(request).await?;
            let (mut body, mut whole) = (answer.body, Vec::new());
            while let Some(piece) = std::future::poll_fn(|cx| body.as_mut().poll_next(cx)).await {
                whole.extend(piece?);
                if whole.len() > MAX_BODY {
                    return Err(EgressError::Transport {
                        url: url.clone(),
                        reason: format!("the answer has more than {MAX_BODY} bytes"),
                    });
                }
            }
            Ok(EgressResponse {
                status: answer.status,
                headers: answer.headers,
                body: whole,
            })
        };
        match timeout_ms {
            None => sending.await,
            Some(timeout_ms) => {
                let limit = Duration::from_millis(timeout_ms);
                let sent = tokio::time::timeout(limit, sending).await;
                sent.unwrap_or(Err(EgressError::Timeout {
                    url: url.clone(),
                    timeout_ms,
                }))
            }
        }
    }

    async fn send_stream(&self, request: EgressRequest) -> EgressResult<EgressStreamResponse> {
        request.check()?;
        let client = self.client_for(&request).await?;
        let url = request.url.clone();
        let method = reqwest::Method::from_bytes(request.method.as_bytes());
        let method = method.map_err(|error| EgressError::Transport {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        let mut asking = client.request(method, &request.url).body(request.body);
        for (name, value) in &request.headers {
            asking = asking.header(name, value);
        }
        let answer = asking.send().await.map_err(|error| failed(&url, &error))?;
        let mut headers = BTreeMap::new();
        for (name, value) in answer.headers() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.insert(name.as_str().to_owned(), value);
        }
        Ok(EgressStreamResponse {
            status: answer.status().as_u16(),
            headers,
            body: Box::pin(Body {
                url,
                bytes: Box::pin(answer.bytes_stream()),
            }),
        })
    }
}

type Pieces = Pin<Box<dyn Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>;

/// An answer, piece by piece.
struct Body {
    url: String,
    bytes: Pieces,
}

impl Stream for Body {
    type Item = EgressResult<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.bytes.as_mut().poll_next(cx).map(|piece| match piece? {
            Ok(bytes) => Some(Ok(bytes.to_vec())),
            Err(error) => Some(Err(failed(&self.url, &error))),
        })
    }
}
