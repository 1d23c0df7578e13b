//! What belongs to one request: its id, who sent it, and the names of fields that nobody read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tracing::Instrument;
use uuid::Uuid;
use windlass_service::ApiError;

use crate::app::Shared;

use crate::error::Refusal;

/// Names the request in answers and in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Names the fields of the request that nobody read.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-windlass-ignored");

/// How many of them are named, and how long a name may be.
const MAX_IGNORED: usize = 16;
const MAX_IGNORED_BYTES: usize = 64;

/// Which request it is, of those that may come again.
#[derive(Clone)]
pub(super) struct Repeatable(pub(super) String);

/// Fields that nobody reads. Whoever reads the body notes them, and the answer names them.
#[derive(Clone, Default)]
pub(super) struct Ignored(Arc<Mutex<Vec<String>>>);

impl Ignored {
    pub(super) fn add(&self, fields: impl Iterator<Item = String>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let short = fields.filter(|name| name.len() <= MAX_IGNORED_BYTES);
        noted.extend(short.take(MAX_IGNORED));
    }

    fn header(&self) -> Option<HeaderValue> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = (!noted.is_empty()).then(|| noted.join(","))?;
        HeaderValue::from_str(&names).ok()
    }
}

/// Gives a request its id and the answer what was noted.
pub(crate) async fn enter(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let id = format!("req_{}", Uuid::now_v7().as_simple());
    let ignored = Ignored::default();
    request.extensions_mut().insert(ignored.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::error_span!("request", id);
    let mut response = next.run(request).instrument(span).await;
    app.service
        .counters
        .requests
        .fetch_add(1, Ordering::Relaxed);
    if response.status().is_server_error() {
        app.service
            .counters
            .failures
            .fetch_add(1, Ordering::Relaxed);
    }
    tracing::debug!(request = id, %method, path, status = response.status().as_u16(), "answered");
    if let Some(failure) = response.extensions_mut().remove::<ApiError>() {
        let named = Refusal(failure.with(json!({ "request_id": id })));
        *response.body_mut() = named.into_response().into_body();
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(names) = ignored.header() {
        headers.insert(IGNORED, names);
    }
    response
}
