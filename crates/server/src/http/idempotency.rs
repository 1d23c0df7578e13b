//! Idempotent requests: the same key and body return the first response again.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use windlass_protocol::ErrorCode;
use windlass_service::{ApiCaller, ApiError, KeyedRequest, StoredAnswer};

use super::body;
use super::request::Repeatable;
use crate::app::SharedApp;
use crate::error::{HttpRefusal, Result};

/// The header with the key.
pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks a replayed response.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Maximum length of a key in bytes.
const MAX_KEY: usize = 255;

/// Returns the stored response for a repeated request.
pub(crate) async fn check(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let is_stream = request.uri().path() == "/v1/stream";
    let key = request.headers().get(KEY).cloned();
    match key {
        Some(key) if request.method() == Method::POST && !is_stream => {
            once(&app, &key, request, next)
                .await
                .unwrap_or_else(|refusal| HttpRefusal(refusal).into_response())
        }
        _ => next.run(request).await,
    }
}

async fn once(
    app: &SharedApp,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response> {
    let key = key.to_str().ok();
    let key = key.filter(|key| (1..=MAX_KEY).contains(&key.len()));
    let key = key.ok_or_else(|| {
        let text = format!("an idempotency key has 1 to {MAX_KEY} printable characters");
        ApiError::field("", text)
    })?;
    let (mut head, content) = request.into_parts();
    let caller = head.extensions.get::<ApiCaller>();
    let content = body::bytes(app, caller, content).await?;
    let keyed = KeyedRequest::new(caller, key, &head.uri.to_string(), &content);
    head.extensions.insert(Repeatable(keyed.repeatable()));
    let KeyedRequest { key, digest } = keyed;
    let key = key.as_str();
    let _alone = app.service.keyed_requests.lock(key).await;
    if let Some(stored) = app.service.store.answer(key).await? {
        if stored.request != digest {
            return Err(ApiError::new(
                ErrorCode::IdempotencyConflict,
                "the idempotency key was used for another request",
            ));
        }
        return Ok(replay(stored));
    }
    let response = next
        .run(Request::from_parts(head, Body::from(content)))
        .await;
    // A refused request changed nothing and may be retried.
    if !response.status().is_success() {
        return Ok(response);
    }
    let (head, content) = response.into_parts();
    let content = to_bytes(content, usize::MAX).await;
    let content = content.map_err(ApiError::internal)?;
    let media = head.headers.get(header::CONTENT_TYPE);
    let answer = StoredAnswer {
        request: digest,
        status: head.status.as_u16(),
        content_type: media.and_then(|media| Some(media.to_str().ok()?.to_owned())),
        body: content.to_vec(),
        at: Utc::now(),
    };
    app.service.store.store_answer(key, answer).await?;
    Ok(Response::from_parts(head, Body::from(content)))
}

fn replay(stored: StoredAnswer) -> Response {
    let mut response = Response::new(Body::from(stored.body));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or_default();
    let headers = response.headers_mut();
    let media = stored.content_type.map(HeaderValue::try_from);
    if let Some(Ok(media)) = media {
        headers.insert(header::CONTENT_TYPE, media);
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
