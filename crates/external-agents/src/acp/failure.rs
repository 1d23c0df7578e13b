//! Classification of failures reported by ACP agents.

use serde_json::Value;
use windlass_core::backend::{BackendError, BackendErrorKind};
use windlass_core::bounds::suffix;
use windlass_core::json_rpc::ErrorObject;

use crate::json::{cut_text, text};

/// ACP error code: the user must log in.
const AUTH_REQUIRED: i64 = -32000;
/// Text that the Codex adapter returns as a regular answer when it fails.
const RETRIES_EXCEEDED: &str = "exceeded retry limit, last status: 429";

/// Classifies a JSON-RPC error from the agent.
pub(super) fn read(error: &ErrorObject) -> BackendError {
    let data = error.data.as_ref().unwrap_or(&Value::Null);
    let class = text(data, "errorKind").or(text(data, "codexErrorInfo"));
    let kind = match (error.code, class) {
        (429, _) | (_, Some("rate_limit" | "usageLimitExceeded")) => BackendErrorKind::RateLimit,
        (AUTH_REQUIRED | 401 | 403, _) | (_, Some("authentication_failed")) => {
            BackendErrorKind::Auth
        }
        (500..=599, _) | (_, Some("server_error")) => BackendErrorKind::Server,
        _ => BackendErrorKind::Failed,
    };
    let details = match data {
        Value::String(details) => Some(details.as_str()),
        data => text(data, "details").or(text(data, "message")),
    };
    let message = match details {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    };
    BackendError::new(kind, cut_text(&message, 1024))
}

/// The tail of an answer, inspected for an error that the agent reported as answer text.
#[derive(Debug, Default)]
pub(super) struct AnswerTail(String);

impl AnswerTail {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn push(&mut self, piece: &str) {
        self.0.push_str(piece);
        self.0 = suffix(&self.0, 1024).to_owned();
    }

    /// Returns the error if the answer was an error in disguise.
    pub(super) fn disguised(&self) -> Option<BackendError> {
        let is_error = self.0.contains(RETRIES_EXCEEDED);
        is_error.then(|| BackendError::new(BackendErrorKind::RateLimit, RETRIES_EXCEEDED))
    }
}
