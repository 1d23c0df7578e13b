//! JSON-RPC over standard input and output, one message per line, in both directions.

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use windlass_core::bounds::{one_line, shortened};
use windlass_core::json_rpc::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Message,
    MessageWriter, PARSE_ERROR, PendingCalls, Problem, Strictness,
};
use windlass_protocol::CallError;
use windlass_protocol::ErrorCode;

use crate::cli::error_text;

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 32 * 1024 * 1024;
/// Maximum length of a title that a client displays, in characters.
pub(crate) const MAX_TITLE: usize = 200;

/// Formats a text as one line of at most [`MAX_TITLE`] characters, and marks a cut with `…`.
pub(crate) fn title(text: &str) -> String {
    shortened(&one_line(text), MAX_TITLE)
}

/// The lines of standard input.
pub(crate) struct StdinLines(BufReader<tokio::io::Stdin>);

impl StdinLines {
    pub(crate) fn on_stdin() -> Self {
        Self(BufReader::new(tokio::io::stdin()))
    }

    /// Reads the next line that is not blank; `None` at the end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            let mut line = Vec::new();
            let mut bounded = (&mut self.0).take(MAX_LINE as u64 + 1);
            if bounded.read_until(b'\n', &mut line).await? == 0 {
                return Ok(None);
            }
            ensure!(
                line.len() <= MAX_LINE,
                "a line of the client is longer than {MAX_LINE} bytes"
            );
            let text = String::from_utf8_lossy(&line);
            if !text.trim().is_empty() {
                return Ok(Some(text.into_owned()));
            }
        }
    }
}

/// Parses a message of the client.
pub(crate) fn read(line: &str) -> Result<Message, RpcFailure> {
    let value = serde_json::from_str(line)
        .map_err(|error| RpcFailure::new(PARSE_ERROR, format!("the line is not JSON: {error}")))?;
    Message::read(value, Strictness::Lenient).map_err(|invalid| {
        let message = match invalid.problem {
            Problem::Id => "an ID must be a string or a number",
            _ => "a message must have a method or an ID",
        };
        RpcFailure::new(INVALID_REQUEST, message)
    })
}

/// The error response to a request.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct RpcFailure(ErrorObject);

impl RpcFailure {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self(ErrorObject::new(code, message))
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, message)
    }

    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))
    }

    /// Adds the stable code of the error.
    pub(crate) fn with_code(self, code: &str) -> Self {
        Self(self.0.with_data(json!({ "code": code })))
    }
}

impl From<CallError> for RpcFailure {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match error.code() {
            Some(ErrorCode::ThreadNotFound) => Self::new(-32002, message),
            Some(code) if code.status() < 500 => {
                Self::invalid_params(message).with_code(code.as_str())
            }
            Some(code) => Self::internal(message).with_code(code.as_str()),
            None => Self::internal(message),
        }
    }
}

impl From<anyhow::Error> for RpcFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(error_text(&error))
    }
}

/// The client: messages to it, and our requests that wait for its responses.
#[derive(Clone)]
pub(crate) struct Peer {
    lines: mpsc::UnboundedSender<OutgoingMessage>,
    pending: PendingCalls<Option<Value>>,
}

enum OutgoingMessage {
    Text(String),
    /// Reports that all earlier messages are written.
    Flush(oneshot::Sender<()>),
}

impl Peer {
    pub(crate) fn on_stdout() -> Self {
        let (lines, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(queue));
        Self {
            lines,
            pending: PendingCalls::starting_at(0),
        }
    }

    pub(crate) fn answer(&self, id: &Value, answer: Result<Value, RpcFailure>) {
        let outcome = answer.as_ref().map_err(|failure| &failure.0);
        self.send(MessageWriter::V2.response(id, outcome));
    }

    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.send(MessageWriter::V2.notification(method, Some(params)));
    }

    /// Sends a request and waits for its result; `None` if the client returns an error.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let call = self.pending.begin()?;
        self.send(MessageWriter::V2.request(&call.id().into(), method, params));
        call.outcome().await.flatten()
    }

    /// Resolves the request that a response of the client belongs to.
    pub(crate) fn resolve(&self, id: &Value, outcome: Result<Value, Value>) {
        if let Some(id) = id.as_u64() {
            self.pending.resolve(id, outcome.ok());
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn flushed(&self) {
        let (mark, written) = oneshot::channel();
        if self.lines.send(OutgoingMessage::Flush(mark)).is_ok() {
            let _ = written.await;
        }
    }

    fn send(&self, message: String) {
        // Sending fails when standard output is closed; then standard input ends too.
        let _ = self.lines.send(OutgoingMessage::Text(message));
    }
}

async fn write(mut queue: mpsc::UnboundedReceiver<OutgoingMessage>) {
    let mut out = tokio::io::stdout();
    while let Some(line) = queue.recv().await {
        match line {
            OutgoingMessage::Text(message) => {
                let line = message + "\n";
                if out.write_all(line.as_bytes()).await.is_err() || out.flush().await.is_err() {
                    return;
                }
            }
            OutgoingMessage::Flush(mark) => {
                let _ = mark.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_message_is_a_request_a_notification_or_a_response() {
        let request = read(r#"{"jsonrpc":"2.0","id":0,"method":"x","params":{"a":1}}"#);
        assert!(matches!(request, Ok(Message::Request { id, .. }) if id == 0));
        let notified = read(r#"{"jsonrpc":"2.0","method":"x"}"#);
        assert!(matches!(notified, Ok(Message::Notification { .. })));
        let refused = read(r#"{"id":7,"error":{"code":1,"message":"no"}}"#);
        assert!(matches!(
            refused,
            Ok(Message::Response {
                outcome: Err(_),
                ..
            })
        ));
        for odd in ["", "[]", "{}", "7", "nonsense"] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
