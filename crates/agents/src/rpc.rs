//! JSON-RPC over lines, from the side of who started the other.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::json;

/// A message of the other side.
pub(crate) enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Reply {
        id: u64,
        result: Result<Value, RpcError>,
    },
    /// It is none of these.
    Other,
}

/// An error of the other side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

impl Message {
    pub(crate) fn read(mut message: Value) -> Self {
        let mut take = |field: &str| message.get_mut(field).map(Value::take);
        let (id, method, params) = (take("id"), take("method"), take("params"));
        let (result, error) = (take("result"), take("error"));
        let id = id.filter(|id| id.is_number() || id.is_string());
        let params = params.unwrap_or(Value::Null);
        match (method, id, error.filter(|error| !error.is_null()), result) {
            (Some(Value::String(method)), Some(id), _, _) => Self::Request { id, method, params },
            (Some(Value::String(method)), None, _, _) => Self::Notification { method, params },
            (None, Some(id), Some(error), _) => match id.as_u64() {
                Some(id) => Self::Reply {
                    id,
                    result: Err(RpcError {
                        code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
                        message: json::text(&error, "message").unwrap_or_default().to_owned(),
                        data: error.get("data").cloned().unwrap_or(Value::Null),
                    }),
                },
                None => Self::Other,
            },
            (None, Some(id), None, Some(result)) => match id.as_u64() {
                Some(id) => Self::Reply {
                    id,
                    result: Ok(result),
                },
                None => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Whether messages carry the version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// As JSON-RPC 2.0 says.
    Versioned,
    /// As Codex does it.
    Bare,
}

/// Our own requests, and what each is about.
pub(crate) struct Requests<P> {
    dialect: Dialect,
    next: u64,
    open: HashMap<u64, P>,
}

impl<P> Requests<P> {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            next: 1,
            open: HashMap::new(),
        }
    }

    /// Makes a request and remembers what it is about.
    pub(crate) fn request(&mut self, method: &str, params: Value, about: P) -> String {
        let id = self.next;
        self.next += 1;
        self.open.insert(id, about);
        self.line(json!({"id": id, "method": method, "params": params}))
    }

    pub(crate) fn notification(&self, method: &str, params: Option<Value>) -> String {
        let mut message = json!({"method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        self.line(message)
    }

    pub(crate) fn reply(&self, id: &Value, result: &Value) -> String {
        self.line(json!({"id": id, "result": result}))
    }

    pub(crate) fn refusal(&self, id: &Value, code: i64, message: &str) -> String {
        self.line(json!({"id": id, "error": {"code": code, "message": message}}))
    }

    /// Returns what a reply is about, once.
    pub(crate) fn take(&mut self, id: u64) -> Option<P> {
        self.open.remove(&id)
    }

    fn line(&self, mut message: Value) -> String {
        if self.dialect == Dialect::Versioned {
            message["jsonrpc"] = json!("2.0");
        }
        message.to_string()
    }
}
