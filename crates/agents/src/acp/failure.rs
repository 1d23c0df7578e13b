//! What agents that speak ACP say of a failure.

use serde_json::Value;
use windlass_core::backend::{BackendError, BackendErrorKind};

use crate::json::{cut_text, text};
use crate::rpc::RpcError;

/// The code by which ACP says that somebody has to log in.
const AUTH_REQUIRED: i64 = -32000;
/// What an adapter of Codex says as if it were an answer.
const RETRIES_EXCEEDED: &str = "exceeded retry limit, last status: 429";

/// Judges an error of the agent's.
pub(super) fn read(error: &RpcError) -> BackendError {
    let class = text(&error.data, "errorKind").or(text(&error.data, "codexErrorInfo"));
    let kind = match (error.code, class) {
        (429, _) | (_, Some("rate_limit" | "usageLimitExceeded")) => BackendErrorKind::RateLimit,
        (AUTH_REQUIRED | 401 | 403, _) | (_, Some("authentication_failed")) => {
            BackendErrorKind::Auth
        }
        (500..=599, _) | (_, Some("server_error")) => BackendErrorKind::Server,
        _ => BackendErrorKind::Failed,
    };
    let details = match &error.data {
        Value::String(details) => Some(details.as_str()),
        data => text(data, "details").or(text(data, "message")),
    };
    let message = match details {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    };
    BackendError::new(kind, cut_text(&message, 1024))
}

/// The end of an answer, kept to see whether it was an error in disguise.
#[derive(Debug, Default)]
pub(super) struct AnswerTail(String);

impl AnswerTail {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn push(&mut self, piece: &str) {
        self.0.push_str(piece);
        let mut start = self.0.len().saturating_sub(1024);
        while !self.0.is_char_boundary(start) {
            start += 1;
        }
        self.0.drain(..start);
    }

    /// Returns the error that was told as an answer.
    pub(super) fn disguised(&self) -> Option<BackendError> {
        let is_error = self.0.contains(RETRIES_EXCEEDED);
        is_error.then(|| BackendError::new(BackendErrorKind::RateLimit, RETRIES_EXCEEDED))
    }
}
