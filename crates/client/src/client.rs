//! Requests and their responses.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use windlass_protocol::api::{Call, CallError, CallFuture, Page, ResponseStream, RuntimeApi};
use windlass_protocol::operations::{self, Endpoint, RequestBody, ResponseForm};
use windlass_protocol::{ErrorBody, for_each_operation};

use crate::backoff::Backoff;
use crate::connect::Connect;
use crate::events::{Events, ResumableStream};
use crate::raw::RawParts;

/// The characters of an unreadable error body that are reported.
const MAX_ERROR_TEXT: usize = 400;
/// The header with the `cursor` of the next page of a list.
const NEXT_CURSOR: &str = "x-windlass-next-cursor";

/// The Runtime API of a daemon over a connection. Clones use the same daemon.
///
/// Each call opens a connection of its own. A response in [`Frames`](ResponseForm::Frames) or
/// [`Lines`](ResponseForm::Lines) is a stream of bytes: its parts end anywhere, also inside a line.
#[derive(Clone)]
pub struct Client {
    connect: Arc<dyn Connect>,
    token: Option<String>,
    /// `None` ends an event stream with its connection.
    pub(crate) reconnect: Option<Backoff>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client that sends this token with each request.
    pub fn new(connect: impl Connect + 'static, token: Option<String>) -> Self {
        Self {
            connect: Arc::new(connect),
            token,
            reconnect: Some(Backoff::default()),
        }
    }

    /// Ends event streams with their connection, for a caller that looks for the next daemon itself.
    #[must_use]
    pub fn without_reconnect(mut self) -> Self {
        self.reconnect = None;
        self
    }

    /// Sends a request and returns a successful response.
    pub(crate) async fn send<E: Endpoint>(
        &self,
        call: &Call<E>,
    ) -> Result<Response<Incoming>, CallError> {
        let request = self.request(call)?;
        let stream = self.connect.connect().await;
        let stream = TokioIo::new(stream.map_err(CallError::Unreachable)?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(broken)?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = bytes(response).await?;
        Err(match serde_json::from_slice::<ErrorBody>(&text) {
            Ok(body) => CallError::Refused(Box::new(body)),
            Err(_) => CallError::Status {
                status,
                text: String::from_utf8_lossy(&text)
                    .chars()
                    .take(MAX_ERROR_TEXT)
                    .collect(),
            },
        })
    }

    fn request<E: Endpoint>(&self, call: &Call<E>) -> Result<Request<Full<Bytes>>, CallError> {
        let operation = E::OPERATION;
        let mut request = Request::builder()
            .method(operation.method.as_str())
            .uri(call.target()?)
            .header(HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(key) = &call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if operation.response == ResponseForm::Events {
            request = request.header(ACCEPT, "text/event-stream");
        }
        if operation.body != RequestBody::None {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(call.body()?)));
        request.map_err(|error| CallError::InvalidRequest(error.to_string()))
    }

    async fn json<E: Endpoint>(&self, call: Call<E>) -> Result<E::Response, CallError>
    where
        E::Response: DeserializeOwned,
    {
        let body = bytes(self.send(&call).await?).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    async fn list<E, T>(&self, call: Call<E>) -> Result<Page<T>, CallError>
    where
        E: Endpoint<Response = Page<T>>,
        T: DeserializeOwned,
    {
        let response = self.send(&call).await?;
        let next = response.headers().get(NEXT_CURSOR);
        let next = next.and_then(|cursor| cursor.to_str().ok());
        let next = next.map(str::to_owned);
        let entries = serde_json::from_slice(&bytes(response).await?)?;
        Ok(Page { entries, next })
    }

    async fn text<E: Endpoint>(&self, call: Call<E>) -> Result<String, CallError> {
        let body = bytes(self.send(&call).await?).await?;
        String::from_utf8(body.into()).map_err(|error| CallError::Broken(error.into()))
    }

    async fn empty<E: Endpoint>(&self, call: Call<E>) -> Result<(), CallError> {
        bytes(self.send(&call).await?).await?;
        Ok(())
    }

    async fn raw<E: Endpoint>(&self, call: Call<E>) -> Result<ResponseStream<Vec<u8>>, CallError> {
        let response = self.send(&call).await?;
        Ok(Box::new(RawParts(response.into_body())))
    }

    async fn events<E: ResumableStream>(
        &self,
        call: Call<E>,
    ) -> Result<ResponseStream<E::Event>, CallError> {
        let response = self.send(&call).await?;
        let body = response.into_body();
        Ok(Box::new(Events::new(self.clone(), call, body)))
    }
}

async fn bytes(response: Response<Incoming>) -> Result<Bytes, CallError> {
    let body = response.into_body().collect().await;
    Ok(body.map_err(broken)?.to_bytes())
}

pub(crate) fn broken(error: hyper::Error) -> CallError {
    CallError::Broken(error.into())
}

/// Receives the response of a call by its form.
macro_rules! receive {
    (Json $client:ident $call:ident) => {
        $client.json($call)
    };
    (List $client:ident $call:ident) => {
        $client.list($call)
    };
    (Events $client:ident $call:ident) => {
        $client.events($call)
    };
    (Frames $client:ident $call:ident) => {
        $client.raw($call)
    };
    (Lines $client:ident $call:ident) => {
        $client.raw($call)
    };
    (Text $client:ident $call:ident) => {
        $client.text($call)
    };
    (Empty $client:ident $call:ident) => {
        $client.empty($call)
    };
}

macro_rules! implement {
    ($($name:ident $function:ident $form:ident;)*) => {
        impl RuntimeApi for Client {
            $(fn $function(
                &self,
                call: Call<operations::$name>,
            ) -> CallFuture<'_, <operations::$name as Endpoint>::Response> {
                Box::pin(receive!($form self call))
            })*
        }
    };
}

for_each_operation!(implement);
