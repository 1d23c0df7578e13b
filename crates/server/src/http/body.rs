//! Reading bodies. Whatever is wrong with one is told by a code and, where there is one, the place of the field.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_protocol::{self as wire, ErrorCode};

use super::scope;
use crate::app::Shared;
use crate::error::ApiError;

/// A body that clients send.
pub(crate) trait Fields: DeserializeOwned {
    /// The names that are read; others are named in the answer's header.
    const FIELDS: &'static [&'static str];
}

macro_rules! fields {
    ($($ty:path: $($field:literal)*;)*) => {$(
        impl Fields for $ty {
            const FIELDS: &'static [&'static str] = &[$($field),*];
        }
    )*};
}

fields! {
    wire::CreateThread: "model" "model_provider" "model_provider_id" "workspace" "mode" "allow_shell" "trust_mode"
        "auto_approve" "archived" "system_prompt" "task_id" "title" "reasoning_effort" "dynamic_tools" "environments" "on_restart";
    wire::PatchThread: "archived" "allow_shell" "trust_mode" "auto_approve" "model" "mode" "title" "system_prompt"
        "workspace" "reasoning_effort" "dynamic_tools" "environments" "on_restart";
    wire::StartTurn: "prompt" "input_summary" "model" "mode" "allow_shell" "trust_mode" "auto_approve" "dynamic_tools"
        "environment_id" "reasoning_effort" "allowed_tools" "disallowed_tools";
    wire::SteerTurn: "prompt";
    wire::ForkThread: "turn_id" "model";
    wire::UndoThread: "depth";
    wire::RetryThread: "depth" "prompt" "model";
    wire::CompactThread: "reason";
    wire::DynamicToolCallResult: "success" "content";
    wire::DecideApproval: "decision" "remember";
    wire::UserInputAnswers: "answers";
    wire::CreateEnvironment: "id" "kind" "root" "policy";
    wire::stream::OneShot: "prompt" "model" "mode" "workspace" "allow_shell" "trust_mode" "auto_approve";
}

/// Reads a whole body, up to the limit.
pub(crate) async fn bytes(app: &Shared, body: Body) -> Result<Bytes, ApiError> {
    let limit = app.settings.limits.body_bytes;
    match Limited::new(body, limit).collect().await {
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

fn parse<T: Fields>(bytes: &[u8]) -> Result<T, ApiError> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::new(
            ErrorCode::InvalidJson,
            format!("the body is not JSON: {error}"),
        )
    })?;
    let Value::Object(fields) = &value else {
        return Err(ApiError::field("", "the body must be an object"));
    };
    let names = fields.keys().cloned();
    let unread: Vec<String> = names
        .filter(|name| !T::FIELDS.contains(&name.as_str()))
        .collect();
    let read = serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let mut pointer = match path.as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace(['.', '['], "/").replace(']', "")),
        };
        let text = error.into_inner().to_string();
        // serde names a missing field in its text only.
        let missing = text.strip_prefix("missing field `");
        if let Some(name) = missing.and_then(|rest| rest.split('`').next()) {
            pointer = format!("{pointer}/{name}");
        }
        ApiError::field(&pointer, text)
    })?;
    scope::ignore(unread);
    Ok(read)
}

/// A body that must be there.
pub(crate) struct Payload<T>(pub(crate) T);

impl<T: Fields> FromRequest<Shared> for Payload<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        if !is_json {
            return Err(unsupported());
        }
        parse(&bytes(app, request.into_body()).await?).map(Self)
    }
}

/// A body in which everything is optional, so that it may be missing.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: Fields + Default> FromRequest<Shared> for Optional<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, ApiError> {
        let is_json = is_json(request.headers());
        let bytes = bytes(app, request.into_body()).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        if !is_json {
            return Err(unsupported());
        }
        parse(&bytes).map(Self)
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

    async fn from_request(request: Request, app: &Shared) -> Result<Self, ApiError> {
        bytes(app, request.into_body()).await.map(|_| Self)
    }
}
