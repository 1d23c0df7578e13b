//! Threads and turns over the socket: each method is a request to the same routes as over HTTP, made by the connection.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use tower::ServiceExt;
use windlass_rpc::{Answer, Methods, Peer, RpcError};
use windlass_runs::Role;

use super::tools;
use crate::app::Shared;
use crate::settings::Access;
use crate::tokens::{Caller, TokenScope};

type Params = Map<String, Value>;

/// The routes of the API, as a connection uses them.
#[derive(Clone)]
pub(super) struct Sessions {
    is_open: bool,
    router: Router,
}

impl Sessions {
    pub(super) fn new(app: &Shared) -> Self {
        Self {
            is_open: matches!(app.settings.access, Access::Open),
            router: crate::routes::router(app),
        }
    }

    /// Makes a request in the name of a connection.
    async fn send(
        &self,
        peer: &Peer,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Body), RpcError> {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        request.extensions_mut().insert(self.caller(peer));
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok((head.status, body));
        }
        Err(refusal(head.status, &whole(body).await?))
    }

    /// Makes a request and returns the JSON of the answer.
    pub(super) async fn ask(
        &self,
        peer: &Peer,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let (_, body) = self.send(peer, method, path, body).await?;
        let body = whole(body).await?;
        match body.is_empty() {
            true => Ok(json!({"ok": true})),
            false => serde_json::from_slice(&body)
                .map_err(|error| RpcError::internal(format!("an answer is no JSON: {error}"))),
        }
    }

    /// What a connection may do over HTTP: as much as its token allows.
    fn caller(&self, peer: &Peer) -> Caller {
        let scope = match &peer.caller.role {
            Role::Bound(agent) => TokenScope::Agent(agent.clone()),
            Role::Host => TokenScope::Admin,
            Role::Unbound if self.is_open => TokenScope::Admin,
            Role::Unbound => TokenScope::Client,
        };
        Caller {
            token_id: None,
            scope,
        }
    }

    /// Follows the events of a thread after a number.
    pub(super) async fn follow(
        &self,
        peer: &Peer,
        thread: &str,
        since: u64,
    ) -> Result<ThreadEvents, RpcError> {
        let path = format!("/v1/threads/{thread}/events?since_seq={since}");
        let (_, body) = self.send(peer, Method::GET, &path, None).await?;
        Ok(ThreadEvents {
            body,
            peer: peer.clone(),
        })
    }
}

/// The events of a thread.
pub(super) struct ThreadEvents {
    body: Body,
    peer: Peer,
}

impl ThreadEvents {
    /// Waits for the next one; `None` when the connection is gone, or the thread is.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let frame = tokio::select! {
                () = self.peer.gone() => return None,
                frame = self.body.frame() => frame,
            };
            let data = frame?.ok()?.into_data().ok();
            if let Some(event) = data.and_then(|data| event_in(&data)) {
                return Some(event);
            }
        }
    }
}

#[async_trait::async_trait]
impl Methods for Sessions {
    async fn call(&self, peer: &Peer, method: &str, mut params: Params) -> Option<Answer> {
        Some(match method {
            "threads.create" => {
                let body = Value::Object(params);
                self.ask(peer, Method::POST, "/v1/threads", Some(&body))
                    .await
            }
            "turns.start" => self.post(peer, method, params, "turns").await,
            "turns.steer" => self.post_to_turn(peer, method, params, "steer").await,
            "turns.interrupt" => self.post_to_turn(peer, method, params, "interrupt").await,
            "events.subscribe" => self.subscribe(peer, &mut params).await,
            "tools.register" => tools::register(self, peer, params).await,
            _ => return None,
        })
    }
}

impl Sessions {
    async fn post(&self, peer: &Peer, method: &str, mut params: Params, verb: &str) -> Answer {
        let thread = take_id(method, &mut params, "thread_id")?;
        let path = format!("/v1/threads/{thread}/{verb}");
        self.ask(peer, Method::POST, &path, Some(&Value::Object(params)))
            .await
    }

    async fn post_to_turn(
        &self,
        peer: &Peer,
        method: &str,
        mut params: Params,
        verb: &str,
    ) -> Answer {
        let turn = take_id(method, &mut params, "turn_id")?;
        self.post(peer, method, params, &format!("turns/{turn}/{verb}"))
            .await
    }

    /// Tells the connection of each event of a thread as `threads.event`.
    async fn subscribe(&self, peer: &Peer, params: &mut Params) -> Answer {
        let thread = take_id("events.subscribe", params, "thread_id")?;
        let since = params.get("since_seq").and_then(Value::as_u64).unwrap_or(0);
        let mut events = self.follow(peer, &thread, since).await?;
        let (peer, followed) = (peer.clone(), thread.clone());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let params = json!({"thread_id": followed, "event": event});
                if !peer.notify("threads.event", &params).await {
                    return;
                }
            }
        });
        Ok(json!({"thread_id": thread, "since_seq": since, "subscribed": true}))
    }
}

/// Takes an id out of the parameters. It becomes a part of a path, so nothing but an id may be in it.
pub(super) fn take_id(method: &str, params: &mut Params, name: &str) -> Result<String, RpcError> {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
    match params.remove(name) {
        Some(Value::String(id)) if !id.is_empty() && id.bytes().all(is_plain) => Ok(id),
        _ => Err(RpcError::invalid_params(format!(
            "{method} requires `{name}`, the id of one that is there"
        ))),
    }
}

async fn whole(body: Body) -> Result<Bytes, RpcError> {
    let body = body.collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|error| RpcError::internal(format!("an answer was cut off: {error}")))
}

/// Finds the event in a frame of server-sent events; comments have none.
fn event_in(frame: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(frame).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    serde_json::from_str(data).ok()
}

/// Says what HTTP said, with the codes of the socket.
fn refusal(status: StatusCode, body: &[u8]) -> RpcError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = body["error"]["message"]
        .as_str()
        .unwrap_or("the request was refused")
        .to_owned();
    match status {
        StatusCode::NOT_FOUND => RpcError::not_found(text),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RpcError::not_authorized(text),
        StatusCode::CONFLICT => RpcError::conflict(text),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => RpcError::limit(text),
        status if status.is_client_error() => RpcError::invalid_params(text),
        _ => RpcError::internal(text),
    }
}
