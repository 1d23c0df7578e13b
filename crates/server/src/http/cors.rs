//! Origins of web pages that may use the API.

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};
use windlass_service::Settings;

use super::auth::TOKEN_HEADERS;
use super::request;

/// Default origins of web clients. They are trusted only if a token is required: otherwise any program that serves a page on such a port would
/// control the daemon.
const DEFAULT_ORIGINS: [&str; 7] = [
    "http://localhost:3000",
    "http://127.0.0.1:3000",
    "http://localhost:1420",
    "http://127.0.0.1:1420",
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
];

/// The configured origins and, if a token is required, the default ones; never a wildcard.
fn allowed(settings: &Settings) -> impl Iterator<Item = &str> {
    let defaults = DEFAULT_ORIGINS
        .iter()
        .filter(|_| !settings.access.is_open());
    let configured = settings.cors_origins.iter();
    let configured = configured.map(|origin| origin.trim().trim_end_matches('/'));
    let origins = defaults.copied().chain(configured);
    origins.filter(|origin| *origin != "*")
}

/// Returns whether a web page of that origin may connect.
pub(crate) fn is_allowed(origin: &[u8], settings: &Settings) -> bool {
    allowed(settings).any(|allowed| allowed.as_bytes() == origin)
}

/// Builds the CORS layer.
pub(crate) fn layer(settings: &Settings) -> CorsLayer {
    let origins: Vec<HeaderValue> = allowed(settings)
        .filter_map(|origin| HeaderValue::from_str(origin).ok())
        .collect();
    let tokens = TOKEN_HEADERS
        .iter()
        .map(|name| HeaderName::from_static(name));
    let mut headers = vec![
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        header::ACCEPT,
        HeaderName::from_static("last-event-id"),
        super::idempotency::KEY,
    ];
    headers.extend(tokens);
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
