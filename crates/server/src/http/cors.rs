//! Which web pages may use the API.

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::auth::TOKEN_HEADERS;
use super::request;
use windlass_service::Settings;

/// Where web clients of the API run by default. They are trusted only with a token: without one, every program that serves a page
/// on such a port would control the daemon.
const USUAL: [&str; 7] = [
    "http://localhost:3000",
    "http://127.0.0.1:3000",
    "http://localhost:1420",
    "http://127.0.0.1:1420",
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
];

/// The configured origins, and with a token the usual ones; never all.
fn allowed(settings: &Settings) -> impl Iterator<Item = &str> {
    let usual = USUAL.iter().filter(|_| !settings.access.is_open());
    let configured = settings.cors_origins.iter();
    let configured = configured.map(|origin| origin.trim().trim_end_matches('/'));
    let origins = usual.copied().chain(configured);
    origins.filter(|origin| *origin != "*")
}

/// Tells whether a web page of that origin may connect.
pub(crate) fn is_allowed(origin: &[u8], settings: &Settings) -> bool {
    allowed(settings).any(|allowed| allowed.as_bytes() == origin)
}

/// Allows the origins what web pages need.
pub(crate) fn layer(settings: &Settings) -> CorsLayer {
    let origins: Vec<HeaderValue> = allowed(settings)
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
