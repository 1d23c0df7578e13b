//! Classification of Gemini's errors.

use std::time::Duration;

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};

use crate::error::provider_error;

/// Parses `{"error": {"code", "message", "status", "details"}}`, which may be wrapped in an array.
pub(crate) fn classify(status: Option<u16>, body: &Value) -> ProviderError {
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").unwrap_or(body);
    let code = error["status"].as_str();
    let message = error["message"].as_str().or_else(|| error.as_str());
    let message = message.unwrap_or_default();
    let details = || error["details"].as_array().into_iter().flatten();
    let bad_key = details().any(|detail| detail["reason"] == "API_KEY_INVALID");
    let kind = match code {
        Some("INVALID_ARGUMENT") if bad_key => Some(ErrorKind::Auth),
        Some("INVALID_ARGUMENT") if is_too_long(message) => Some(ErrorKind::TooLarge),
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE") => {
            Some(ErrorKind::BadRequest)
        }
        Some("UNAUTHENTICATED" | "PERMISSION_DENIED") => Some(ErrorKind::Auth),
        Some("NOT_FOUND") => Some(ErrorKind::ModelMissing),
        Some("RESOURCE_EXHAUSTED") => Some(ErrorKind::RateLimited),
        Some("UNAVAILABLE") => Some(ErrorKind::Overloaded),
        Some("DEADLINE_EXCEEDED") => Some(ErrorKind::Timeout),
        Some("INTERNAL" | "UNKNOWN" | "ABORTED") => Some(ErrorKind::Server),
        _ => None,
    };
    let in_body = error["code"]
        .as_u64()
        .and_then(|code| u16::try_from(code).ok());
    ProviderError {
        retry_after: details().find_map(|detail| seconds(detail["retryDelay"].as_str()?)),
        ..provider_error(status.or(in_body), code, message, kind)
    }
}

/// Parses a duration such as `"34.07s"`.
fn seconds(text: &str) -> Option<Duration> {
    let number = text.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(number).ok()
}

/// An oversized prompt is reported only by this text, not by an error code.
fn is_too_long(message: &str) -> bool {
    message.contains("token count") && message.contains("exceeds the maximum number of tokens")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_delay_is_read_from_the_details() {
        let body = json!([{ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m",
            "details": [{ "@type": "other" }, { "retryDelay": "34.5s" }] } }]);
        let error = classify(Some(429), &body);
        assert_eq!(error.kind, ErrorKind::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn invalid_key_is_distinguished_from_other_invalid_arguments() {
        let body = json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": "m",
            "details": [{ "reason": "API_KEY_INVALID" }] } });
        assert_eq!(classify(Some(400), &body).kind, ErrorKind::Auth);
        let body =
            json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": "m" } });
        assert_eq!(classify(Some(400), &body).kind, ErrorKind::BadRequest);
    }
}
