//! The client side of a JSON-RPC connection over lines.

use serde_json::Value;
use windlass_core::json_rpc::{ErrorObject, Message, MessageWriter, OpenRequests, Strictness};

use crate::json::{object, raw, raw_unless_blank};
use crate::protocol::Step;

/// A connection; `P` is the purpose of each request that Windlass sends.
pub(crate) struct JsonRpcClient<P> {
    writer: MessageWriter,
    open: OpenRequests<P>,
}

/// A message from the agent.
pub(crate) enum Received<P> {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        purpose: P,
        outcome: Result<Value, ErrorObject>,
    },
}

impl<P> JsonRpcClient<P> {
    pub(crate) fn new(writer: MessageWriter) -> Self {
        let open = OpenRequests::starting_at(1);
        Self { writer, open }
    }

    /// Reads a line. An invalid message, or a response to no request, is an error with the steps that report it.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<Received<P>, Vec<Step>> {
        let Some(message) = object(line) else {
            return Err(raw_unless_blank(line));
        };
        let unknown = || vec![raw(None, line)];
        match Message::read(message, Strictness::Lenient).map_err(|_| unknown())? {
            Message::Request { id, method, params } => Ok(Received::Request { id, method, params }),
            Message::Notification { method, params } => {
                Ok(Received::Notification { method, params })
            }
            Message::Response { id, outcome } => {
                let purpose = id.as_u64().and_then(|id| self.open.remove(id));
                Ok(Received::Response {
                    purpose: purpose.ok_or_else(unknown)?,
                    outcome: outcome.map_err(|error| ErrorObject::from(&error)),
                })
            }
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value, purpose: P) -> Step {
        let id = self.open.insert(purpose).into();
        Step::Send(self.writer.request(&id, method, params))
    }

    pub(crate) fn notification(&self, method: &str, params: Option<&Value>) -> Step {
        Step::Send(self.writer.notification(method, params))
    }

    pub(crate) fn reply(&self, id: &Value, result: &Value) -> Step {
        Step::Send(self.writer.response(id, Ok(result)))
    }

    pub(crate) fn refusal(&self, id: &Value, code: i64, message: &str) -> Step {
        let error = ErrorObject::new(code, message);
        Step::Send(self.writer.response(id, Err(&error)))
    }
}
