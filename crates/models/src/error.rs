//! Errors of providers: what is recorded of them, and what never is.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;
use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};

/// Maximum bytes of a provider's text in an error.
const MAX_TEXT: usize = 2_000;
/// The names under which providers send the id of a request.
const REQUEST_IDS: &[&str] = &[
    "request-id",
    "x-request-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-goog-request-id",
    "cf-ray",
];

/// Makes an error of what a provider said about it. The kind comes from its code where that says more than the status.
pub(crate) fn said(
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

/// Adds what the head of a response says: how long to wait, and the provider's id of the request.
pub(crate) fn add_head(error: &mut ProviderError, head: &HeaderMap, now: DateTime<Utc>) {
    let text = |name: &str| head.get(name)?.to_str().ok();
    error.retry_after = error.retry_after.or_else(|| {
        let millis = text("retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok());
        millis
            .and_then(|ms| Duration::try_from_secs_f64(ms / 1_000.0).ok())
            .or_else(|| wait(text("retry-after")?, now))
    });
    if error.request_id.is_none() {
        error.request_id = REQUEST_IDS
            .iter()
            .find_map(|name| text(name))
            .map(str::to_owned);
    }
}

/// Reads `Retry-After`: seconds, or a date.
fn wait(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = DateTime::parse_from_rfc2822(value).ok()?;
    Some((at.to_utc() - now).to_std().unwrap_or_default())
}

/// Takes the key out of a text that a provider may have repeated it in.
pub(crate) fn without_key(text: &str, key: &str) -> String {
    if key.len() < 4 || !text.contains(key) {
        return text.to_owned();
    }
    text.replace(key, "[key]")
}

/// Reads a body that should be JSON; what is not stays readable as text.
pub(crate) fn body_value(body: &[u8]) -> Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// Returns the text of a field, also when it is a number.
pub(crate) fn code_text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Makes the error of a connection that did not come about or was lost.
pub(crate) fn network(error: reqwest::Error) -> ProviderError {
    use std::error::Error as _;
    let kind = if error.is_builder() {
        ErrorKind::BadRequest
    } else {
        ErrorKind::Network
    };
    // The address is left out: it may hold a key. The cause underneath says what went wrong.
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
        assert_eq!(wait("7", now), Some(Duration::from_secs(7)));
        assert_eq!(wait("0.5", now), Some(Duration::from_millis(500)));
        let date = "Thu, 01 Jan 2026 00:01:00 GMT";
        assert_eq!(wait(date, now), Some(Duration::from_secs(60)));
        let past = "Wed, 31 Dec 2025 00:00:00 GMT";
        assert_eq!(wait(past, now), Some(Duration::ZERO));
        for bad in ["", "-1", "soon", "NaN", "1e300"] {
            assert_eq!(wait(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn the_head_gives_the_wait_and_the_request_id() {
        let mut head = HeaderMap::new();
        head.insert("retry-after-ms", "250".parse().unwrap());
        head.insert("x-request-id", "req_1".parse().unwrap());
        let mut error = said(Some(429), None, "", None);
        add_head(&mut error, &head, DateTime::UNIX_EPOCH);
        assert_eq!(error.retry_after, Some(Duration::from_millis(250)));
        assert_eq!(error.request_id.as_deref(), Some("req_1"));
        assert_eq!(error.kind, ErrorKind::RateLimited);
    }

    #[test]
    fn a_key_is_taken_out_and_a_long_text_is_cut() {
        assert_eq!(without_key("bad key sk-123!", "sk-123"), "bad key [key]!");
        assert_eq!(without_key("text", ""), "text");
        let long = said(Some(500), None, &"é".repeat(5_000), None);
        assert!(long.message.ends_with(" [cut]"));
    }
}
