//! JSON-RPC 2.0 messages: reading, writing, and matching responses to requests. No transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use windlass_macros::omit_none;

use crate::lock::lock;

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The message is neither a request nor a response.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// A parameter is missing or wrong.
pub const INVALID_PARAMS: i64 = -32602;
/// The request failed for a reason of the server's own.
pub const INTERNAL_ERROR: i64 = -32603;

/// An error object.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorObject {
    /// A standard code of this module, or one of the protocol.
    pub code: i64,
    /// Further fields for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// A sentence for people.
    pub message: String,
}

impl ErrorObject {
    /// Makes an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            data: None,
            message: message.into(),
        }
    }

    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

impl From<&Value> for ErrorObject {
    /// Reads an error of the other side; a field that is missing or wrong is 0 or empty.
    fn from(error: &Value) -> Self {
        let message = error.get("message").and_then(Value::as_str);
        Self {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            data: error.get("data").cloned(),
            message: message.unwrap_or_default().to_owned(),
        }
    }
}

/// A message of the other side.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A call that expects a response with the same id.
    Request {
        /// A string or a number; null only if [strict](Strictness::Strict).
        id: Value,
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// A call without a response.
    Notification {
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// The response to one of our requests.
    Response {
        /// The id of the request.
        id: Value,
        /// The result, or the error as received.
        outcome: Result<Value, Value>,
    },
}

/// How strictly a message is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// The version is required, and a null id is an id.
    Strict,
    /// The version may be missing, as in Codex's messages, and a null id is none.
    Lenient,
}

/// Why a value is not a message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{problem}")]
pub struct InvalidMessage {
    /// The id for the error response; null if there is none.
    pub id: Value,
    pub problem: Problem,
}

/// The problem of an invalid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is a list of messages.
    #[error("batches are not supported; send one request in each frame")]
    Batch,
    /// It is not an object.
    #[error("a frame must be a JSON object")]
    NoObject,
    /// Its id is an object, a list or a boolean.
    #[error("`id` must be a string, a number or null")]
    Id,
    /// It is of another version.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// Its method is not a string.
    #[error("`method` must be a string")]
    Method,
    /// It has no method, no result and no error.
    #[error("`method` is missing")]
    NoMethod,
}

impl Message {
    /// Reads a message.
    pub fn read(value: Value, strictness: Strictness) -> Result<Self, InvalidMessage> {
        let invalid = |id: &Option<Value>, problem| InvalidMessage {
            id: id.clone().unwrap_or(Value::Null),
            problem,
        };
        let mut fields = match value {
            Value::Object(fields) => fields,
            Value::Array(_) => return Err(invalid(&None, Problem::Batch)),
            _ => return Err(invalid(&None, Problem::NoObject)),
        };
        let id = match fields.remove("id") {
            Some(Value::Null) if strictness == Strictness::Lenient => None,
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(invalid(&None, Problem::Id));
            }
            id => id,
        };
        if strictness == Strictness::Strict && fields.get("jsonrpc").is_none_or(|it| it != "2.0") {
            return Err(invalid(&id, Problem::Version));
        }
        let error = fields.remove("error").filter(|error| !error.is_null());
        match fields.remove("method") {
            Some(Value::String(method)) => {
                let params = fields.remove("params").unwrap_or(Value::Null);
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            Some(_) => Err(invalid(&id, Problem::Method)),
            None => {
                let outcome = match (error, fields.remove("result")) {
                    (Some(error), _) => Err(error),
                    (None, Some(result)) => Ok(result),
                    (None, None) => return Err(invalid(&id, Problem::NoMethod)),
                };
                let id = id.unwrap_or(Value::Null);
                Ok(Self::Response { id, outcome })
            }
        }
    }
}

/// A message to the other side. It is serialized from references: a response may be long.
#[omit_none]
#[derive(Default, Serialize)]
struct Outgoing<'a> {
    jsonrpc: Option<&'static str>,
    method: Option<&'a str>,
    params: Option<&'a Value>,
    result: Option<&'a Value>,
    error: Option<&'a ErrorObject>,
    id: Option<&'a Value>,
}

/// Writes messages as one line of JSON each, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageWriter {
    version: Option<&'static str>,
}

impl MessageWriter {
    pub const V2: Self = Self {
        version: Some("2.0"),
    };
    /// Without the version, as Codex writes it.
    pub const BARE: Self = Self { version: None };

    /// Writes a request.
    #[must_use]
    pub fn request(self, id: &Value, method: &str, params: &Value) -> String {
        self.text(Outgoing {
            method: Some(method),
            params: Some(params),
            id: Some(id),
            ..Outgoing::default()
        })
    }

    /// Writes a notification.
    #[must_use]
    pub fn notification(self, method: &str, params: Option<&Value>) -> String {
        self.text(Outgoing {
            method: Some(method),
            params,
            ..Outgoing::default()
        })
    }

    /// Writes the response to a request.
    #[must_use]
    pub fn response(self, id: &Value, outcome: Result<&Value, &ErrorObject>) -> String {
        self.text(Outgoing {
            result: outcome.ok(),
            error: outcome.err(),
            id: Some(id),
            ..Outgoing::default()
        })
    }

