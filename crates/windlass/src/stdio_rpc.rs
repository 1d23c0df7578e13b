//! JSON-RPC over standard input and output, a message per line, in both directions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use windlass_protocol::CallError;
use windlass_protocol::ErrorCode;

/// How long a line may be.
const MAX_LINE: usize = 32 * 1024 * 1024;

/// What comes on standard input.
pub(crate) struct Lines(BufReader<tokio::io::Stdin>);

impl Lines {
    pub(crate) fn on_stdin() -> Self {
        Self(BufReader::new(tokio::io::stdin()))
    }

    /// Reads the next line that says something; `None` at the end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            let mut line = Vec::new();
            loop {
                let piece = self.0.fill_buf().await?;
                if piece.is_empty() {
                    break;
                }
                let end = piece.iter().position(|byte| *byte == b'\n');
                let taken = end.map_or(piece.len(), |end| end + 1);
                line.extend_from_slice(&piece[..taken]);
                self.0.consume(taken);
                ensure!(
                    line.len() <= MAX_LINE,
                    "a line of the client is longer than {MAX_LINE} bytes"
                );
                if end.is_some() {
                    break;
                }
            }
            if line.is_empty() {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                return Ok(Some(text.into_owned()));
            }
        }
    }
}

/// What the client says.
pub(crate) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours; `None` when the client could not do it.
    Answer {
        id: Value,
        answer: Option<Value>,
    },
}

impl Incoming {
    pub(crate) fn read(line: &str) -> Result<Self, Failure> {
        let mut message: Value = serde_json::from_str(line)
            .map_err(|error| Failure::new(-32700, format!("this is no JSON: {error}")))?;
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        // A list has no names, and one that is asked for them panics.
        let params = message.get_mut("params").map_or(Value::Null, Value::take);
        let method = message["method"].as_str().map(str::to_owned);
        match (method, id) {
            (Some(method), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(method), None) => Ok(Self::Notification { method, params }),
            (None, Some(id)) => Ok(Self::Answer {
                id,
                answer: message.get_mut("result").map(Value::take),
            }),
            (None, None) => Err(Failure::new(-32600, "a message has a method or an id")),
        }
    }
}

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format!("there is no method `{method}`"))
    }

    /// Adds the stable name of what went wrong.
    pub(crate) fn with_code(mut self, code: &str) -> Self {
        self.data = Some(json!({ "code": code }));
        self
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error.code() {
            Some(ErrorCode::ThreadNotFound) => Self::new(-32002, message),
            Some(code) if code.status() < 500 => Self::bad(message).with_code(code.as_str()),
            Some(code) => Self::internal(message).with_code(code.as_str()),
            None => Self::internal(message),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(format!("{error:#}"))
    }
}

/// A question that waits for its answer.
struct Open<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.peer.open().remove(&self.id);
    }
}

/// The client: what is written to it, and what it was asked.
#[derive(Clone)]
pub(crate) struct Peer {
    lines: mpsc::UnboundedSender<Line>,
    asked: Arc<Mutex<HashMap<u64, oneshot::Sender<Option<Value>>>>>,
    next: Arc<AtomicU64>,
}

enum Line {
    Message(Value),
    /// Tells when everything before it is written.
    Mark(oneshot::Sender<()>),
}

impl Peer {
    pub(crate) fn on_stdout() -> Self {
        let (lines, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(queue));
        Self {
            lines,
            asked: Arc::default(),
            next: Arc::default(),
        }
    }

    pub(crate) fn answer(&self, id: Value, answer: Result<Value, Failure>) {
        let message = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(failure) => {
                let mut error = json!({ "code": failure.code, "message": failure.message });
                if let Some(data) = failure.data {
                    error["data"] = data;
                }
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        self.say(message);
    }

    /// Tells the client something.
    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.say(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Asks the client something; `None` when it cannot say.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.open().insert(id, answer);
        // Whoever stops waiting for the answer leaves nothing behind.
        let _open = Open { peer: self, id };
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        answered.await.ok().flatten()
    }

    pub(crate) fn answered(&self, id: &Value, answer: Option<Value>) {
        let asked = id.as_u64().and_then(|id| self.open().remove(&id));
        if let Some(asked) = asked {
            let _ = asked.send(answer);
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn flushed(&self) {
        let (mark, written) = oneshot::channel();
        if self.lines.send(Line::Mark(mark)).is_ok() {
            let _ = written.await;
        }
    }

    fn say(&self, message: Value) {
        // Nobody reads any more when this fails; the end of standard input says so too.
        let _ = self.lines.send(Line::Message(message));
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Option<Value>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(mut queue: mpsc::UnboundedReceiver<Line>) {
    let mut out = tokio::io::stdout();
    while let Some(line) = queue.recv().await {
        match line {
            Line::Message(message) => {
                let text = format!("{message}\n");
                if out.write_all(text.as_bytes()).await.is_err() || out.flush().await.is_err() {
                    return;
                }
            }
            Line::Mark(mark) => {
                let _ = mark.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_told_apart_by_method_and_id() {
        let request = Incoming::read(r#"{"jsonrpc":"2.0","id":0,"method":"x","params":{"a":1}}"#);
        assert!(matches!(request, Ok(Incoming::Request { id, .. }) if id == 0));
        let told = Incoming::read(r#"{"jsonrpc":"2.0","method":"x"}"#);
        assert!(matches!(told, Ok(Incoming::Notification { .. })));
        let refused = Incoming::read(r#"{"id":7,"error":{"code":1,"message":"no"}}"#);
        assert!(matches!(refused, Ok(Incoming::Answer { answer: None, .. })));
        for odd in ["", "[]", "{}", "7", "nonsense"] {
            assert!(Incoming::read(odd).is_err(), "{odd}");
        }
    }
}
