//! The web console: pages and assets.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use windlass_console::{Answer, ROOT, SECURITY_HEADERS};

use crate::app::SharedApp;

/// Returns the routes.
pub(super) fn router() -> Router<SharedApp> {
    Router::new()
        .route(ROOT, get(page))
        .route(&format!("{ROOT}/"), get(page))
        .route(&format!("{ROOT}/{{*path}}"), get(page))
}

async fn page(State(app): State<SharedApp>, request: Request) -> Response<Body> {
    let path = request.uri().path();
    respond(app.console.answer(path.strip_prefix(ROOT).unwrap_or(path)))
}

fn respond(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body.into_owned()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(answer.content_type),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static(answer.cache_control),
    );
    for (name, value) in SECURITY_HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}
