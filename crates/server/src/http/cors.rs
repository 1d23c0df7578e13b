//! Which web pages may use the API.

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::auth::TOKEN_HEADERS;
use super::request;

/// Where clients live today.
const USUAL: [&str; 7] = [
    "http://localhost:3000",
    "http://127.0.0.1:3000",
    "http://localhost:1420",
    "http://127.0.0.1:1420",
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
];

/// The usual origins and those that the operator adds; never all.
fn allowed(further: &[String]) -> impl Iterator<Item = &str> {
    let further = further.iter();
    let further = further.map(|origin| origin.trim().trim_end_matches('/'));
    let origins = USUAL.into_iter().chain(further);
    origins.filter(|origin| *origin != "*")
}

/// Tells whether a web page of that origin may connect.
pub(crate) fn is_allowed(origin: &[u8], further: &[String]) -> bool {
    allowed(further).any(|allowed| allowed.as_bytes() == origin)
}

/// Allows the origins what web pages need.
pub(crate) fn layer(further: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> = allowed(further)
        .filter_map(|origin| HeaderValue::from_str(origin).ok())
        .collect();
    let tokens = TOKEN_HEADERS
        .iter()
        .map(|name| HeaderName::from_static(name));
    let headers: Vec<HeaderName> = [
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::ACCEPT,
        HeaderName::from_static("last-event-id"),
        super::idempotency::KEY,
    ]
    .into_iter()
    .chain(tokens)
    .collect();
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ])
        .allow_headers(headers)
        .expose_headers([
            request::IGNORED,
            request::REQUEST_ID,
            crate::routes::NEXT_CURSOR,
        ])
        .vary([header::ORIGIN])
}
