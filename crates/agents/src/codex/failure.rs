//! What Codex says of a failure.

use serde_json::Value;
use windlass_core::backend::{BackendError, BackendErrorKind, BackendUsage};

use crate::json::{count, cut_text, text};
use crate::limits::codex_status;

/// Reads the error of a turn: a text for people, and what kind it is.
pub(super) fn read(error: &Value) -> BackendError {
    let message = text(error, "message").unwrap_or("it does not say why");
    let info = error.get("codexErrorInfo").unwrap_or(&Value::Null);
    let key = info.as_object().and_then(|info| info.keys().next());
    let name = info
        .as_str()
        .or(key.map(String::as_str))
        .unwrap_or_default();
    let kind = match (name, codex_status(info)) {
        ("usageLimitExceeded", _) | (_, Some(429)) => BackendErrorKind::RateLimit,
        (_, Some(401 | 403)) | ("unauthorized", _) => BackendErrorKind::Auth,
        (_, Some(500..)) | ("serverOverloaded" | "internalServerError", _) => {
            BackendErrorKind::Server
        }
        ("httpConnectionFailed" | "responseStreamConnectionFailed", None) => {
            BackendErrorKind::Network
        }
        ("responseStreamDisconnected", None) => BackendErrorKind::Network,
        ("sessionBudgetExceeded", _) => BackendErrorKind::Budget,
        _ => by_text(message),
    };
    BackendError::new(kind, cut_text(message, 1024))
}

/// Judges a text for people, where there is nothing else.
pub(super) fn by_text(message: &str) -> BackendErrorKind {
    let has = |part: &str| message.contains(part);
    match () {
        () if has("429 Too Many Requests") || has("hit your usage limit") => {
            BackendErrorKind::RateLimit
        }
        () if has("401 Unauthorized") || has("403 Forbidden") => BackendErrorKind::Auth,
        () if has("status 5") || has("last status: 5") => BackendErrorKind::Server,
        () if has("stream disconnected") || has("error sending request") => {
            BackendErrorKind::Network
        }
        () => BackendErrorKind::Failed,
    }
}

/// Reads counts of tokens; Codex counts what came from a cache as input too. The names differ between its two modes.
pub(super) fn tokens(usage: &Value, names: &TokenNames) -> BackendUsage {
    let cached = count(usage, names.cached);
    let written = count(usage, names.cache_write);
    let input = count(usage, names.input);
    BackendUsage {
        input_tokens: input.saturating_sub(cached).saturating_sub(written),
        cached_tokens: cached,
        cache_write_tokens: written,
        output_tokens: count(usage, names.output),
        reasoning_tokens: count(usage, names.reasoning),
        cost_usd: None,
    }
}

pub(super) struct TokenNames {
    pub(super) input: &'static str,
    pub(super) cached: &'static str,
    pub(super) cache_write: &'static str,
    pub(super) output: &'static str,
    pub(super) reasoning: &'static str,
}
