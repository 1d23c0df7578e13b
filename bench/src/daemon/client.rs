//! A minimal client of the Runtime API.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client as Http, Response};
use serde_json::{Value, json};

use super::{Error, Result};

/// A client that reuses its connections.
#[derive(Clone)]
pub struct BenchClient {
    http: Http,
    base: String,
}

impl BenchClient {
    pub fn new(address: &str) -> Result<Self> {
        Self::with_headers(address, HeaderMap::new())
    }

    /// Creates a client with a token.
    pub fn with_token(address: &str, token: &str) -> Result<Self> {
        let bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
        Self::with_headers(address, HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
    }

    fn with_headers(address: &str, headers: HeaderMap) -> Result<Self> {
        Ok(Self {
            http: Http::builder()
                .no_proxy()
                .default_headers(headers)
                .build()?,
            base: format!("http://{address}/v1"),
        })
    }

    pub async fn health(&self) -> Result<()> {
        let path = format!("{}/../health", self.base);
        checked(self.http.get(path).send().await?).map(drop)
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let request = self.http.post(format!("{}{path}", self.base));
        let request = request.header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await?;
        Ok(serde_json::from_slice(&checked(answer)?.bytes().await?)?)
    }

    pub async fn get(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.http.get(format!("{}{path}", self.base)).send().await?;
        Ok(checked(answer)?.bytes().await?.to_vec())
    }

    /// Creates a thread and returns its ID.
    pub async fn thread(&self) -> Result<String> {
        self.thread_with(&json!({})).await
    }

    /// Creates a thread with the given body and returns its ID.
    pub async fn thread_with(&self, body: &Value) -> Result<String> {
        let thread = self.post("/threads", body).await?;
        let id = thread["id"].as_str().ok_or("a thread without an id")?;
        Ok(id.to_owned())
    }

    /// Forks a thread and returns the ID of the fork.
    pub async fn fork(&self, thread: &str) -> Result<String> {
        let path = format!("/threads/{thread}/fork");
        let fork = self.post(&path, &json!({})).await?;
        let id = fork["id"].as_str().ok_or("a fork without an id")?;
        Ok(id.to_owned())
    }

    pub async fn turn(&self, thread: &str, prompt: &str) -> Result<()> {
        let path = format!("/threads/{thread}/turns");
        self.post(&path, &json!({"prompt": prompt})).await.map(drop)
    }

    /// Follows the events of a thread from its beginning.
    pub async fn events(&self, thread: &str) -> Result<BenchEvents> {
        let path = format!("{}/threads/{thread}/events?since_seq=0", self.base);
        // One connection per stream, so that a stalled stream blocks no other.
        let answer = self.http.get(path).send().await?;
        Ok(BenchEvents {
            answer: checked(answer)?,
            bytes: Vec::new(),
            read: 0,
            searched: 0,
        })
    }
}

fn checked(answer: Response) -> Result<Response> {
    if answer.status().is_success() {
        Ok(answer)
    } else {
        Err(Error::from(format!(
            "{} answered {}",
            answer.url(),
            answer.status()
        )))
    }
}

/// One numbered event.
pub struct SseFrame {
    pub seq: u64,
    pub name: String,
    pub data: Value,
}

/// The events of a thread as they arrive.
pub struct BenchEvents {
    answer: Response,
    bytes: Vec<u8>,
    read: usize,
    searched: usize,
}

impl BenchEvents {
    /// Waits for the next numbered event.
    pub async fn next(&mut self) -> Result<SseFrame> {
        loop {
            while let Some(block) = self.next_block() {
                if let Some(frame) = parse(&block) {
                    return Ok(frame);
                }
            }
            let piece = self.answer.chunk().await?;
            self.bytes
                .extend_from_slice(&piece.ok_or("a stream of events ended")?);
        }
    }

    /// Reads the text before the next empty line.
    fn next_block(&mut self) -> Option<String> {
        let from = self.searched.max(self.read);
        let found = self.bytes[from..]
            .windows(2)
            .position(|pair| pair == b"\n\n");
        let Some(end) = found.map(|end| from + end) else {
            // A long event arrives in many chunks; only new bytes are searched.
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let block = String::from_utf8_lossy(&self.bytes[self.read..end]).into_owned();
        self.read = end + 2;
        if self.read == self.bytes.len() {
            self.bytes.clear();
            (self.read, self.searched) = (0, 0);
        }
        Some(block)
    }
}

fn parse(block: &str) -> Option<SseFrame> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    Some(SseFrame {
        seq: field("id: ")?.parse().ok()?,
        name: field("event: ")?.to_owned(),
        data: serde_json::from_str(field("data: ")?).ok()?,
    })
}
