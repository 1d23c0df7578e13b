//! A server that is reached over HTTP, through the host's egress service and its rules.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use windlass_core::bounds::{is_shallow_text, one_line};
use windlass_core::egress::{
    EgressBody, EgressError, EgressRequest, EgressRequestKind, EgressService, EgressStreamResponse,
};
use windlass_core::mcp::{McpScope, ScopedMcpServer};
use windlass_core::network_access::NetworkAccessList;

use super::rate_limit::RateLimit;
use super::stdio::MAX_MESSAGE;
use windlass_core::lock::lock;

const SESSION: &str = "mcp-session-id";
/// First pause between two streams that the client opens. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses, and the duration after which a stream no longer counts as a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// First and longest pause before the rest of an interrupted stream is requested; short, because a call may be waiting for it.
const FIRST_RESUME_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_RESUME_PAUSE: Duration = Duration::from_secs(4);

type TransportError = StreamableHttpError<EgressError>;
type SseEvents = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;

/// Sends the requests of one connection.
#[derive(Clone)]
pub(super) struct EgressClient {
    egress: Arc<dyn EgressService>,
    network_access: Option<NetworkAccessList>,
    rate_limit: Arc<RateLimit>,
    /// How long to wait for the start of an answer.
    silence: Duration,
    pace: Arc<Mutex<StreamPacing>>,
}

/// Pacing of streams: a server that ends each stream at once would otherwise keep the client busy.
#[derive(Default)]
struct StreamPacing {
    /// When the newest new stream was scheduled, and the pause after it.
    last: Option<(Instant, Duration)>,
    /// Number of resumed streams since one delivered an event.
    without_event: u32,
}

/// The kind of a stream.
#[derive(Debug, Clone, Copy)]
enum StreamOrigin {
    /// A new stream for the server's notifications.
    New,
    /// The rest of an interrupted stream.
    Resumed,
}

impl StreamPacing {
    /// Returns how long to wait from now on.
    fn wait(&mut self, origin: StreamOrigin, now: Instant) -> Duration {
        match origin {
            StreamOrigin::New => self.wait_for_new(now),
            StreamOrigin::Resumed => self.wait_for_resumed(),
        }
    }

    fn wait_for_new(&mut self, now: Instant) -> Duration {
        let (at, pause) = match self.last {
            Some((last, pause)) if now.saturating_duration_since(last) < LONGEST_PAUSE => {
                let next = pause.saturating_mul(2).min(LONGEST_PAUSE);
                ((last + pause).max(now), next)
            }
            _ => (now, FIRST_PAUSE),
        };
        self.last = Some((at, pause));
        at - now
    }

    /// Each caller waits independently: one call does not wait for another's.
    fn wait_for_resumed(&mut self) -> Duration {
        let wait = match self.without_event {
            0 => FIRST_RESUME_PAUSE,
            more => FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(more - 1)),
        };
        self.without_event = self.without_event.saturating_add(1);
        wait.min(LONGEST_RESUME_PAUSE)
    }

    /// Resets the pause, because a stream delivered an event.
    fn event_received(&mut self, origin: StreamOrigin) {
        match origin {
            StreamOrigin::New => self.last = self.last.map(|(at, _)| (at, FIRST_PAUSE)),
            StreamOrigin::Resumed => self.without_event = 0,
        }
    }
}

/// Creates the transport to a server.
pub(super) fn transport(
    egress: &Arc<dyn EgressService>,
    server: &ScopedMcpServer,
    scope: &McpScope,
    rate_limit: &Arc<RateLimit>,
    silence: Duration,
) -> Result<StreamableHttpClientTransport<EgressClient>, String> {
    let url = server.url.clone().ok_or("its `url` is missing")?;
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let wrong = || format!("its header `{}` cannot be sent", one_line(name));
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        headers.insert(name, value);
    }
    let client = EgressClient {
        egress: Arc::clone(egress),
        network_access: scope.network_access.clone(),
        rate_limit: Arc::clone(rate_limit),
        silence,
        pace: Arc::default(),
    };
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The parts of a request besides its method and address.
struct RequestParts {
    session_id: Option<Arc<str>>,
    auth: Option<String>,
    headers: HashMap<HeaderName, HeaderValue>,
    body: Vec<u8>,
}

