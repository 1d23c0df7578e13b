//! Threads and turns over the socket: the required scope of each method, and functions that parse parameters, call the service and return its
//! response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tracing::Instrument;
use windlass_protocol::api;
use windlass_protocol::operations::RequiredScope::{self, Agent, Owner};
use windlass_protocol::operations::{self as op, Endpoint, IdPath, TurnPath};
use windlass_runs::Role;
use windlass_runs::rpc::{MethodResult, Methods, Peer, RpcError, TextPiece, TextSource};

use super::tools::{self, ToolExecutors};
use crate::error::{ApiError, Result};
use crate::fanout::EventText;
use crate::handle::Handle;
use crate::operations::RequestContext;
use crate::operations::fields;
use crate::operations::threads::follow::{FollowItem, FollowOptions, FollowedEvent};
use crate::service::Service;
use crate::settings::Access;
use crate::tokens::{self, ApiCaller, SessionLookup, TokenScope};

/// A method and its required scope.
struct Method(&'static str, RequiredScope, fn(RpcCall) -> Answering);

type Answering = Pin<Box<dyn Future<Output = MethodResult> + Send>>;

/// All methods with their required scopes. A method for a thread's owner takes the thread as `thread_id`.
const METHODS: &[Method] = &[
    Method("threads.create", Agent, |call| Box::pin(create(call))),
    Method("turns.start", Owner, |call| Box::pin(start(call))),
    Method("turns.steer", Owner, |call| Box::pin(steer(call))),
    Method("turns.interrupt", Owner, |call| Box::pin(interrupt(call))),
    Method("events.subscribe", Owner, |call| Box::pin(subscribe(call))),
    Method("tools.register", Owner, |call| {
        Box::pin(tools::register(call))
    }),
];

/// Lists the methods for threads and turns with their required scopes.
#[must_use]
pub fn socket_methods() -> Vec<(&'static str, RequiredScope)> {
    let rows = METHODS.iter();
    rows.map(|Method(name, scope, _)| (*name, *scope)).collect()
}

/// The methods, as connections reach them.
pub(super) struct ThreadMethods {
    app: Service,
    executors: Arc<ToolExecutors>,
}

impl ThreadMethods {
    pub(super) fn new(app: Service) -> Self {
        let executors = Arc::default();
        Self { app, executors }
    }
}

#[async_trait::async_trait]
impl Methods for ThreadMethods {
    async fn call(
        &self,
        peer: &Peer,
        method: &str,
        params: Map<String, Value>,
    ) -> Option<MethodResult> {
        let method = METHODS.iter().find(|known| known.0 == method)?;
        let Self { app, executors } = self;
        let call = RpcCall {
            peer: peer.clone(),
            service: Service::clone(app),
            ctx: RequestContext::new(caller(app, peer)),
            method: method.0,
            thread: String::new(),
            params,
            executors: Arc::clone(executors),
        };
        let span = tracing::error_span!("call", method = method.0);
        let answer = app
            .run_detached(answer(method, call).instrument(span))
            .await;
        Some(answer.unwrap_or_else(|failure| Err(failure.into())))
    }
}

async fn answer(Method(_, required, answer): &Method, mut call: RpcCall) -> MethodResult {
    if *required == Owner {
        call.thread = call.take_id("thread_id")?;
    }
    let (caller, thread) = (&call.ctx.caller, &call.thread);
    let scope = call
        .service
        .check_scope(caller, *required, thread, call.method);
    scope.await?;
    answer(call).await
}

/// Returns the caller of a connection, with the scope of its token.
fn caller(app: &Service, peer: &Peer) -> ApiCaller {
    let scope = match &peer.caller.role {
        Role::Bound(agent) => TokenScope::Agent(agent.clone()),
        Role::Host => TokenScope::Admin,
        Role::Unbound if matches!(app.settings.access, Access::Open) => TokenScope::Admin,
        Role::Unbound => TokenScope::Client,
    };
    let credential = peer.token_id.clone();
    let Some(session) = credential.clone().filter(|id| tokens::is_session(id)) else {
        return ApiCaller {
            token_id: credential,
            scope,
            session: None,
        };
    };
    let (settings, logins) = (&app.settings, &app.settings.logins);
    let found = logins
        .as_ref()
        .map(|it| it.by_id(&settings.access, &session));
    match found {
        Some(SessionLookup::Present(caller)) => caller,
        _ => ApiCaller::anonymous(),
    }
}

/// A method call of a connection.
pub(super) struct RpcCall {
    pub(super) peer: Peer,
    pub(super) service: Service,
    pub(super) ctx: RequestContext,
    pub(super) method: &'static str,
    /// ID of the thread; empty if the call concerns none.
    pub(super) thread: String,
    pub(super) params: Map<String, Value>,
    /// The tools that connections execute.
    pub(super) executors: Arc<ToolExecutors>,
}

impl RpcCall {
    /// Takes an id out of the parameters.
    fn take_id(&mut self, name: &str) -> Result<String, RpcError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match self.params.remove(name) {
            Some(Value::String(id)) if !id.is_empty() && id.bytes().all(is_plain) => Ok(id),
            _ => Err(RpcError::invalid_params(format!(
                "{} requires `{name}`, an existing id",
                self.method
            ))),
        }
    }

    /// Takes the turn of the thread out of the parameters.
    fn take_turn(&mut self) -> Result<TurnPath, RpcError> {
        Ok(TurnPath {
            turn_id: self.take_id("turn_id")?,
            id: std::mem::take(&mut self.thread),
        })
    }

    /// Parses the remaining parameters as the body of the equivalent route. Unknown fields are ignored.
    fn take_body<T: DeserializeOwned>(&mut self) -> Result<T> {
        let (body, _) = fields::read(std::mem::take(&mut self.params))?;
        Ok(body)
    }
}

