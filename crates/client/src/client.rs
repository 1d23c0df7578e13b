//! Requests and their answers.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_protocol::ErrorBody;

use crate::connect::Connect;
use crate::error::ClientError;
use crate::events::Events;

/// How much of an answer that nobody understands is shown.
const SHOWN: usize = 400;

/// Speaks to a daemon. Copies speak to the same one.
#[derive(Clone)]
pub struct Client {
    connect: Arc<dyn Connect>,
    token: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Speaks over these connections and shows this token.
    pub fn new(connect: impl Connect + 'static, token: Option<String>) -> Self {
        Self {
            connect: Arc::new(connect),
            token,
        }
    }

    /// Reads something.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, None, &[]).await
    }

    /// Asks for something to be done.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.ask(Method::POST, path, Some(serde_json::to_vec(body)?), &[])
            .await
    }

    /// Asks for something to be done once: the same key is the same request, also over a restart of the daemon.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: &str,
    ) -> Result<T, ClientError> {
        let body = Some(serde_json::to_vec(body)?);
        let key = (HeaderName::from_static("idempotency-key"), key.to_owned());
        self.ask(Method::POST, path, body, &[key]).await
    }

    /// Changes something.
    pub async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.ask(Method::PATCH, path, Some(serde_json::to_vec(body)?), &[])
            .await
    }

    /// Removes something.
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.answer(Method::DELETE, path, None, &[]).await?;
        Ok(())
    }

    /// Reads something that may be long, and writes it where it is wanted.
    pub async fn download(&self, path: &str, to: &mut impl Write) -> Result<(), ClientError> {
        let answer = self.answer(Method::GET, path, None, &[]).await?;
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.map_err(ClientError::Broken)?.into_data() {
                to.write_all(&piece).map_err(ClientError::Unwritten)?;
            }
        }
        Ok(())
    }

    /// Follows a thread from the event after a number on.
    pub async fn events(&self, thread_id: &str, since: u64) -> Result<Events, ClientError> {
        let path = format!("/v1/threads/{thread_id}/events?since_seq={since}");
        let accept = (ACCEPT, "text/event-stream".to_owned());
        let answer = self.answer(Method::GET, &path, None, &[accept]).await?;
        Ok(Events::of(answer.into_body()))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(HeaderName, String)],
    ) -> Result<T, ClientError> {
        let answer = self.answer(method, path, body, headers).await?;
        let text = answer.into_body().collect().await;
        Ok(serde_json::from_slice(
            &text.map_err(ClientError::Broken)?.to_bytes(),
        )?)
    }

    /// Sends a request and returns a good answer.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(HeaderName, String)],
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|error| ClientError::BadRequest(error.to_string()))?;
        let stream = self.connect.connect().await;
        let stream = TokioIo::new(stream.map_err(ClientError::Unreachable)?);
        let (mut sender, connection) = http1::handshake(stream)
            .await
            .map_err(ClientError::Broken)?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(ClientError::Broken)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await;
        let text = text.map_err(ClientError::Broken)?.to_bytes();
        Err(match serde_json::from_slice::<ErrorBody>(&text) {
            Ok(body) => ClientError::Refused(Box::new(body)),
            Err(_) => ClientError::Status {
                status,
                text: String::from_utf8_lossy(&text).chars().take(SHOWN).collect(),
            },
        })
    }
}
