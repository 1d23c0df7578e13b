//! What belongs to one request: its id, and the names of fields that nobody read.

use std::cell::{OnceCell, RefCell};
use std::sync::atomic::Ordering;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use crate::app::Shared;
use crate::tokens::Caller;

/// Names the request in answers and in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Names the fields of the request that nobody read.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-windlass-ignored");

struct Scope {
    id: String,
    caller: OnceCell<Caller>,
    repeatable: OnceCell<String>,
    ignored: RefCell<Vec<String>>,
}

tokio::task_local! {
    static SCOPE: Scope;
}

/// Returns the id of the request at hand; empty outside of requests.
pub(crate) fn request_id() -> String {
    SCOPE.try_with(|scope| scope.id.clone()).unwrap_or_default()
}

/// Says who sent the request at hand.
pub(crate) fn name_caller(caller: Caller) {
    let _ = SCOPE.try_with(|scope| scope.caller.set(caller));
}

/// Returns who sent the request at hand; `None` outside of requests, and where nobody is asked.
pub(crate) fn caller() -> Option<Caller> {
    let caller = SCOPE.try_with(|scope| scope.caller.get().cloned());
    caller.ok().flatten()
}

/// Says which request this is, of those that may come again.
pub(crate) fn name_repeatable(digest: &str) {
    let _ = SCOPE.try_with(|scope| scope.repeatable.set(digest.to_owned()));
}

/// Returns which request this is; `None` for one that may not come again.
pub(crate) fn repeatable() -> Option<String> {
    let digest = SCOPE.try_with(|scope| scope.repeatable.get().cloned());
    digest.ok().flatten()
}

/// Notes fields that nobody reads.
pub(crate) fn ignore(fields: impl IntoIterator<Item = String>) {
    let _ = SCOPE.try_with(|scope| scope.ignored.borrow_mut().extend(fields));
}

/// Gives a request its id and the answer what was noted.
pub(crate) async fn enter(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let scope = Scope {
        id: format!("req_{}", Uuid::now_v7().as_simple()),
        caller: OnceCell::new(),
        repeatable: OnceCell::new(),
        ignored: RefCell::default(),
    };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    SCOPE
        .scope(scope, async move {
            let mut response = next.run(request).await;
            app.counters.requests.fetch_add(1, Ordering::Relaxed);
            if response.status().is_server_error() {
                app.counters.failures.fetch_add(1, Ordering::Relaxed);
            }
            let (id, ignored) = SCOPE.with(|scope| (scope.id.clone(), scope.ignored.take()));
            tracing::debug!(request = id, %method, path, status = response.status().as_u16(), "answered");
            let headers = response.headers_mut();
            if let Ok(id) = HeaderValue::from_str(&id) {
                headers.insert(REQUEST_ID, id);
            }
            if !ignored.is_empty()
                && let Ok(names) = HeaderValue::from_str(&ignored.join(","))
            {
                headers.insert(IGNORED, names);
            }
            response
        })
        .await
}