impl EgressClient {
    async fn send(
        &self,
        method: &str,
        uri: &str,
        more: &[(&str, &str)],
        parts: RequestParts,
    ) -> Result<EgressStreamResponse, TransportError> {
        if let Some(why) = self.rate_limit.end_reason() {
            return Err(unexpected(why));
        }
        let mut headers = BTreeMap::from([(
            "accept".to_owned(),
            "application/json, text/event-stream".to_owned(),
        )]);
        for (name, value) in &parts.headers {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.insert(name.as_str().to_owned(), value);
        }
        if let Some(token) = parts.auth {
            headers.insert("authorization".to_owned(), format!("Bearer {token}"));
        }
        if let Some(session) = parts.session_id {
            headers.insert(SESSION.to_owned(), session.to_string());
        }
        for (name, value) in more {
            headers.insert((*name).to_owned(), (*value).to_owned());
        }
        let request = EgressRequest {
            headers,
            body: parts.body,
            kind: EgressRequestKind::Mcp,
            network_access: self.network_access.clone(),
            timeout_ms: u64::try_from(self.silence.as_millis()).ok(),
            ..EgressRequest::new(method, uri)
        };
        let sent = self.egress.send_stream(request).await;
        sent.map_err(StreamableHttpError::Client)
    }

    /// Reads the events of a stream; `origin` is set if the client opened it.
    fn events(&self, body: EgressBody, origin: Option<StreamOrigin>) -> SseEvents {
        let mut stream = EventStream::new(body, Arc::clone(&self.rate_limit));
        stream.pace = origin.map(|origin| (Arc::clone(&self.pace), origin));
        Box::pin(stream)
    }

    async fn read_body(&self, mut body: EgressBody) -> Result<Vec<u8>, TransportError> {
        let mut bytes = Vec::new();
        loop {
            let piece = tokio::select! {
                biased;
                () = self.rate_limit.ended() => {
                    return Err(unexpected(self.rate_limit.end_reason().unwrap_or_default()));
                }
                piece = std::future::poll_fn(|cx| body.as_mut().poll_next(cx)) => piece,
            };
            match piece {
                None => return Ok(bytes),
                Some(Err(error)) => return Err(StreamableHttpError::Client(error)),
                Some(Ok(piece)) => {
                    bytes.extend_from_slice(&piece);
                    if bytes.len() > MAX_MESSAGE || !self.rate_limit.take_bytes(piece.len()) {
                        return Err(unexpected("its answer is too long"));
                    }
                }
            }
        }
    }
}

fn unexpected(why: impl Into<String>) -> TransportError {
    StreamableHttpError::UnexpectedServerResponse(why.into().into())
}

fn header<'a>(response: &'a EgressStreamResponse, name: &str) -> Option<&'a str> {
    let mut headers = response.headers.iter();
    let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

fn has_content_type(response: &EgressStreamResponse, kind: &str) -> bool {
    header(response, "content-type").is_some_and(|it| it.trim_start().starts_with(kind))
}

