//! Per-request data: its ID, its caller, and the names of unknown fields.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::json;
use tracing::Instrument;
use uuid::Uuid;
use windlass_service::ApiError;

use crate::app::SharedApp;
use crate::error::HttpRefusal;

/// Identifies the request in responses and in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Lists the request's unknown fields.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-windlass-ignored");

/// Limits on the number of listed names and on their length.
const MAX_IGNORED: usize = 16;
const MAX_IGNORED_BYTES: usize = 64;

/// Identifies a request that may be repeated.
#[derive(Clone)]
pub(super) struct Repeatable(pub(super) String);

/// Unknown fields. Body parsing records them, and the response lists them.
#[derive(Clone, Default)]
pub(super) struct IgnoredFields(Arc<Mutex<Vec<String>>>);

impl IgnoredFields {
    pub(super) fn add(&self, fields: impl Iterator<Item = String>) {
        let mut noted = self.0.lock();
        let short = fields.filter(|name| name.len() <= MAX_IGNORED_BYTES);
        noted.extend(short.take(MAX_IGNORED));
    }

    fn header(&self) -> Option<HeaderValue> {
        let noted = self.0.lock();
        let names = (!noted.is_empty()).then(|| noted.join(","))?;
        HeaderValue::from_str(&names).ok()
    }
}

/// Assigns a request ID and adds the recorded names to the response.
pub(crate) async fn enter(
    State(app): State<SharedApp>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = format!("req_{}", Uuid::now_v7().as_simple());
    let ignored = IgnoredFields::default();
    request.extensions_mut().insert(ignored.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::error_span!("request", id);
    let mut response = next.run(request).instrument(span).await;
    let counters = &app.service.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
    if response.status().is_server_error() {
        counters.failures.fetch_add(1, Ordering::Relaxed);
    }
    tracing::debug!(request = id, %method, path, status = response.status().as_u16(), "answered");
    if let Some(failure) = response.extensions_mut().remove::<ApiError>() {
        let refusal = HttpRefusal(failure.with(json!({ "request_id": id })));
        *response.body_mut() = refusal.into_response().into_body();
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
