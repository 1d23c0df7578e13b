//! Reading bodies: their size, their media type and their JSON.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use windlass_core::bounds::{MAX_JSON_DEPTH, is_shallow_text};
use windlass_protocol::ErrorCode;

use super::request::Ignored;
use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::service::fields::{self, Fields};

/// Reads a whole body, up to the limit.
pub(crate) async fn bytes(app: &Shared, body: Body) -> Result<Bytes> {
    let limits = &app.settings.limits;
    let limit = limits.body_bytes;
    let read = Limited::new(body, limit).collect();
    let Ok(read) = tokio::time::timeout(limits.body_time, read).await else {
        let text = "the body did not arrive in time";
        return Err(ApiError::new(ErrorCode::RequestTimeout, text));
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let text = format!("the body is larger than {limit} bytes");
            Err(ApiError::new(ErrorCode::BodyTooLarge, text).with(json!({ "limit": limit })))
        }
        Err(_) => Err(ApiError::new(
            ErrorCode::InvalidJson,
            "the body broke off before its end",
        )),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media = media.and_then(|media| media.split(';').next());
    media.is_some_and(|media| {
        let media = media.trim().to_ascii_lowercase();
        media == "application/json"
            || (media.starts_with("application/") && media.ends_with("+json"))
    })
}

fn parse<T: Fields>(bytes: &[u8], ignored: &Ignored) -> Result<T> {
    if !is_shallow_text(bytes) {
        let text = format!("the body is nested more than {MAX_JSON_DEPTH} deep");
        return Err(ApiError::new(ErrorCode::InvalidJson, text));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let text = format!("the body is not JSON: {error}");
        ApiError::new(ErrorCode::InvalidJson, text)
    })?;
    let Value::Object(fields) = value else {
        return Err(ApiError::field("", "the body must be an object"));
    };
    let (read, unread) = fields::read(fields)?;
    ignored.add(unread);
    Ok(read)
}

/// A body that must be there.
pub(crate) struct Payload<T>(pub(crate) T);

impl<T: Fields> FromRequest<Shared> for Payload<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self> {
        if !is_json(request.headers()) {
            return Err(unsupported());
        }
        let ignored = Ignored::of(&request);
        parse(&bytes(app, request.into_body()).await?, &ignored).map(Self)
    }
}

/// A body in which everything is optional, so that it may be missing.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: Fields + Default> FromRequest<Shared> for Optional<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self> {
        let (is_json, ignored) = (is_json(request.headers()), Ignored::of(&request));
        let bytes = bytes(app, request.into_body()).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        if !is_json {
            return Err(unsupported());
        }
        parse(&bytes, &ignored).map(Self)
    }
}

fn unsupported() -> ApiError {
    ApiError::new(
        ErrorCode::UnsupportedMediaType,
        "Expected request with `Content-Type: application/json`",
    )
}

/// A body that does not matter.
pub(crate) struct Nothing;

impl FromRequest<Shared> for Nothing {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self> {
        bytes(app, request.into_body()).await.map(|_| Self)
    }
}
