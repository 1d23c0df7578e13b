//! Calls of the server to its client, on the same connection.

use std::time::Duration;

use serde_json::Value;
use windlass_core::json_rpc::{MessageWriter, PendingCalls};

use crate::rpc::error::RpcError;
use crate::rpc::outbox::Outbox;

/// Distinguishes the server's request IDs from the client's.
const ID_PREFIX: &str = "cb-";

/// Calls of one connection that wait for responses; clones share them.
#[derive(Debug, Clone)]
pub struct ClientCalls {
    outbox: Outbox,
    pending: PendingCalls<Result<Value, Value>>,
}

impl ClientCalls {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self {
            outbox,
            pending: PendingCalls::starting_at(1),
        }
    }

    /// Calls the client and waits for its response. The inner error is the client's own.
    pub async fn call(
        &self,
        method: &str,
        params: &Value,
        timeout: Duration,
    ) -> Result<Result<Value, Value>, RpcError> {
        let gone = || {
            RpcError::internal(format!(
                "the client disconnected before it answered {method}"
            ))
        };
        let call = self.pending.begin().ok_or_else(gone)?;
        let id = format!("{ID_PREFIX}{}", call.id()).into();
        let request = MessageWriter::V2.request(&id, method, params);
        if !self.outbox.send(request).await {
            return Err(gone());
        }
        match tokio::time::timeout(timeout, call.outcome()).await {
            Ok(outcome) => outcome.ok_or_else(gone),
            Err(_) => Err(RpcError::deadline(format!(
                "the client did not answer {method} within {} ms",
                timeout.as_millis()
            ))),
        }
    }

    /// Passes a response to its caller. Unexpected responses are ignored.
    pub(crate) fn answer(&self, id: &Value, outcome: Result<Value, Value>) {
        let number = id.as_str().and_then(|id| id.strip_prefix(ID_PREFIX));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            self.pending.resolve(number, outcome);
        }
    }

    /// Fails all calls: the connection is lost.
    pub(crate) fn fail_all(&self) {
        self.pending.close();
    }
}
