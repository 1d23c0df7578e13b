//! Reads request bodies: size limits, media type and JSON.

use std::error::Error;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;
use windlass_protocol::ErrorCode;
use windlass_service::{ApiCaller, ApiError, Quota, Share, Validity, tokens_unavailable};

use super::auth;
use crate::app::SharedApp;
use crate::error::Result;

/// Reads a body up to the limit, within the caller's quota for concurrently read bodies. A body may take minutes, so the caller's token is checked
/// again once the body is complete.
pub(crate) async fn bytes(
    app: &SharedApp,
    caller: Option<&ApiCaller>,
    body: Body,
) -> Result<Bytes> {
    let token = caller.and_then(ApiCaller::credential);
    let share = Share::none(&app.service, token, Quota::BodyBytes);
    let limits = &app.service.settings.limits;
    let read = read(body, limits.body_bytes, share);
    let read = tokio::time::timeout(limits.body_time, read).await;
    let bytes = read.unwrap_or_else(|_| {
        let text = "the body did not arrive in time";
        Err(ApiError::new(ErrorCode::RequestTimeout, text))
    })?;
    if let Some(token) = token {
        match app.service.settings.validity(token) {
            Validity::Valid => {}
            Validity::Invalid => return Err(auth::unauthorized()),
            Validity::Unknown => return Err(tokens_unavailable()),
        }
    }
    Ok(bytes)
}

async fn read(body: Body, limit: usize, mut share: Share) -> Result<Bytes> {
    let mut body = Limited::new(body, limit);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&*error, limit))?;
        if let Ok(data) = frame.into_data() {
            share.grow(data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.into())
}

fn broken(error: &(dyn Error + Send + Sync + 'static), limit: usize) -> ApiError {
    if error.is::<LengthLimitError>() {
        let text = format!("the body is larger than {limit} bytes");
        return ApiError::new(ErrorCode::BodyTooLarge, text).with(json!({ "limit": limit }));
    }
    let text = "the body broke off before its end";
    ApiError::new(ErrorCode::InvalidJson, text)
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE);
    let media = media.and_then(|value| value.to_str().ok()?.split(';').next());
    media.is_some_and(|media| {
        let media = media.trim().to_ascii_lowercase();
        media == "application/json"
            || (media.starts_with("application/") && media.ends_with("+json"))
    })
}

pub(crate) fn unsupported() -> ApiError {
    let text = "Expected request with `Content-Type: application/json`";
    ApiError::new(ErrorCode::UnsupportedMediaType, text)
}