    fn text(self, message: Outgoing<'_>) -> String {
        let message = Outgoing {
            jsonrpc: self.version,
            ..message
        };
        // Strings, numbers and values are always serializable.
        serde_json::to_string(&message).unwrap_or_default()
    }
}

/// Our open requests by number, each with a value of the caller.
#[derive(Debug)]
pub struct OpenRequests<P> {
    next: u64,
    open: HashMap<u64, P>,
}

impl<P> OpenRequests<P> {
    /// Creates an empty set; the first request gets the number `next`.
    #[must_use]
    pub fn starting_at(next: u64) -> Self {
        Self {
            next,
            open: HashMap::new(),
        }
    }

    /// Adds a request and returns its number.
    pub fn insert(&mut self, value: P) -> u64 {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, value);
        id
    }

    /// Removes a request; `None` if there is none of this number.
    pub fn remove(&mut self, id: u64) -> Option<P> {
        self.open.remove(&id)
    }
}

/// `None` once the connection is lost.
type Callers<T> = Arc<Mutex<Option<OpenRequests<oneshot::Sender<T>>>>>;

/// Our requests whose callers wait for the outcome; clones share them.
#[derive(Debug)]
pub struct PendingCalls<T>(Callers<T>);

impl<T> Clone for PendingCalls<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PendingCalls<T> {
    /// Creates an empty set; the first request gets the number `next`.
    #[must_use]
    pub fn starting_at(next: u64) -> Self {
        Self(Arc::new(Mutex::new(Some(OpenRequests::starting_at(next)))))
    }

    /// Begins a call; `None` once the connection is lost.
    #[must_use]
    pub fn begin(&self) -> Option<PendingCall<T>> {
        let (sender, outcome) = oneshot::channel();
        let id = self.callers().as_mut()?.insert(sender);
        let calls = self.clone();
        Some(PendingCall { id, outcome, calls })
    }

    /// Passes an outcome to its caller. One without a caller is ignored.
    pub fn resolve(&self, id: u64, outcome: T) {
        let caller = self.callers().as_mut().and_then(|open| open.remove(id));
        if let Some(caller) = caller {
            let _ = caller.send(outcome);
        }
    }

    /// Ends all calls without an outcome: the connection is lost.
    pub fn close(&self) {
        *self.callers() = None;
    }

    fn callers(&self) -> MutexGuard<'_, Option<OpenRequests<oneshot::Sender<T>>>> {
        lock(&self.0)
    }
}

/// A call without an outcome yet; dropping it abandons the call.
#[derive(Debug)]
pub struct PendingCall<T> {
    id: u64,
    outcome: oneshot::Receiver<T>,
    calls: PendingCalls<T>,
}

impl<T> PendingCall<T> {
    /// Returns the number of the request.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the outcome; `None` if the connection is lost.
    pub async fn outcome(mut self) -> Option<T> {
        (&mut self.outcome).await.ok()
    }
}

impl<T> Drop for PendingCall<T> {
    fn drop(&mut self) {
        if let Some(open) = &mut *self.calls.callers() {
            open.remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_distinguished_by_method_and_id() {
        let lenient = |value| Message::read(value, Strictness::Lenient);
        let request = lenient(json!({"id": 0, "method": "x", "params": {"a": 1}}));
        assert!(matches!(request, Ok(Message::Request { id, .. }) if id == 0));
        let notified = lenient(json!({"id": null, "method": "x"}));
        assert!(matches!(notified, Ok(Message::Notification { .. })));
        let refused = lenient(json!({"id": 7, "error": {"code": 1, "message": "no"}}));
        let Ok(Message::Response {
            outcome: Err(error),
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!(ErrorObject::from(&error), ErrorObject::new(1, "no"));
    }

    #[test]
    fn strict_messages_need_a_version_and_may_have_null_ids() {
        let strict = |value| Message::read(value, Strictness::Strict);
        let error = strict(json!({"id": 1, "method": "x"})).unwrap_err();
        assert_eq!((error.id, error.problem), (json!(1), Problem::Version));
        let request = strict(json!({"jsonrpc": "2.0", "id": null, "method": "x"}));
        assert!(matches!(request, Ok(Message::Request { .. })));
    }

    #[test]
    fn messages_are_written_with_and_without_the_version() {
        let params = json!({});
        let request = MessageWriter::V2.request(&json!(1), "m", &params);
        assert_eq!(
            request,
            r#"{"jsonrpc":"2.0","method":"m","params":{},"id":1}"#
        );
        let notified = MessageWriter::BARE.notification("m", None);
        assert_eq!(notified, r#"{"method":"m"}"#);
        let error = ErrorObject::new(INTERNAL_ERROR, "no");
        let response = MessageWriter::BARE.response(&json!("a"), Err(&error));
        assert_eq!(
            response,
            r#"{"error":{"code":-32603,"message":"no"},"id":"a"}"#
        );
    }

    #[tokio::test]
    async fn outcome_reaches_its_caller_and_a_lost_connection_ends_the_others() {
        let calls = PendingCalls::starting_at(1);
        let (first, second) = (calls.begin().unwrap(), calls.begin().unwrap());
        calls.resolve(first.id(), "done");
        assert_eq!(first.outcome().await, Some("done"));
        calls.close();
        assert_eq!(second.outcome().await, None);
        assert!(calls.begin().is_none());
    }
}
