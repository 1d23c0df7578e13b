//! Classification of failures reported by Codex.

use serde_json::Value;
use windlass_core::backend::{BackendError, BackendErrorKind, BackendUsage};

use crate::json::{count, cut_text, text};
use crate::limits::codex_status;

/// Reads the error of a turn: a human-readable message and a kind.
pub(super) fn read(error: &Value) -> BackendError {
    let message = text(error, "message").unwrap_or("no reason given");
    let info = &error["codexErrorInfo"];
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

/// Classifies an error by its human-readable message, if nothing else is available.
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

/// Reads token counts; Codex includes cached input in the input count.
pub(super) fn tokens(usage: &Value) -> BackendUsage {
    let cached = count(usage, "cachedInputTokens");
    let written = count(usage, "cacheWriteInputTokens");
    let input = count(usage, "inputTokens");
    BackendUsage {
        input_tokens: input.saturating_sub(cached).saturating_sub(written),
        cached_tokens: cached,
        cache_write_tokens: written,
        output_tokens: count(usage, "outputTokens"),
        reasoning_tokens: count(usage, "reasoningOutputTokens"),
        cost_usd: None,
    }
}
