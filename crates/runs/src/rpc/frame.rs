//! Strict parsing of client frames; an invalid frame yields the error to return.

use serde_json::{Map, Value};
use windlass_core::bounds::{MAX_JSON_DEPTH, is_shallow_text};
use windlass_core::json_rpc::{self, Message, Strictness};

use crate::rpc::error::RpcError;

/// A valid frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RpcFrame {
    /// A method call.
    Request {
        /// ID of the response: a string, a number or null. A call without an ID gets no response.
        id: Option<Value>,
        /// Name of the method, such as `runs.start`.
        method: String,
        /// Parameters by name; empty if the call has none.
        params: Map<String, Value>,
    },
    /// `tools.register` with only a list, the form in which clients of the original protocol register a connection's tools.
    Tools {
        /// ID of the response. A call without an ID gets no response.
        id: Option<Value>,
        /// The list, not validated.
        tools: Vec<Value>,
    },
    /// The response to a server call.
    Response {
        /// ID of the call.
        id: Value,
        /// The result, or the client's error.
        outcome: Result<Value, Value>,
    },
}

/// An invalid frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FrameError {
    /// ID of the response; `None` for a notification, which gets none.
    pub(crate) id: Option<Value>,
    /// The error to return.
    pub(crate) error: RpcError,
}

impl RpcFrame {
    /// Parses a frame.
    pub(crate) fn parse(text: &str) -> Result<Self, FrameError> {
        let unreadable = |message| FrameError {
            id: Some(Value::Null),
            error: RpcError::parse(message),
        };
        if !is_shallow_text(text.as_bytes()) {
            let message = format!("a frame may be nested at most {MAX_JSON_DEPTH} deep");
            return Err(unreadable(message));
        }
        let value = serde_json::from_str(text);
        let value = value.map_err(|error| unreadable(format!("Parse error: {error}")))?;
        let message = Message::read(value, Strictness::Strict).map_err(|invalid| FrameError {
            error: RpcError::invalid_request(invalid.to_string()),
            id: Some(invalid.id),
        })?;
        let (id, method, params) = match message {
            Message::Request { id, method, params } => (Some(id), method, params),
            Message::Notification { method, params } => (None, method, params),
            Message::Response { id, outcome } => return Ok(Self::Response { id, outcome }),
        };
        match params {
            Value::Null => Ok(Self::Request {
                id,
                method,
                params: Map::new(),
            }),
            Value::Object(params) => Ok(Self::Request { id, method, params }),
            Value::Array(tools) if method == "tools.register" => Ok(Self::Tools { id, tools }),
            _ => Err(FrameError {
                id,
                error: RpcError::invalid_params(format!("{method}: `params` must be an object")),
            }),
        }
    }
}

/// Writes the response to a call.
pub(crate) fn response(id: &Value, outcome: Result<Value, RpcError>) -> String {
    let outcome = outcome.map_err(json_rpc::ErrorObject::from);
    json_rpc::MessageWriter::V2.response(id, outcome.as_ref())
}

/// Writes a notification.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    json_rpc::MessageWriter::V2.notification(method, Some(params))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_frames_get_their_error_codes() {
        let cases = [
            ("{not json", -32700, Some(json!(null))),
            ("", -32700, Some(json!(null))),
            ("[]", -32600, Some(json!(null))),
            ("42", -32600, Some(json!(null))),
            (r#"{"id":1}"#, -32600, Some(json!(1))),
            (
                r#"{"jsonrpc":"1.0","id":"x","method":"m"}"#,
                -32600,
                Some(json!("x")),
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
                -32600,
                Some(json!(null)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":7}"#,
                -32600,
                Some(json!(2)),
            ),
            (r#"{"jsonrpc":"2.0","id":2}"#, -32600, Some(json!(2))),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"m","params":[1]}"#,
                -32602,
                Some(json!(2)),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#,
                -32602,
                None,
            ),
        ];
        for (text, code, id) in cases {
            let rejected = RpcFrame::parse(text).unwrap_err();
            let found = (rejected.error.code, rejected.id);
            assert_eq!(found, (code, id), "{text}");
        }
    }

    #[test]
    fn response_has_the_id_of_the_request() {
        for id in [json!(7), json!("seven"), json!(1.5), json!(-3), json!(null)] {
            let text = json!({"jsonrpc": "2.0", "id": id, "method": "m"}).to_string();
            let Ok(RpcFrame::Request {
                id: Some(found), ..
            }) = RpcFrame::parse(&text)
            else {
                panic!("{text}");
            };
            let reply: Value = serde_json::from_str(&response(&found, Ok(json!(1)))).unwrap();
            assert_eq!(reply["id"], id);
        }
    }
}
