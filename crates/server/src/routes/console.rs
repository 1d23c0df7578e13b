//! The web console: pages and assets, and the login of browsers.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use windlass_console::{Answer, ROOT, SECURITY_HEADERS};
use windlass_protocol::ErrorCode;
use windlass_service::{ApiCaller, ApiError, LoginSecret, Logins, NewSession, TokenScope};

use super::HandlerResult;
use crate::app::SharedApp;
use crate::error::{HttpRefusal, Result};
use crate::http::browser::BrowserConnection;
use crate::http::{auth, body, host};

/// Maximum bytes of a login request.
const LOGIN_BYTES: usize = 4 * 1024;
/// How long browsers store the cookie, in seconds. The daemon ends sessions earlier.
const COOKIE_SECONDS: u32 = 30 * 24 * 60 * 60;

/// The body of `POST /console/login`: either field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    code: Option<String>,
    token: Option<String>,
}

/// A session, as its page sees it.
#[derive(Serialize)]
struct Session {
    /// The value of the header `X-Windlass-Key`; only after the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Whether a login is necessary: not if the daemon requires no token.
    login: bool,
    scope: TokenScope,
}

/// Returns the routes.
pub(super) fn router() -> Router<SharedApp> {
    Router::new()
        .route(ROOT, get(page))
        .route(&format!("{ROOT}/"), get(page))
        .route(&format!("{ROOT}/{{*path}}"), get(page))
        .route(&format!("{ROOT}/login"), post(log_in).get(page))
        .route(&format!("{ROOT}/logout"), post(log_out))
        .route(&format!("{ROOT}/session"), get(session))
        .layer(from_fn(with_security_headers))
}

async fn with_security_headers(request: Request, next: Next) -> Response<Body> {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

async fn page(State(app): State<SharedApp>, request: Request) -> Response<Body> {
    let path = request.uri().path();
    let path = path.strip_prefix(ROOT).unwrap_or(path);
    let settings = &app.service.settings;
    let connection = BrowserConnection::of(settings, request.headers());
    let is_asset = path.starts_with("/assets/");
    if connection == BrowserConnection::Insecure && !settings.access.is_open() && !is_asset {
        let host = host::of(request.headers()).unwrap_or_default();
        return respond(app.console.insecure_connection(host));
    }
    respond(app.console.answer(path))
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
    response
}

/// Exchanges a code or a token for a session.
async fn log_in(State(app): State<SharedApp>, request: Request) -> HandlerResult {
    let settings = &app.service.settings;
    let (head, content) = request.into_parts();
    let connection = check_page(&app, &head.headers)?;
    if settings.access.is_open() {
        return json(&Session {
            key: None,
            login: false,
            scope: TokenScope::Admin,
        });
    }
    if !body::is_json(&head.headers) {
        return Err(body::unsupported().into());
    }
    let content = tokio::time::timeout(settings.limits.body_time, to_bytes(content, LOGIN_BYTES));
    let content = content.await.ok().and_then(std::result::Result::ok);
    let content = content.ok_or_else(|| {
        let text = format!("a login has at most {LOGIN_BYTES} bytes");
        ApiError::new(ErrorCode::BodyTooLarge, text)
    })?;
    let request: LogIn = serde_json::from_slice(&content).map_err(|_| {
        // The error could quote a secret.
        let text = "a login is {\"code\": …} or {\"token\": …}";
        ApiError::new(ErrorCode::InvalidJson, text)
    })?;
    let logins = logins(&app)?.clone();
    let access = settings.access.clone();
    let created = tokio::task::spawn_blocking(move || {
        let login = match (&request.code, &request.token) {
            (Some(code), None) => LoginSecret::Code(code),
            (None, Some(token)) => LoginSecret::Token(token),
            _ => return Err(ApiError::field("", "a login has either a code or a token")),
        };
        logins.log_in(&access, &login)
    });
    let NewSession {
        cookie,
        key,
        caller,
    } = created.await.map_err(ApiError::internal)??;
    let mut response = json(&Session {
        key: Some(key),
        login: true,
        scope: caller.scope,
    })?;
    set_cookie(&mut response, connection, &cookie, COOKIE_SECONDS)?;
    Ok(response)
}

/// Returns the session of a page.
async fn session(State(app): State<SharedApp>, headers: HeaderMap) -> HandlerResult {
    let caller = auth::caller(&app.service.settings, &headers)?;
    json(&Session {
        key: None,
        login: !app.service.settings.access.is_open(),
        scope: caller.scope,
    })
}

/// Ends the session of a page.
async fn log_out(State(app): State<SharedApp>, headers: HeaderMap) -> HandlerResult {
    let connection = check_page(&app, &headers)?;
    let ApiCaller { session, .. } = auth::caller(&app.service.settings, &headers)?;
    if let Some(id) = session {
        let logins = logins(&app)?.clone();
        let ended = tokio::task::spawn_blocking(move || logins.log_out(&id));
        ended.await.map_err(ApiError::internal)??;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, connection, "", 0)?;
    Ok(response)
}

/// Refuses requests of other pages, and those over a connection that others could read.
fn check_page(app: &SharedApp, headers: &HeaderMap) -> Result<BrowserConnection> {
    let forbidden = |text| Err(ApiError::new(ErrorCode::Forbidden, text));
    // Other programs log in with a token in each request.
    if !host::is_own_page(headers) {
        return forbidden("only a page of the console can log in and out");
    }
    match BrowserConnection::of(&app.service.settings, headers) {
        BrowserConnection::Insecure => forbidden(
            "the connection could be read by others; log in on the daemon's machine, or through a proxy with TLS (--public-url)",
        ),
        connection => Ok(connection),
    }
}

fn logins(app: &SharedApp) -> Result<&Logins> {
    let logins = app.service.settings.logins.as_ref();
    logins.ok_or_else(|| {
        let text = "this daemon stores no logins";
        ApiError::new(ErrorCode::Forbidden, text)
    })
}

fn set_cookie(
    response: &mut Response<Body>,
    connection: BrowserConnection,
    value: &str,
    seconds: u32,
) -> Result<()> {
    if let Some(cookie) = connection.set_cookie(value, seconds) {
        let cookie = HeaderValue::try_from(cookie).map_err(ApiError::internal)?;
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(())
}

fn json(value: &impl Serialize) -> HandlerResult {
    let body = serde_json::to_vec(value).map_err(|error| HttpRefusal(ApiError::internal(error)))?;
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, body).into_response())
}
