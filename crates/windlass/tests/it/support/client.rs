//! A client of a few lines: HTTP/1.0, one connection per request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where to ask, and with which token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
    pub(crate) token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        match self.body.as_str() {
            "" => Value::Null,
            body => serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")),
        }
    }

    #[track_caller]
    pub(crate) fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let code = body["error"]["code"].as_str();
        let no_code = || panic!("status {} without a code: {}", self.status, self.body);
        code.unwrap_or_else(no_code).to_owned()
    }
}

impl Client {
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            token: Some(token.to_owned()),
            ..self.clone()
        }
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = self.token.as_ref();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let media = match body {
            "" => "",
            _ => "content-type: application/json\r\n",
        };
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {}\r\n{media}{headers}{}content-length: {}\r\n\r\n{body}",
            self.address,
            token.unwrap_or_default(),
            body.len()
        )
        .unwrap();
        BufReader::new(stream)
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let mut stream = self.send(method, path, headers, body);
        let status = status(&mut stream);
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        Reply { status, body }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, "", &body.to_string())
    }

    /// Follows the events of a thread.
    pub(crate) fn events(&self, thread: &str, since: u64) -> Stream {
        self.follow(&format!("{thread}/events"), since)
    }

    /// Follows the events of a path with its query.
    pub(crate) fn follow(&self, path: &str, since: u64) -> Stream {
        let cursor = format!("last-event-id: {since}\r\n");
        let mut lines = self.send("GET", path, &cursor, "");
        assert_eq!(status(&mut lines), 200);
        Stream { lines }
    }
}

fn status(stream: &mut BufReader<TcpStream>) -> u16 {
    let mut first = String::new();
    stream.read_line(&mut first).unwrap();
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
    }
    status.unwrap_or_else(|| panic!("{first:?}"))
}

/// One numbered event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    pub(crate) event: String,
    pub(crate) data: Value,
}

/// The events of a thread as they come.
pub(crate) struct Stream {
    lines: BufReader<TcpStream>,
}

impl Stream {
    /// Waits for the next event; `None` when the connection ends.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        self.next_before("nothing that is ever said")
    }

    /// Returns the events that were recorded when the stream began.
    pub(crate) fn replay(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next_before(": caught-up")).collect()
    }

    /// Waits for the next event; `None` when a comment comes before it, or the connection ends.
    fn next_before(&mut self, comment: &str) -> Option<Frame> {
        let (mut seq, mut event) = (0, String::new());
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                // A process that was killed resets its connections; one that hangs must not look like that.
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    return None;
                }
            }
            let line = line.trim_end();
            if line.starts_with(comment) {
                return None;
            }
            if let Some(id) = line.strip_prefix("id: ") {
                seq = id.parse().unwrap();
            } else if let Some(name) = line.strip_prefix("event: ") {
                event = name.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).unwrap();
                return Some(Frame { seq, event, data });
            }
        }
    }

    /// Returns the events up to the first of a name, that one included.
    #[track_caller]
    pub(crate) fn until(&mut self, name: &str) -> Vec<Frame> {
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

    /// Returns what is left until the connection ends.
    pub(crate) fn rest(&mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
