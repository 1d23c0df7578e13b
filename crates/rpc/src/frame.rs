//! One frame: what a text says, or why it says nothing.

use serde::Serialize;
use serde_json::{Map, Value};
use windlass_core::bounds::{MAX_JSON_DEPTH, is_shallow_text};

use crate::error::RpcError;

/// The id of a request: a text, a number or null. It is sent back as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Id(Value);

impl Id {
    /// Stands for a frame whose id could not be read.
    #[must_use]
    pub const fn null() -> Self {
        Self(Value::Null)
    }

    fn of(value: Value) -> Option<Self> {
        let is_id = matches!(value, Value::String(_) | Value::Number(_) | Value::Null);
        is_id.then_some(Self(value))
    }
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A call.
    Request {
        /// To be answered under this id; without one, not at all.
        id: Option<Id>,
        /// What to do.
        method: String,
        /// With what.
        params: Map<String, Value>,
    },
    /// `tools.register` with nothing but a list, which is how clients of the original bring the tools of a connection.
    Tools {
        /// To be answered under this id; without one, not at all.
        id: Option<Id>,
        /// What is in the list.
        tools: Vec<Value>,
    },
    /// The answer to a call of the server.
    Response {
        /// The id of the call.
        id: Value,
        /// What came of it.
        outcome: Result<Value, Value>,
    },
}

/// A frame that says nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameError {
    /// The id to answer under; `None` when no answer is wanted.
    pub id: Option<Id>,
    /// What is wrong.
    pub error: RpcError,
}

impl Frame {
    /// Reads a frame.
    pub fn parse(text: &str) -> Result<Self, FrameError> {
        if !is_shallow_text(text.as_bytes()) {
            let text = format!("a frame may be nested at most {MAX_JSON_DEPTH} deep");
            return Err(FrameError::unnamed(RpcError::parse(text)));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            FrameError::unnamed(RpcError::parse(format!("Parse error: {error}")))
        })?;
        let mut map = match value {
            Value::Object(map) => map,
            Value::Array(_) => {
                return Err(FrameError::unnamed(RpcError::invalid_request(
                    "batches are not supported; send one request in each frame",
                )));
            }
            _ => {
                return Err(FrameError::unnamed(RpcError::invalid_request(
                    "a frame must be a JSON object",
                )));
            }
        };
        let id = match map.remove("id").map(Id::of) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) => {
                return Err(FrameError::unnamed(RpcError::invalid_request(
                    "`id` must be a string, a number or null",
                )));
            }
        };
        let named = |error| FrameError {
            id: Some(id.clone().unwrap_or(Id::null())),
            error,
        };
        if map.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(named(RpcError::invalid_request(
                "`jsonrpc` must be \"2.0\"",
            )));
        }
        match map.remove("method") {
            Some(Value::String(method)) => {
                let params = match map.remove("params") {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(params)) => params,
                    Some(Value::Array(tools)) if method == "tools.register" => {
                        return Ok(Self::Tools { id, tools });
                    }
                    Some(_) => {
                        let error = RpcError::invalid_params(format!(
                            "{method}: `params` must be an object"
                        ));
                        // A notification is not answered, also when it is wrong.
                        return Err(FrameError { id, error });
                    }
                };
                Ok(Self::Request { id, method, params })
            }
            Some(_) => Err(named(RpcError::invalid_request(
                "`method` must be a string",
            ))),
            None => {
                let outcome = match (map.remove("result"), map.remove("error")) {
                    (_, Some(error)) => Err(error),
                    (Some(result), None) => Ok(result),
                    (None, None) => {
                        return Err(named(RpcError::invalid_request("`method` is missing")));
                    }
                };
                let id = id.map_or(Value::Null, |id| id.0);
                Ok(Self::Response { id, outcome })
            }
        }
    }
}

impl FrameError {
    fn unnamed(error: RpcError) -> Self {
        Self {
            id: Some(Id::null()),
            error,
        }
    }
}

/// A frame on its way out. It is written as it is: an answer may be long, and is not copied first.
#[derive(Default, Serialize)]
struct Out<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
}

impl Out<'_> {
    fn text(self) -> String {
        let frame = Self {
            jsonrpc: "2.0",
            ..self
        };
        // Texts, numbers and values have a JSON.
        serde_json::to_string(&frame).unwrap_or_default()
    }
}

/// Writes the answer to a call.
pub(crate) fn answer(id: &Id, outcome: Result<Value, RpcError>) -> String {
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error.to_json())),
    };
    let frame = Out {
        result: result.as_ref(),
        error: error.as_ref(),
        id: Some(&id.0),
        ..Out::default()
    };
    frame.text()
}

/// Writes something that nobody answers.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    let frame = Out {
        method: Some(method),
        params: Some(params),
        ..Out::default()
    };
    frame.text()
}

/// Writes a call of the server.
pub(crate) fn request(id: &str, method: &str, params: &Value) -> String {
    let frame = Out {
        method: Some(method),
        params: Some(params),
        id: Some(&id.into()),
        ..Out::default()
    };
    frame.text()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_nothing_is_answered_with_its_code() {
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
            let rejected = Frame::parse(text).unwrap_err();
            let found = (rejected.error.code, rejected.id.map(|id| id.0));
            assert_eq!(found, (code, id), "{text}");
        }
    }

    #[test]
    fn ids_come_back_as_they_were() {
        for id in [json!(7), json!("seven"), json!(1.5), json!(-3), json!(null)] {
            let text = json!({"jsonrpc": "2.0", "id": id, "method": "m"}).to_string();
            let Ok(Frame::Request {
                id: Some(found), ..
            }) = Frame::parse(&text)
            else {
                panic!("{text}");
            };
            let reply: Value = serde_json::from_str(&answer(&found, Ok(json!(1)))).unwrap();
            assert_eq!(reply["id"], id);
        }
    }
}
