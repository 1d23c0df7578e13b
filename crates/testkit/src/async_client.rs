//! An asynchronous client of the Runtime API, one connection per request, for daemons in the process of the test.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where its daemon does not answer"
)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A client of one daemon.
#[derive(Debug, Clone)]
pub struct AsyncClient {
    /// The address of the daemon.
    pub address: SocketAddr,
    /// The bearer token.
    pub token: Option<String>,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
}

/// A complete response.
#[derive(Debug)]
pub struct HttpReply {
    /// The HTTP status.
    pub status: u16,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The undecoded body.
    pub body: Bytes,
}

impl HttpReply {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// Returns the code of an error response, and checks the shape of the body.
    #[track_caller]
    pub fn code(&self) -> String {
        let error = self.json()["error"].clone();
        assert_eq!(error["status"], self.status, "{error}");
        assert!(error["message"].is_string(), "{error}");
        error["code"].as_str().unwrap().to_owned()
    }

    /// Returns the body as JSON; an empty body is `null`. Panics on another status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?}", self.body);
        if self.body.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// Returns a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl AsyncClient {
    /// Returns a client that sends an additional header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Returns a client without a token.
    pub fn anonymous(&self) -> Self {
        Self {
            token: None,
            ..self.clone()
        }
    }

    /// Sends a request over a new connection.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    fn request(&self, method: &str, path: &str, body: Option<&str>) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", self.address.to_string());
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let has_type = self.headers.iter().any(|(name, _)| name == "content-type");
        if body.is_some() && !has_type {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(|body| Bytes::copy_from_slice(body.as_bytes()));
        request.body(Full::new(body.unwrap_or_default())).unwrap()
    }

    /// Sends a request with an unmodified body.
    #[track_caller]
    pub fn raw(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> impl Future<Output = HttpReply> + Send + use<> {
        let request = self.request(method, path, body);
        let client = self.clone();
        soon(async move {
            let response = client.send(request).await;
            let (head, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            HttpReply {
                status: head.status.as_u16(),
                headers: head.headers,
                body,
            }
        })
    }

    /// Gets a path.
    #[track_caller]
    pub fn get(&self, path: &str) -> impl Future<Output = HttpReply> + Send + use<> {
        self.raw("GET", path, None)
    }

    /// Sends a POST request with a JSON body.
    #[track_caller]
    pub fn post(&self, path: &str, body: Value) -> impl Future<Output = HttpReply> + Send + use<> {
        self.raw("POST", path, Some(&body.to_string()))
    }

    /// Sends a PATCH request with a JSON body.
    #[track_caller]
    pub fn patch(&self, path: &str, body: Value) -> impl Future<Output = HttpReply> + Send + use<> {
        self.raw("PATCH", path, Some(&body.to_string()))
    }

    /// Opens a stream of events.
    pub async fn stream(&self, path: &str) -> FrameStream {
        let request = self.request("GET", path, None);
        FrameStream::new(soon(self.send(request)).await)
    }

    /// Opens a stream with a body.
    pub async fn post_stream(&self, path: &str, body: Value) -> FrameStream {
        let request = self.request("POST", path, Some(&body.to_string()));
        FrameStream::new(soon(self.send(request)).await)
    }
}

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamFrame {
    /// The SSE ID: the event's sequence number.
    pub id: Option<u64>,
    /// Name of the event; empty if the frame has none.
    pub event: String,
    /// Payload as JSON.
    pub data: Value,
}

/// A stream of frames. Comments are collected separately.
pub struct FrameStream {
    /// The headers of the response.
    pub headers: HeaderMap,
    body: Incoming,
    buffer: Vec<u8>,
    ready: VecDeque<StreamFrame>,
    /// The comments so far.
    pub comments: Vec<String>,
    /// Every received block, unmodified.
    pub blocks: Vec<String>,
}

impl FrameStream {
    fn new(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        assert_eq!(head.status, 200);
        Self {
            headers: head.headers,
            body,
            buffer: Vec::new(),
            ready: VecDeque::new(),
            comments: Vec::new(),
            blocks: Vec::new(),
        }
    }

    fn take(&mut self, block: &str) {
        assert!(!block.contains('\r'), "{block:?}");
        self.blocks.push(block.to_owned());
        let mut frame = StreamFrame {
            id: None,
            event: String::new(),
            data: Value::Null,
        };
        for line in block.lines() {
            if let Some(comment) = line.strip_prefix(": ") {
                self.comments.push(comment.to_owned());
            } else if let Some(id) = line.strip_prefix("id: ") {
                frame.id = Some(id.parse().unwrap());
            } else if let Some(event) = line.strip_prefix("event: ") {
                frame.event = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                assert!(frame.data.is_null(), "one data line: {block}");
                frame.data = serde_json::from_str(data).unwrap();
            } else {
                assert!(line.starts_with("retry: "), "{line}");
            }
        }
        if !frame.event.is_empty() {
            self.ready.push_back(frame);
        }
    }

    /// Reads more from the socket; `false` at its end.
    async fn read(&mut self) -> bool {
        let Some(Ok(frame)) = soon(self.body.frame()).await else {
            return false;
        };
        // Earlier bytes were already searched; a long frame arrives in many chunks.
        let mut searched = self.buffer.len().saturating_sub(1);
        if let Some(data) = frame.data_ref() {
            self.buffer.extend_from_slice(data);
        }
        while let Some(end) = self.buffer[searched..]
            .windows(2)
            .position(|pair| pair == b"\n\n")
        {
            let block = self.buffer.drain(..searched + end + 2).collect();
            searched = 0;
            let block = String::from_utf8(block).unwrap();
            self.take(block.trim_end_matches('\n'));
        }
        true
    }

    /// Waits for the next frame; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<StreamFrame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if !self.read().await {
                return None;
            }
        }
    }

    /// Returns the frames up to and including the first with a name.
    pub async fn until(&mut self, event: &str) -> Vec<StreamFrame> {
        let mut frames = Vec::new();
        loop {
            let Some(frame) = self.next().await else {
                panic!("the stream ended before `{event}`: {frames:#?}");
            };
            let is_last = frame.event == event;
            frames.push(frame);
            if is_last {
                return frames;
            }
        }
    }

    /// Waits for a comment with this prefix.
    pub async fn until_comment(&mut self, words: &str) -> String {
        loop {
            let found = self
                .comments
                .iter()
                .find(|comment| comment.starts_with(words));
            if let Some(found) = found {
                return found.clone();
            }
            assert!(self.read().await, "the stream ended before `{words}`");
        }
    }

    /// Returns all frames to the end of the stream.
    pub async fn rest(&mut self) -> Vec<StreamFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}

/// Waits for what should happen soon. The bound only turns a hang into a failure.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(Duration::from_secs(20), future).await {
            Ok(output) => output,
            Err(_) => panic!("nothing happened at {place}"),
        }
    }
}