impl StreamableHttpClient for EgressClient {
    type Error = EgressError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, TransportError> {
        let has_session = session_id.is_some();
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let parts = RequestParts {
            session_id,
            auth,
            headers,
            body: serde_json::to_vec(&message)?,
        };
        let json = [("content-type", "application/json")];
        let response = self.send("POST", &uri, &json, parts).await?;
        let session = header(&response, SESSION).map(str::to_owned);
        match response.status {
            202 | 204 => return Ok(StreamableHttpPostResponse::Accepted),
            404 if has_session => return Err(StreamableHttpError::SessionExpired),
            200..300 => {}
            status => {
                let is_json = has_content_type(&response, "application/json");
                let body = self.read_body(response.body).await.unwrap_or_default();
                if is_json
                    && !matches!(status, 401 | 403)
                    && let Some(message @ ServerJsonRpcMessage::Error(_)) = read(&body)
                {
                    return Ok(StreamableHttpPostResponse::Json(message, session));
                }
                return Err(status_error(status));
            }
        }
        if has_content_type(&response, "text/event-stream") {
            let events = self.events(response.body, None);
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        let is_json = has_content_type(&response, "application/json");
        let body = self.read_body(response.body).await?;
        match read(&body) {
            Some(message) if is_json && self.rate_limit.take_message(0) => {
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            _ if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(unexpected("its answer is not a valid message")),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), TransportError> {
        let parts = RequestParts {
            session_id: Some(session_id),
            auth,
            headers,
            body: Vec::new(),
        };
        let response = self.send("DELETE", &uri, &[], parts).await?;
        match response.status {
            200..300 | 404 | 405 => Ok(()),
            status => Err(status_error(status)),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<SseEvents, TransportError> {
        let parts = RequestParts {
            session_id,
            auth,
            headers,
            body: Vec::new(),
        };
        let last = last_event_id.as_deref().map(|id| ("last-event-id", id));
        let more: Vec<_> = last.into_iter().collect();
        let origin = if more.is_empty() {
            StreamOrigin::New
        } else {
            StreamOrigin::Resumed
        };
        let wait = lock(&self.pace).wait(origin, Instant::now());
        tokio::time::sleep(wait).await;
        let response = self.send("GET", &uri, &more, parts).await?;
        match response.status {
            405 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            200..300 if has_content_type(&response, "text/event-stream") => {
                Ok(self.events(response.body, Some(origin)))
            }
            200..300 => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(status_error(status)),
        }
    }
}

/// Returns the error for a status. Redirects are not followed: the address is the one in the configuration.
fn status_error(status: u16) -> TransportError {
    unexpected(match status {
        300..=399 => {
            format!(
                "it redirects (HTTP {status}), which is not followed; configure its final address"
            )
        }
        401 | 403 => format!("it requires authentication (HTTP {status}); configure a header"),
        status => format!("HTTP {status}"),
    })
}

fn read(body: &[u8]) -> Option<ServerJsonRpcMessage> {
    if is_shallow_text(body) {
        serde_json::from_slice(body).ok()
    } else {
        None
    }
}

/// The events of a stream, with limits for each event and for all of them. Each byte is examined once, however it is split.
struct EventStream {
    body: EgressBody,
    rate_limit: Arc<RateLimit>,
    /// Pacing to notify when an event arrives.
    pace: Option<(Arc<Mutex<StreamPacing>>, StreamOrigin)>,
    /// Ready when the connection has ended.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The current incomplete line.
    line: Vec<u8>,
    /// The current incomplete event.
    event: Sse,
    event_bytes: usize,
    ready: VecDeque<Sse>,
    is_over: bool,
}

/// The connection ended while a stream of events was read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct StreamEnded(String);

impl EventStream {
    fn new(body: EgressBody, rate_limit: Arc<RateLimit>) -> Self {
        let limit = Arc::clone(&rate_limit);
        Self {
            body,
            rate_limit,
            pace: None,
            ended: Box::pin(async move { limit.ended().await }),
            line: Vec::new(),
            event: Sse::default(),
            event_bytes: 0,
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// Processes a piece of the stream. Returns whether it is within the limits.
    fn take(&mut self, piece: &[u8]) -> bool {
        if !self.rate_limit.take_bytes(piece.len()) {
            return false;
        }
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.event_bytes += part.len();
            if self.event_bytes > MAX_MESSAGE {
                self.rate_limit.end("it sent a message that is too long");
                return false;
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") && !self.end_line() {
                return false;
            }
        }
        true
    }

    fn end_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            self.event_bytes = 0;
            let event = std::mem::take(&mut self.event);
            if event != Sse::default() {
                let has_data = event.data.as_ref().is_some_and(|data| !data.is_empty());
                if let (Some((pace, origin)), true) = (&self.pace, has_data) {
                    lock(pace).event_received(*origin);
                }
                self.ready.push_back(event);
                return self.rate_limit.take_message(0);
            }
            return true;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "event" => self.event.event = Some(value.to_owned()),
            "id" => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            _ => {}
        }
        true
    }
}

impl Stream for EventStream {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let failed = match self.body.as_mut().poll_next(cx) {
                Poll::Pending => match self.ended.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        StreamEnded(self.rate_limit.end_reason().unwrap_or_default())
                    }
                },
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Ok(piece))) if self.take(&piece) => continue,
                Poll::Ready(Some(Ok(_))) => {
                    StreamEnded(self.rate_limit.end_reason().unwrap_or_default())
                }
                Poll::Ready(Some(Err(error))) => StreamEnded(error.to_string()),
            };
            self.is_over = true;
            return Poll::Ready(Some(Err(SseError::Body(Box::new(failed)))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(pieces: &[&str]) -> Vec<Sse> {
        struct EmptyStream;
        impl Stream for EmptyStream {
            type Item = windlass_core::egress::EgressResult<Vec<u8>>;
            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(None)
            }
        }
        let mut stream = EventStream::new(Box::pin(EmptyStream), Arc::new(RateLimit::new()));
        for piece in pieces {
            assert!(stream.take(piece.as_bytes()));
        }
        stream.ready.into()
    }

    #[test]
    fn streams_that_end_at_once_are_opened_with_growing_pauses() {
        let mut now = Instant::now();
        let mut pace = StreamPacing::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let wait = pace.wait_for_new(now);
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        // A stream that lasted is opened again at once.
        now += LONGEST_PAUSE;
        assert_eq!(pace.wait_for_new(now), Duration::ZERO);
        assert_eq!(pace.wait_for_new(now), FIRST_PAUSE);
        // Concurrent waiters are served one after the other.
        assert_eq!(pace.wait_for_new(now), Duration::from_secs(3));
    }

    #[test]
    fn events_reset_pauses_and_resumed_streams_do_not_wait_for_new_ones() {
        let mut now = Instant::now();
        let mut paces = StreamPacing::default();
        for _ in 0..9 {
            now += paces.wait(StreamOrigin::New, now);
        }
        // The longest pause of new streams does not apply to resumed ones.
        let resumed: Vec<_> = (0..6)
            .map(|_| paces.wait(StreamOrigin::Resumed, now).as_millis())
            .collect();
        assert_eq!(resumed, [100, 1_000, 2_000, 4_000, 4_000, 4_000]);
        paces.event_received(StreamOrigin::Resumed);
        assert_eq!(paces.wait(StreamOrigin::Resumed, now), FIRST_RESUME_PAUSE);
        assert_eq!(paces.wait(StreamOrigin::New, now), LONGEST_PAUSE);
        now += LONGEST_PAUSE;
        paces.event_received(StreamOrigin::New);
        // A server that sends an event each time is paced too.
        for _ in 0..3 {
            assert_eq!(paces.wait(StreamOrigin::New, now), FIRST_PAUSE);
            now += FIRST_PAUSE;
            paces.event_received(StreamOrigin::New);
        }
    }

    #[test]
    fn events_are_parsed_however_they_are_split() {
        let stream = ": hello\nid: 7\nevent: message\ndata: a\ndata:b\r\n\r\n\ndata: c\nretry: 5\n\ndata: unfinished\n";
        let expected = events_of(&[stream]);
        assert_eq!(expected.len(), 2);
        assert_eq!(expected[0].data.as_deref(), Some("a\nb"));
        assert_eq!(expected[0].id.as_deref(), Some("7"));
        assert_eq!(
            (expected[1].data.as_deref(), expected[1].retry),
            (Some("c"), Some(5))
        );
        for cut in 0..stream.len() {
            assert_eq!(events_of(&[&stream[..cut], &stream[cut..]]), expected);
        }
    }
}
