//! A blocking client of the Runtime API over HTTP/1.0, one connection per request, for tests that kill the daemon.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one daemon.
#[derive(Debug, Clone)]
pub struct Client {
    /// The daemon's host and port.
    pub address: String,
    /// The bearer token.
    pub token: Option<String>,
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct ApiReply {
    /// The HTTP status.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

impl ApiReply {
    /// Returns the body as JSON; an empty body is `null`. Panics on another status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        match self.body.as_str() {
            "" => Value::Null,
            _ => self.json().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// Returns the code of an error response.
    #[track_caller]
    pub fn code(&self) -> String {
        let body = self.json().unwrap_or_default();
        let code = body["error"]["code"].as_str();
        let no_code = || panic!("status {} without a code: {}", self.status, self.body);
        code.unwrap_or_else(no_code).to_owned()
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.body).map_err(|error| format!("{error}: {}", self.body))
    }
}

impl Client {
    /// Returns a client of the same daemon with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!("{method} {path} HTTP/1.0\r\nhost: {}\r\n", self.address);
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let own = bearer
            .iter()
            .map(|bearer| ("authorization", bearer.as_str()));
        let media = (!body.is_empty()).then_some(("content-type", "application/json"));
        for (name, value) in own.chain(media).chain(headers.iter().copied()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len())?;
        Ok(BufReader::new(stream))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If there is no complete response, as when the daemon is killed.
    pub fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<ApiReply, String> {
        let read = || -> io::Result<(ResponseHead, String)> {
            let mut stream = self.send(method, path, headers, body)?;
            let head = ResponseHead::read(&mut stream)?;
            let mut body = String::new();
            stream.read_to_string(&mut body)?;
            Ok((head, body))
        };
        let lost = |why: String| format!("{method} {path}: {why}");
        let (ResponseHead { status, length }, body) =
            read().map_err(|error| lost(error.to_string()))?;
        if length.is_some_and(|length| length != body.len()) {
            return Err(lost("the response is incomplete".to_owned()));
        }
        Ok(ApiReply { status, body })
    }

    /// Sends a request and returns a successful response.
    ///
    /// # Errors
    /// If there is no complete response, or it is an error.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Result<ApiReply, String> {
        let reply = self.exchange(method, path, &[], body)?;
        match reply.status {
            200..300 => Ok(reply),
            _ => Err(format!("{method} {path} was answered with {reply:?}")),
        }
    }

    /// Returns the JSON of a successful response.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn try_get(&self, path: &str) -> Result<Value, String> {
        self.ask("GET", path, "")?.json()
    }

    /// Posts JSON and returns the JSON of a successful response.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", path, &body.to_string())?.json()
    }

    /// Sends a request; panics without a complete response.
    #[track_caller]
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ApiReply {
        let reply = self.exchange(method, path, headers, body);
        reply.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Gets a path; panics without a complete response.
    #[track_caller]
    pub fn get(&self, path: &str) -> ApiReply {
        self.request("GET", path, &[], "")
    }

    /// Posts JSON; panics without a complete response.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> ApiReply {
        self.request("POST", path, &[], &body.to_string())
    }

    /// Follows the events of a thread.
    #[track_caller]
    pub fn events(&self, thread: &str, since: u64) -> EventReader {
        self.follow(&format!("{thread}/events"), since)
    }

    /// Follows the events of a path with its query.
    #[track_caller]
    pub fn follow(&self, path: &str, since: u64) -> EventReader {
        let cursor = since.to_string();
        let open = || -> io::Result<(ResponseHead, BufReader<TcpStream>)> {
            let mut lines = self.send("GET", path, &[("last-event-id", &cursor)], "")?;
            Ok((ResponseHead::read(&mut lines)?, lines))
        };
        let (head, lines) = open().unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(head.status, 200, "{path}");
        EventReader { lines }
    }
}

/// The parts of a response's head that tests use.
struct ResponseHead {
    status: u16,
    length: Option<usize>,
}

impl ResponseHead {
    fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut length = None;
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        Ok(Self { status, length })
    }
}

/// One numbered event.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Sequence number in the thread.
    pub seq: u64,
    /// Name of the event.
    pub event: String,
    /// Envelope of the event as JSON.
    pub data: Value,
}

/// The events of a thread as they arrive.
pub struct EventReader {
    lines: BufReader<TcpStream>,
}

impl EventReader {
    /// Waits for the next event; `None` when the connection ends.
    #[expect(clippy::should_implement_trait, reason = "waits, and panics on a hang")]
    #[track_caller]
    pub fn next(&mut self) -> Option<Frame> {
        self.next_before(None)
    }

    /// Returns the events that were recorded before the stream started.
    #[track_caller]
    pub fn replay(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next_before(Some(": caught-up"))).collect()
    }

    /// Waits for the next event; `None` when the comment precedes it, or the connection ends.
    #[track_caller]
    fn next_before(&mut self, comment: Option<&str>) -> Option<Frame> {
        let (mut seq, mut event) = (0, String::new());
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                // A killed process resets its connections; a hang must fail instead.
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                    return None;
                }
            }
            let line = line.trim_end();
            if comment.is_some_and(|comment| line.starts_with(comment)) {
                return None;
            }
            if let Some(id) = line.strip_prefix("id: ") {
                seq = id.parse().unwrap_or_else(|_| panic!("{line}"));
            } else if let Some(name) = line.strip_prefix("event: ") {
                event = name.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data);
                let data = data.unwrap_or_else(|error| panic!("{error}: {line}"));
                return Some(Frame { seq, event, data });
            }
        }
    }

    /// Returns the events up to and including the first with a name.
    #[track_caller]
    pub fn until(&mut self, name: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let Some(frame) = self.next() else {
                panic!("the stream ended before `{name}`: {frames:#?}");
            };
            let is_last = frame.event == name;
            frames.push(frame);
            if is_last {
                return frames;
            }
        }
    }

    /// Returns the events until the connection ends.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
