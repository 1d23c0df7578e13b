//! Upgrades a request to a WebSocket.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use windlass_protocol::ErrorCode;
use windlass_service::ApiError;

use super::{Sockets, socket};
use crate::error::HttpRefusal;
use crate::http::{auth, browser, cors, host};
use crate::pending_connections::{Kind, PendingConnection};

/// Maximum bytes of a subprotocol name.
const MAX_SUBPROTOCOL_BYTES: usize = 256;

/// Answers an upgrade request and serves the socket.
pub(super) async fn upgrade(State(rpc): State<Sockets>, mut request: Request) -> Response<Body> {
    let headers = request.headers();
    if !is_socket_request(headers) {
        #[cfg(feature = "console")]
        if is_browser(&request) {
            return (StatusCode::SEE_OTHER, [(header::LOCATION, "/console/")]).into_response();
        }
        let text = "this path accepts JSON-RPC over WebSocket; the HTTP API is under /v1";
        return HttpRefusal(ApiError::new(ErrorCode::UnknownPath, text)).into_response();
    }
    // Browsers let any page connect anywhere and send the page's origin; other programs send none.
    if let Some(origin) = headers.get(header::ORIGIN)
        && !host::is_own_page(headers)
        && !cors::is_allowed(origin.as_bytes(), &rpc.app.service.settings)
    {
        return (StatusCode::FORBIDDEN, "this origin may not connect\n").into_response();
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    let (Some(key), Some("13")) = (key, version.and_then(|version| version.to_str().ok())) else {
        let mut refusal = StatusCode::UPGRADE_REQUIRED.into_response();
        let known = header::HeaderValue::from_static("13");
        refusal
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_VERSION, known);
        return refusal;
    };
    let accept = derive_accept_key(key.as_bytes());
    let Ok(subprotocol) = subprotocol(headers) else {
        let text = "sec-websocket-protocol is not a list of names\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let pending = match PendingConnection::enter(&rpc.app, Kind::Socket) {
        Ok(pending) => pending,
        Err(refusal) => return HttpRefusal(refusal).into_response(),
    };
    let settings = &rpc.app.service.settings;
    let identity = socket::SocketIdentity {
        caller: if settings.access.is_open() {
            None
        } else {
            auth::caller(settings, request.headers()).ok()
        },
        cookie: browser::cookie(settings, request.headers()).map(str::to_owned),
    };
    let upgrade = hyper::upgrade::on(&mut request);
    rpc.app.service.detached_tasks.spawn({
        let rpc = rpc.clone();
        async move {
            match upgrade.await {
                Ok(io) => socket::serve(&rpc, TokioIo::new(io), identity, pending).await,
                Err(error) => tracing::debug!(%error, "a connection was not upgraded to a socket"),
            }
        }
    });
    let mut answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(subprotocol) = subprotocol {
        answer = answer.header(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    let answer = answer.body(Body::empty());
    answer.unwrap_or_else(|error| HttpRefusal(ApiError::internal(error)).into_response())
}

/// The requested subprotocols are not valid names.
struct InvalidSubprotocol;

/// Selects the first requested subprotocol. All names mean the same protocol here, and clients that request one close the socket if none is selected.
fn subprotocol(headers: &HeaderMap) -> Result<Option<String>, InvalidSubprotocol> {
    let mut first = None;
    for value in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL) {
        let value = value.to_str().map_err(|_| InvalidSubprotocol)?;
        for name in value.split(',').map(str::trim) {
            if name.is_empty() || name.len() > MAX_SUBPROTOCOL_BYTES || !name.bytes().all(is_token)
            {
                return Err(InvalidSubprotocol);
            }
            first.get_or_insert_with(|| name.to_owned());
        }
    }
    Ok(first)
}

/// Returns whether the character is valid in an HTTP token.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether a user has opened the daemon's address in a browser.
#[cfg(feature = "console")]
fn is_browser(request: &Request) -> bool {
    let accept = request.headers().get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    request.uri().path() == "/" && accept.is_some_and(|accept| accept.contains("text/html"))
}

fn is_socket_request(headers: &HeaderMap) -> bool {
    let has = |name, expected: &str| {
        let values = headers.get_all(name).iter();
        let mut words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(expected))
    };
    has(header::CONNECTION, "upgrade") && has(header::UPGRADE, "websocket")
}
