//! Reading bodies: their size, their media type and their JSON.

use std::error::Error;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::bounds::{MAX_JSON_DEPTH, is_shallow_text};
use windlass_protocol::ErrorCode;
use windlass_service::{
    Access, ApiError, Caller, Quota, Share, TokenLookup, UnknownFields, fields, tokens_unavailable,
};

use super::auth;
use super::request::Ignored;
use crate::app::Shared;

use crate::error::{Refusal, Result};

/// Reads a whole body: up to the limit, and while all bodies of the caller that are read at once are within theirs. A body
/// may take minutes, so the caller's token is checked again when it is complete.
pub(crate) async fn bytes(app: &Shared, caller: Option<&Caller>, body: Body) -> Result<Bytes> {
    let token = caller.and_then(|caller| caller.token_id.as_deref());
    let share = Share::none(&app.service, token, Quota::BodyBytes);
    let limits = &app.service.settings.limits;
    let read = read(body, limits.body_bytes, share);
    let read = tokio::time::timeout(limits.body_time, read).await;
    let bytes = read.unwrap_or_else(|_| {
        let text = "the body did not arrive in time";
        Err(ApiError::new(ErrorCode::RequestTimeout, text))
    })?;
    if let (Some(token), Access::Tokens { stored, .. }) = (token, &app.service.settings.access) {
        match stored.by_id(token) {
            TokenLookup::Present(_) => {}
            TokenLookup::Absent => return Err(auth::unauthorized()),
            TokenLookup::Unknown => return Err(tokens_unavailable()),
        }
    }
    Ok(bytes)
}

async fn read(body: Body, limit: usize, mut share: Share) -> Result<Bytes> {
    let mut body = Limited::new(body, limit);
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&*error, limit))?;
        if let Ok(data) = frame.into_data() {
            share.grow(data.len())?;
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.into())
}

fn broken(error: &(dyn Error + Send + Sync + 'static), limit: usize) -> ApiError {
    if error.is::<LengthLimitError>() {
        let text = format!("the body is larger than {limit} bytes");
        return ApiError::new(ErrorCode::BodyTooLarge, text).with(json!({ "limit": limit }));
    }
    let text = "the body broke off before its end";
    ApiError::new(ErrorCode::InvalidJson, text)
}

async fn whole(app: &Shared, request: Request) -> Result<Bytes> {
    let (head, body) = request.into_parts();
    bytes(app, head.extensions.get::<Caller>(), body).await
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

fn parse<T: DeserializeOwned>(bytes: &[u8], ignored: &Ignored) -> Result<(T, UnknownFields)> {
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
    let (read, unknown) = fields::read(fields)?;
    ignored.add(unknown.top_level());
    Ok((read, unknown))
}

/// A body that must be there.
pub(crate) struct Payload<T>(pub(crate) T, pub(crate) UnknownFields);

impl<T: DeserializeOwned> FromRequest<Shared> for Payload<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            return Err(unsupported().into());
        }
        let ignored = Ignored::of(&request);
        let (body, unknown) = parse(&whole(app, request).await?, &ignored)?;
        Ok(Self(body, unknown))
    }
}

/// A body in which everything is optional, so that it may be missing.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Shared> for Optional<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Refusal> {
        let (is_json, ignored) = (is_json(request.headers()), Ignored::of(&request));
        let bytes = whole(app, request).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        if !is_json {
            return Err(unsupported().into());
        }
        Ok(Self(parse(&bytes, &ignored)?.0))
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
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Refusal> {
        whole(app, request).await?;
        Ok(Self)
    }
}
