//! The state of one connection and the handling of its frames.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Follower, Role, RunCaller};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::rpc::access::{TokenRole, ValidToken};
use crate::rpc::calls::ClientCalls;
use crate::rpc::error::RpcError;
use crate::rpc::frame::{self, RpcFrame};
use crate::rpc::hub::{Hub, MethodResult, Peer};
use crate::rpc::methods;
use crate::rpc::outbox::Outbox;

/// Maximum wait for long calls after their connection is gone.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a connection is closed: a WebSocket close code and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// WebSocket close code.
    pub code: u16,
    /// WebSocket close reason.
    pub reason: String,
}

/// The action after a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FrameAction {
    /// Read the next frame.
    Continue,
    /// Close the connection.
    Close(Closing),
}

fn close(code: u16, reason: String) -> FrameAction {
    FrameAction::Close(Closing { code, reason })
}

/// One connection of the run RPC.
pub struct Connection {
    pub(crate) hub: Arc<Hub>,
    pub(crate) caller: RunCaller,
    pub(crate) is_admitted: bool,
    /// ID of the token that admitted the connection.
    pub(crate) token_id: Option<String>,
    /// The session cookie of a browser. It grants nothing without the key.
    pub(crate) cookie: Option<String>,
    pub(crate) auth_failures: u32,
    /// Whether the client performed the handshake of the original protocol.
    pub(crate) completed_handshake: bool,
    outbox: Outbox,
    calls: ClientCalls,
    subscriptions: HashMap<String, AbortHandle>,
    /// Followers to start after the response that announces them is queued.
    announced: Vec<(String, String, Follower)>,
    followers: JoinSet<()>,
    long_calls: JoinSet<()>,
    long_call_slots: Arc<Semaphore>,
    gone: watch::Sender<bool>,
}

impl Connection {
    /// Creates the state of a new connection.
    #[must_use]
    pub fn new(hub: Arc<Hub>, outbox: Outbox) -> Self {
        Self {
            caller: RunCaller::new(),
            is_admitted: !hub.gate.requires_token(),
            token_id: None,
            cookie: None,
            auth_failures: 0,
            completed_handshake: false,
            calls: ClientCalls::new(outbox.clone()),
            outbox,
            subscriptions: HashMap::new(),
            announced: Vec::new(),
            followers: JoinSet::new(),
            long_calls: JoinSet::new(),
            long_call_slots: Arc::new(Semaphore::new(hub.limits.long_calls)),
            gone: watch::channel(false).0,
            hub,
        }
    }

    /// Applies a token that the transport received. The host role must be requested explicitly.
    pub fn admit(&mut self, known: ValidToken) {
        self.is_admitted = true;
        self.token_id = known.token_id;
        self.caller.reads_all = known.role == TokenRole::Host;
        if let TokenRole::Agent(agent) = known.role {
            self.caller.role = Role::Bound(agent);
        }
    }

    /// Sets the session cookie that the transport received from a page of the server's own origin.
    pub fn set_cookie(&mut self, cookie: String) {
        self.cookie = Some(cookie);
    }