/// Executes the equivalent HTTP operation; its body is the remaining parameters.
async fn execute<E>(mut call: RpcCall, path: E::Path) -> MethodResult
where
    E: Endpoint<Query = (), Response: Serialize>,
    Service: Handle<E>,
{
    let request = api::Call::new(path, call.take_body()?);
    let response = Handle::<E>::handle(&call.service, &call.ctx, request).await?;
    Ok(serde_json::to_value(response).map_err(ApiError::internal)?)
}

async fn create(call: RpcCall) -> MethodResult {
    execute::<op::CreateThread>(call, ()).await
}

async fn start(mut call: RpcCall) -> MethodResult {
    let id = std::mem::take(&mut call.thread);
    Box::pin(execute::<op::StartTurn>(call, IdPath { id })).await
}

async fn steer(mut call: RpcCall) -> MethodResult {
    let path = call.take_turn()?;
    execute::<op::SteerTurn>(call, path).await
}

async fn interrupt(mut call: RpcCall) -> MethodResult {
    let path = call.take_turn()?;
    let request = api::Call::<op::InterruptTurn>::new(path, ());
    let turn = call.service.handle(&call.ctx, request).await?;
    Ok(serde_json::to_value(turn).map_err(ApiError::internal)?)
}

/// Sends each event of a thread to the connection as `threads.event`.
async fn subscribe(mut call: RpcCall) -> MethodResult {
    let since = match call.params.remove("since_seq") {
        None | Some(Value::Null) => 0,
        Some(since) => since.as_u64().ok_or_else(|| {
            let text = format!("since_seq must be the number of an event, not {since}");
            RpcError::invalid_params(text)
        })?,
    };
    let (peer, thread) = (call.peer, call.thread);
    let options = FollowOptions {
        since,
        ..FollowOptions::default()
    };
    let mut events = call.service.follow(&call.ctx, &thread, options).await?;
    let answer = json!({"thread_id": thread, "since_seq": since, "subscribed": true});
    tokio::spawn(async move {
        while let Some(item) = next_unless_gone(&peer, events.next_item()).await {
            if let FollowItem::Event(event) = item
                && let Some(text) = event_notification(&thread, event)
                && !peer.send_pieces(Box::new(text)).await
            {
                return;
            }
        }
    });
    Ok(answer)
}

/// Wraps an event in `threads.event`. A thread ID needs no escaping.
fn event_notification(thread: &str, event: FollowedEvent) -> Option<NotifiedEvent> {
    let head = r#"{"jsonrpc":"2.0","method":"threads.event","params":{"event":"#.to_owned();
    let tail = format!(r#","thread_id":"{thread}"}}}}"#);
    let mut text = event.text(head, &tail)?;
    // It may wait in the queue.
    text.release();
    Some(NotifiedEvent(text))
}

struct NotifiedEvent(EventText);

#[async_trait::async_trait]
impl TextSource for NotifiedEvent {
    async fn next_piece(&mut self) -> Option<TextPiece> {
        let bytes = self.0.next().await?;
        Some(TextPiece {
            bytes: bytes.into(),
            is_last: self.0.is_done(),
        })
    }

    fn release(&mut self) {
        self.0.release();
    }
}

/// Waits for the next event; `None` if the connection is gone, or there are no more events.
pub(super) async fn next_unless_gone(
    peer: &Peer,
    next: impl Future<Output = Option<FollowItem>>,
) -> Option<FollowItem> {
    tokio::select! {
        () = peer.gone() => None,
        item = next => item,
    }
}
