//! Classification of Anthropic's errors.

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};

use crate::error::provider_error;

/// Reads `{"type": "error", "error": {"type", "message"}, "request_id"}`.
pub(crate) fn classify(status: Option<u16>, body: &Value) -> ProviderError {
    let error = body.get("error").unwrap_or(body);
    let code = error["type"].as_str();
    let message = error["message"].as_str().or_else(|| error.as_str());
    let message = message.unwrap_or_default();
    let kind = match code {
        Some("authentication_error" | "permission_error" | "billing_error") => {
            Some(ErrorKind::Auth)
        }
        Some("not_found_error") => Some(ErrorKind::ModelMissing),
        Some("request_too_large") => Some(ErrorKind::TooLarge),
        Some("rate_limit_error") => Some(ErrorKind::RateLimited),
        Some("overloaded_error") => Some(ErrorKind::Overloaded),
        Some("timeout_error") => Some(ErrorKind::Timeout),
        Some("api_error") => Some(ErrorKind::Server),
        Some("invalid_request_error") if is_too_long(message) => Some(ErrorKind::TooLarge),
        Some("invalid_request_error") => Some(ErrorKind::BadRequest),
        _ => None,
    };
    ProviderError {
        request_id: body["request_id"].as_str().map(str::to_owned),
        ..provider_error(status, code, message, kind)
    }
}

/// An oversized prompt is reported only by this text, not by an error code.
fn is_too_long(message: &str) -> bool {
    message.starts_with("prompt is too long")
        || message.starts_with("input length and `max_tokens` exceed context limit")
}
