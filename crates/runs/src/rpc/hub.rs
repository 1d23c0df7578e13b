//! State shared by all connections.

use std::time::Duration;

use crate::{RunCaller, Runs};
use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::watch;
use windlass_macros::Defaults;

use crate::rpc::access::Gate;
use crate::rpc::calls::ClientCalls;
use crate::rpc::error::RpcError;
use crate::rpc::frame;
use crate::rpc::outbox::{Outbox, TextSource};

/// Result of a method call.
pub type MethodResult = Result<Value, RpcError>;

/// Limits of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct RpcLimits {
    /// Bytes of a message.
    #[default(1024 * 1024)]
    pub message_bytes: usize,
    /// Queued outgoing texts.
    #[default(256)]
    pub queue: usize,
    /// Bytes of queued outgoing texts.
    #[default(64 * 1024)]
    pub queue_bytes: usize,
    /// Runs that a connection may follow.
    #[default(256)]
    pub subscriptions: usize,
    /// Concurrent long calls of a connection.
    #[default(64)]
    pub long_calls: usize,
    /// Time limit for a tool call in the client.
    #[default(Duration::from_secs(300))]
    pub tool_time: Duration,
    /// Delay after an invalid token; it doubles with each further one.
    #[default(Duration::from_millis(100))]
    pub auth_delay: Duration,
    /// Invalid tokens before the connection is closed.
    #[default(3)]
    pub auth_failures: u32,
}

/// State shared by all connections.
pub struct Hub {
    /// The run operations.
    pub runs: Runs,
    /// Validates the tokens of connections.
    pub gate: Box<dyn Gate>,
    /// Limits of each connection.
    pub limits: RpcLimits,
    /// Version reported in the handshake.
    pub server_version: String,
    /// Additional methods of the host.
    pub methods: Box<dyn Methods>,
}

/// A connection, as additional methods see it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Identity of the connection.
    pub caller: RunCaller,
    /// ID of its token, if it is a revocable one.
    pub token_id: Option<String>,
    /// Calls to the client.
    pub calls: ClientCalls,
    pub(crate) outbox: Outbox,
    pub(crate) gone: watch::Receiver<bool>,
}

impl Peer {
    /// Sends a notification, waiting for room in the queue. Returns whether the client is still connected.
    pub async fn notify(&self, method: &str, params: &Value) -> bool {
        self.outbox.send(frame::notification(method, params)).await
    }

    /// Sends a text that is produced while it is written, waiting for room in the queue. Returns whether the client is still connected.
    pub async fn send_pieces(&self, source: Box<dyn TextSource>) -> bool {
        self.outbox.send_pieces(source).await
    }

    /// Waits until the connection is closed.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An error means that the connection was dropped, which is equivalent.
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

/// Methods that a host adds to those of runs.
#[async_trait]
pub trait Methods: Send + Sync {
    /// Runs a call; `None` if the method is unknown. It may take long: other calls run concurrently.
    async fn call(
        &self,
        peer: &Peer,
        method: &str,
        params: Map<String, Value>,
    ) -> Option<MethodResult>;
}

/// No additional methods.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMethods;

#[async_trait]
impl Methods for NoMethods {
    async fn call(&self, _: &Peer, _: &str, _: Map<String, Value>) -> Option<MethodResult> {
        None
    }
}
