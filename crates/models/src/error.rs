//! Errors of providers, without their secrets.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};

/// Maximum bytes of a provider's text in an error.
const MAX_TEXT: usize = 2_000;
/// Names of response headers that contain the request ID.
const REQUEST_IDS: &[&str] = &[
    "request-id",
    "x-request-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-goog-request-id",
    "cf-ray",
];

/// Creates an error from a provider's response. `kind` takes precedence over the kind derived from the status.
pub(crate) fn provider_error(
    status: Option<u16>,
    code: Option<&str>,
    message: &str,
    kind: Option<ErrorKind>,
) -> ProviderError {
    let by_status = status.map(|status| match status {
        400 | 405 | 415 | 422 | 300..=399 => ErrorKind::BadRequest,
        503 | 529 => ErrorKind::Overloaded,
        other => ProviderError::from_status(other, "").kind,
    });
    let text = if message.is_empty() {
        "the provider answered with an error"
    } else {
        message
    };
    ProviderError {
        status,
        code: code.map(str::to_owned),
        ..ProviderError::new(
            kind.or(by_status).unwrap_or(ErrorKind::Server),
            shortened(text),
        )
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{} [cut]", &text[..end]),
        None => text.to_owned(),
    }
}

/// Adds the retry delay and the request ID from the response headers.
pub(crate) fn add_response_headers(
    error: &mut ProviderError,
    head: &HeaderMap,
    now: DateTime<Utc>,
) {
    let text = |name: &str| head.get(name)?.to_str().ok();
    error.retry_after = error.retry_after.or_else(|| {
        let millis = text("retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok());
        millis
            .and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok())
            .or_else(|| retry_delay(text("retry-after")?, now))
    });
    if error.request_id.is_none() {
        error.request_id = REQUEST_IDS
            .iter()
            .find_map(|name| text(name))
            .map(str::to_owned);
    }
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_delay(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = DateTime::parse_from_rfc2822(value).ok()?;
    Some((at.to_utc() - now).to_std().unwrap_or_default())
}

/// Masks the key in a provider's text, which may repeat it.
pub(crate) fn without_key(text: &str, key: &str) -> String {
    if key.len() < 4 || !text.contains(key) {
        return text.to_owned();
    }
    text.replace(key, "[key]")
}

/// Parses a body as JSON, or returns it as a string.
pub(crate) fn body_value(body: &[u8]) -> Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// Returns the value of a string or number field as text.
pub(crate) fn code_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Creates the error of a failed or lost connection.
pub(crate) fn network(error: reqwest::Error) -> ProviderError {
    use std::error::Error as _;
    let kind = if error.is_builder() {
        ErrorKind::BadRequest
    } else {
        ErrorKind::Network
    };
    // The URL is omitted because it may contain a key. The underlying causes explain the failure.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    ProviderError::new(kind, shortened(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z")
            .unwrap()
            .to_utc();
        assert_eq!(retry_delay("7", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_delay("0.5", now), Some(Duration::from_millis(500)));
        let date = "Thu, 01 Jan 2026 00:01:00 GMT";
        assert_eq!(retry_delay(date, now), Some(Duration::from_secs(60)));
        let past = "Wed, 31 Dec 2025 00:00:00 GMT";
        assert_eq!(retry_delay(past, now), Some(Duration::ZERO));
        for bad in ["", "-1", "soon", "NaN", "1e300"] {
            assert_eq!(retry_delay(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn headers_give_retry_delay_and_request_id() {
        let mut head = HeaderMap::new();
        head.insert("retry-after-ms", "250".parse().unwrap());
        head.insert("x-request-id", "req_1".parse().unwrap());
        let mut error = provider_error(Some(429), None, "", None);
        add_response_headers(&mut error, &head, DateTime::UNIX_EPOCH);
        assert_eq!(error.retry_after, Some(Duration::from_millis(250)));
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
        assert_eq!(error.kind, ErrorKind::RateLimited);
    }

    #[test]
    fn keys_are_masked_and_long_texts_truncated() {
        assert_eq!(without_key("bad key sk-123!", "sk-123"), "bad key [key]!");
        assert_eq!(without_key("text", ""), "text");
        let long = provider_error(Some(500), None, &"é".repeat(5_000), None);
        assert!(long.message.ends_with(" [cut]"));
    }
}
