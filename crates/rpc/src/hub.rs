//! What all connections share.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::watch;
use windlass_runs::{Caller, Runs};

use crate::access::Gate;
use crate::calls::ClientCalls;
use crate::error::RpcError;
use crate::frame;
use crate::outbox::{Outbox, TextSource};

/// What a method answers.
pub type Answer = Result<Value, RpcError>;

/// How much a connection may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcLimits {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Texts that wait to be sent.
    pub queue: usize,
    /// Bytes of texts that wait to be sent.
    pub queue_bytes: usize,
    /// Runs that a connection follows.
    pub subscriptions: usize,
    /// Long calls of a connection that are under way.
    pub long_calls: usize,
    /// How long the client may take for a tool.
    pub tool_time: Duration,
    /// How long a wrong token is thought over; each further one takes twice as long.
    pub auth_delay: Duration,
    /// After how many wrong tokens a connection is closed.
    pub auth_failures: u32,
}

impl Default for RpcLimits {
    fn default() -> Self {
        Self {
            message_bytes: 1024 * 1024,
            queue: 256,
            queue_bytes: 64 * 1024,
            subscriptions: 256,
            long_calls: 64,
            tool_time: Duration::from_secs(300),
            auth_delay: Duration::from_millis(100),
            auth_failures: 3,
        }
    }
}

/// What all connections share.
pub struct Hub {
    /// The runs.
    pub runs: Runs,
    /// Knows the tokens.
    pub gate: Box<dyn Gate>,
    /// How much a connection may do.
    pub limits: RpcLimits,
    /// The version that a handshake tells.
    pub server_version: String,
    /// Further methods.
    pub methods: Box<dyn Methods>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// A connection as further methods see it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Who it is.
    pub caller: Caller,
    /// The token that it has shown, if that is one of many.
    pub token_id: Option<String>,
    /// The way to call it.
    pub calls: ClientCalls,
    pub(crate) outbox: Outbox,
    pub(crate) gone: watch::Receiver<bool>,
}

impl Peer {
    /// Tells the client something; waits for room, and tells whether it is still there.
    pub async fn notify(&self, method: &str, params: &Value) -> bool {
        self.outbox.send(frame::notification(method, params)).await
    }

    /// Sends the client a text that is made while it is written; waits for room, and tells whether the client is still there.
    pub async fn send_pieces(&self, source: Box<dyn TextSource>) -> bool {
        self.outbox.send_pieces(source).await
    }

    /// Waits until the connection is gone.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An error means that the connection was dropped, which is the same.
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

/// Further methods, which a host adds to those of runs.
#[async_trait]
pub trait Methods: Send + Sync {
    /// Carries a call out; `None` when it does not know the method. It may take long: other calls go on meanwhile.
    async fn call(&self, peer: &Peer, method: &str, params: Map<String, Value>) -> Option<Answer>;
}

/// No further methods.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMethods;

#[async_trait]
impl Methods for NoMethods {
    async fn call(&self, _: &Peer, _: &str, _: Map<String, Value>) -> Option<Answer> {
        None
    }
}