    /// Returns whether the connection is authenticated, or needs no token.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// Returns the ID of the token that admitted the connection, if it is a revocable one.
    #[must_use]
    pub fn token_id(&self) -> Option<&str> {
        self.token_id.as_deref()
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &RunCaller {
        &self.caller
    }

    /// Handles a frame. When this returns, its changes are durable and its response is queued, except for long-running calls.
    pub async fn handle(&mut self, text: &str) -> FrameAction {
        let length = text.len();
        let limit = self.hub.limits.message_bytes;
        if length > limit {
            return self.refuse_size(length).await;
        }
        match RpcFrame::parse(text) {
            Ok(RpcFrame::Response { id, outcome }) => {
                self.calls.answer(&id, outcome);
                FrameAction::Continue
            }
            Ok(RpcFrame::Request { id, method, params }) => self.call(id, &method, params).await,
            Ok(RpcFrame::Tools { id, tools }) => {
                if !self.is_authenticated() {
                    return self.refuse_unauthenticated(id).await;
                }
                self.reply(id, methods::tools::count(&tools)).await;
                FrameAction::Continue
            }
            Err(rejected) => {
                if let Some(id) = rejected.id {
                    self.reply(Some(id), Err(rejected.error)).await;
                }
                self.admitted_or_closed()
            }
        }
    }

    /// Answers an oversized message; the connection is then closed.
    pub async fn refuse_size(&self, length: usize) -> FrameAction {
        let limit = self.hub.limits.message_bytes;
        let text = format!("a message has {length} bytes, and {limit} are allowed");
        let error = RpcError::invalid_request(text);
        self.reply(Some(Value::Null), Err(error)).await;
        close(1009, format!("a message may have {limit} bytes"))
    }

    async fn call(
        &mut self,
        id: Option<Value>,
        method: &str,
        params: Map<String, Value>,
    ) -> FrameAction {
        if method == "session.auth" {
            let answer = methods::auth::authenticate(self, params).await;
            self.reply(id, answer).await;
            return self.admitted_or_closed();
        }
        // An unauthenticated connection may negotiate the protocol version; its authentication timeout still applies.
        let is_handshake = method == methods::HANDSHAKE && !self.is_admitted;
        if !is_handshake && !self.is_authenticated() {
            return self.refuse_unauthenticated(id).await;
        }
        if let Some(answer) = methods::call(self, method, &params).await {
            self.reply(id, answer).await;
            self.start_followers();
            return FrameAction::Continue;
        }
        self.spawn_long_call(id, method.to_owned(), params).await;
        FrameAction::Continue
    }

    /// Returns whether the connection is authenticated by a token that is not revoked.
    fn is_authenticated(&self) -> bool {
        let mut shown = self.token_id.iter();
        self.is_admitted && shown.all(|id| self.hub.gate.is_still_valid(id))
    }

    async fn refuse_unauthenticated(&self, id: Option<Value>) -> FrameAction {
        let text = "auth required: send `session.auth` with a token as the first frame";
        self.reply(id, Err(RpcError::auth_required(text))).await;
        close(1008, "auth required".to_owned())
    }

    fn admitted_or_closed(&self) -> FrameAction {
        let may_retry = (1..self.hub.limits.auth_failures).contains(&self.auth_failures);
        if self.is_admitted || may_retry {
            return FrameAction::Continue;
        }
        let reason = match self.auth_failures {
            0 => "auth required".to_owned(),
            failures => format!("{failures} wrong tokens"),
        };
        close(1008, reason)
    }

    /// Runs a long call concurrently with the connection.
    async fn spawn_long_call(
        &mut self,
        id: Option<Value>,
        method: String,
        params: Map<String, Value>,
    ) {
        while self.long_calls.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&self.long_call_slots).try_acquire_owned() else {
            let limit = self.hub.limits.long_calls;
            let text =
                format!("{limit} long calls of this connection are running; wait for one to end");
            return self.reply(id, Err(RpcError::limit(text))).await;
        };
        let (hub, peer) = (Arc::clone(&self.hub), self.peer());
        self.long_calls.spawn(async move {
            let answer = methods::call_long(&hub, &peer, &method, params).await;
            if let Some(id) = id {
                peer.outbox.send(frame::response(&id, answer)).await;
            }
            drop(slot);
        });
    }

    async fn reply(&self, id: Option<Value>, answer: MethodResult) {
        if let Some(id) = id {
            self.outbox.send(frame::response(&id, answer)).await;
        }
    }

    fn peer(&self) -> Peer {
        Peer {
            token_id: self.token_id.clone(),
            caller: self.caller.clone(),
            calls: self.calls.clone(),
            outbox: self.outbox.clone(),
            gone: self.gone.subscribe(),
        }
    }

    pub(crate) fn check_subscriptions(&mut self, run_id: &str) -> Result<(), RpcError> {
        self.subscriptions
            .retain(|_, follower| !follower.is_finished());
        let limit = self.hub.limits.subscriptions;
        if self.subscriptions.len() >= limit && !self.subscriptions.contains_key(run_id) {
            return Err(RpcError::limit(format!(
                "this connection follows {limit} runs, which is the limit; unsubscribe from some first"
            )));
        }
        Ok(())
    }

    /// Announces a follower: it starts after the current response is queued.
    pub(crate) fn announce(&mut self, run_id: &str, agent_id: &str, follower: Follower) {
        self.announced
            .push((run_id.to_owned(), agent_id.to_owned(), follower));
    }

    pub(crate) fn unsubscribe(&mut self, run_id: &str) -> bool {
        self.subscriptions.remove(run_id).is_some_and(|follower| {
            let was_running = !follower.is_finished();
            follower.abort();
            was_running
        })
    }

    fn start_followers(&mut self) {
        while self.followers.try_join_next().is_some() {}
        for (run_id, agent_id, follower) in self.announced.drain(..) {
            let outbox = self.outbox.clone();
            let task = methods::runs::follow(outbox, run_id.clone(), agent_id, follower);
            let handle = self.followers.spawn(task);
            if let Some(before) = self.subscriptions.insert(run_id, handle) {
                before.abort();
            }
        }
    }

    /// Handles the loss of the connection, after all its frames are handled. Its pending calls end; its open runs wait for the grace period or the
    /// lease.
    pub async fn disconnect(mut self) {
        self.gone.send_replace(true);
        self.calls.fail_all();
        self.followers.shutdown().await;
        // Pending calls end because no response can arrive; those that do not end in time continue detached.
        let ended = async { while self.long_calls.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, ended).await;
        self.long_calls.detach_all();
        self.hub.runs.disconnect(&self.caller);
    }
}
