//! Threads and turns over the socket: who may call each method, and functions that read the parameters, call the service
//! and return its answer.

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
use windlass_rpc::{Answer, Methods, Peer, RpcError, TextPiece, TextSource};
use windlass_runs::Role;

use super::tools::{self, ToolExecutors};
use crate::error::{ApiError, Result};
use crate::fanout::EventText;
use crate::handle::Handle;
use crate::operations::follow::{FollowedEvent, Heard, Wanted};
use crate::operations::{RequestContext, fields};
use crate::service::Service;
use crate::settings::Access;
use crate::tokens::{Caller, TokenScope};

/// A method, and who may call it.
struct Method(&'static str, RequiredScope, fn(Call) -> Answering);

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// All methods, each with who may call it. One for the owner of a thread names the thread as `thread_id`.
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

/// Lists the methods for threads and turns, each with who may call it.
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
    async fn call(&self, peer: &Peer, method: &str, params: Map<String, Value>) -> Option<Answer> {
        let method = METHODS.iter().find(|known| known.0 == method)?;
        let Self { app, executors } = self;
        let call = Call {
            peer: peer.clone(),
            service: Service::clone(app),
            context: RequestContext::new(caller(app, peer)),
            method: method.0,
            thread: String::new(),
            params,
            executors: Arc::clone(executors),
        };
        let span = tracing::error_span!("call", method = method.0);
        let answer = app.carry(answer(method, call).instrument(span)).await;
        Some(answer.unwrap_or_else(|failure| Err(failure.into())))
    }
}

async fn answer(Method(_, required, answer): &Method, mut call: Call) -> Answer {
    if *required == Owner {
        call.thread = call.take_id("thread_id")?;
    }
    let (caller, thread) = (&call.context.caller, &call.thread);
    let scope = call
        .service
        .check_scope(caller, *required, thread, call.method);
    scope.await?;
    answer(call).await
}

/// What a connection may do: as much as its token allows.
fn caller(app: &Service, peer: &Peer) -> Caller {
    let scope = match &peer.caller.role {
        Role::Bound(agent) => TokenScope::Agent(agent.clone()),
        Role::Host => TokenScope::Admin,
        Role::Unbound if matches!(app.settings.access, Access::Open) => TokenScope::Admin,
        Role::Unbound => TokenScope::Client,
    };
    Caller {
        token_id: peer.token_id.clone(),
        scope,
    }
}

/// A call that a connection makes.
pub(super) struct Call {
    pub(super) peer: Peer,
    pub(super) service: Service,
    pub(super) context: RequestContext,
    pub(super) method: &'static str,
    /// The thread that it is about; empty where it is about none.
    pub(super) thread: String,
    pub(super) params: Map<String, Value>,
    /// The tools that connections execute.
    pub(super) executors: Arc<ToolExecutors>,
}

impl Call {
    /// Takes an id out of the parameters.
    fn take_id(&mut self, name: &str) -> Result<String, RpcError> {
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
        match self.params.remove(name) {
            Some(Value::String(id)) if !id.is_empty() && id.bytes().all(is_plain) => Ok(id),
            _ => Err(RpcError::invalid_params(format!(
                "{} requires `{name}`, the id of one that is there",
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

    /// Reads what is left of the parameters as the body of the route that does the same. What nobody reads is ignored.
    fn take_body<T: DeserializeOwned>(&mut self) -> Result<T> {
        let (body, _) = fields::read(std::mem::take(&mut self.params))?;
        Ok(body)
    }
}

/// Executes the operation that does the same over HTTP; its body is what is left of the parameters.
async fn execute<E>(mut call: Call, path: E::Path) -> Answer
where
    E: Endpoint<Query = (), Response: Serialize>,
    Service: Handle<E>,
{
    let request = api::Call::new(path, call.take_body()?);
    let response = Handle::<E>::handle(&call.service, &call.context, request).await?;
    Ok(serde_json::to_value(response).map_err(ApiError::internal)?)
}

async fn create(call: Call) -> Answer {
    execute::<op::CreateThread>(call, ()).await
}

async fn start(mut call: Call) -> Answer {
    let id = std::mem::take(&mut call.thread);
    Box::pin(execute::<op::StartTurn>(call, IdPath { id })).await
}

async fn steer(mut call: Call) -> Answer {
    let path = call.take_turn()?;
    execute::<op::SteerTurn>(call, path).await
}

async fn interrupt(mut call: Call) -> Answer {
    let path = call.take_turn()?;
    let request = api::Call::<op::InterruptTurn>::new(path, ());
    let turn = call.service.handle(&call.context, request).await?;
    Ok(serde_json::to_value(turn).map_err(ApiError::internal)?)
}

/// Tells the connection of each event of a thread as `threads.event`.
async fn subscribe(mut call: Call) -> Answer {
    let since = match call.params.remove("since_seq") {
        None | Some(Value::Null) => 0,
        Some(since) => since.as_u64().ok_or_else(|| {
            let text = format!("since_seq must be the number of an event, and is {since}");
            RpcError::invalid_params(text)
        })?,
    };
    let (peer, thread) = (call.peer, call.thread);
    let wanted = Wanted {
        since,
        ..Wanted::default()
    };
    let mut events = call.service.follow(&call.context, &thread, wanted).await?;
    let answer = json!({"thread_id": thread, "since_seq": since, "subscribed": true});
    tokio::spawn(async move {
        while let Some(heard) = heard_by(&peer, events.hear()).await {
            if let Heard::Event(event) = heard
                && let Some(text) = event_notification(&thread, event)
                && !peer.send_pieces(Box::new(text)).await
            {
                return;
            }
        }
    });
    Ok(answer)
}

/// Writes `threads.event` around an event. The id of a thread needs no escapes.
fn event_notification(thread: &str, event: FollowedEvent) -> Option<NotifiedEvent> {
    let head = r#"{"jsonrpc":"2.0","method":"threads.event","params":{"event":"#.to_owned();
    let tail = format!(r#","thread_id":"{thread}"}}}}"#);
    let mut text = event.text(head, &tail)?;
    // It may wait for its turn.
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

/// Waits for what comes next; `None` when the connection is gone, or nothing comes any more.
pub(super) async fn heard_by(
    peer: &Peer,
    next: impl Future<Output = Option<Heard>>,
) -> Option<Heard> {
    tokio::select! {
        () = peer.gone() => None,
        heard = next => heard,
    }
}
