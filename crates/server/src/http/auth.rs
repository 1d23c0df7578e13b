//! Authentication and authorization of requests.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use windlass_protocol::ErrorCode;
use windlass_protocol::operations::RequiredScope;
use windlass_service::{ApiCaller, ApiError, Settings, authenticate};

use super::{answers, browser, query};
use crate::app::SharedApp;
use crate::error::HttpRefusal;
use crate::pending_connections::PendingConnection;
use crate::routes::required_scope;

/// Headers that contain a bare token.
pub(crate) const TOKEN_HEADERS: [&str; 3] = [
    "x-windlass-runtime-token",
    "x-codewhale-runtime-token",
    "x-deepseek-runtime-token",
];
const COOKIES: [&str; 2] = ["windlass_runtime_token", "codewhale_runtime_token"];

/// The message for an unknown or revoked token.
const INVALID_TOKEN: &str = "the token is invalid";

/// Passes requests whose token has the scope that the route requires.
pub(crate) async fn check(
    State(app): State<SharedApp>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let required = match route {
        Some(route) => required_scope(route.as_str(), request.method()),
        // Any valid token may learn that the route does not exist.
        None => RequiredScope::Agent,
    };
    if required == RequiredScope::Anyone {
        return next.run(request).await;
    }
    let caller = match caller(&app.service.settings, request.headers()) {
        Ok(caller) => caller,
        Err(refusal) => return HttpRefusal(refusal).into_response(),
    };
    if let Some(pending) = request.extensions().get::<Arc<PendingConnection>>()
        && let Err(refusal) = pending.admit(caller.credential())
    {
        return HttpRefusal(refusal).into_response();
    }
    let path = request.uri().path();
    let thread = path.split('/').nth(3).unwrap_or_default();
    if let Err(refusal) = app
        .service
        .check_scope(&caller, required, thread, path)
        .await
    {
        return HttpRefusal(refusal).into_response();
    }
    browser::note_use(&app, &caller);
    request.extensions_mut().insert(caller.clone());
    let response = next.run(request).await;
    answers::count(&app, &caller, response)
}

pub(super) fn unauthorized() -> ApiError {
    ApiError::new(ErrorCode::Unauthorized, "runtime API bearer token required")
}

/// Returns the client that a request authenticates as.
pub(crate) fn caller(settings: &Settings, headers: &HeaderMap) -> Result<ApiCaller, ApiError> {
    let access = &settings.access;
    if access.is_open() {
        return Ok(ApiCaller::operator());
    }
    let secrets = presented_tokens(headers);
    let mut unavailable = None;
    for secret in &secrets {
        match authenticate(access, secret) {
            Ok(Some(caller)) => return Ok(caller),
            Ok(None) => {}
            Err(error) => unavailable = Some(error),
        }
    }
    match browser::session(settings, headers) {
        Ok(Some(caller)) => return Ok(caller),
        Ok(None) => {}
        Err(error) => unavailable = Some(error),
    }
    if secrets.iter().all(Vec::is_empty) {
        return Err(unavailable.unwrap_or_else(unauthorized));
    }
    Err(unavailable.unwrap_or_else(|| unauthorized().with_message(INVALID_TOKEN)))
}

/// Returns all tokens that a request presents.
fn presented_tokens(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let values = headers.get_all(header::AUTHORIZATION).iter();
    let bearers = values.filter_map(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked("bearer ".len())?;
        let is_bearer = scheme.eq_ignore_ascii_case(b"bearer ");
        is_bearer.then(|| token.trim_ascii().to_vec())
    });
    let plain = TOKEN_HEADERS.iter().filter_map(|name| {
        let value = headers.get(*name)?;
        Some(value.as_bytes().trim_ascii().to_vec())
    });
    let mut all: Vec<Vec<u8>> = bearers.chain(plain).collect();
    if is_same_origin(headers) {
        all.extend(cookies(headers));
    }
    all
}

fn cookies(headers: &HeaderMap) -> Vec<Vec<u8>> {
    let tokens = cookie_pairs(headers).filter_map(|(name, value)| {
        let token = COOKIES.contains(&name).then(|| query::decoded(value))?;
        token.map(String::into_bytes)
    });
    tokens.collect()
}

/// Returns the names and values of all cookies.
pub(super) fn cookie_pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(header::COOKIE).iter();
    let texts = texts.filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

/// Browsers send cookies with requests from any page, so cookies are accepted only from the daemon's own pages.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return false;
    }
    let Some(origin) = text("origin") else {
        return true;
    };
    let hosts = origin.split_once("://").zip(text("host"));
    hosts.is_some_and(|((_, of_origin), host)| of_origin.eq_ignore_ascii_case(host))
}
