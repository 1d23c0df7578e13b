//! Interpretation of Claude Code's `result` line. `subtype` alone is not reliable.

use serde_json::Value;
use windlass_core::backend::{BackendEnd, BackendError, BackendErrorKind, BackendUsage};

use crate::json::{count, cut_text, status, text};

/// Facts collected from a turn before its `result` line.
#[derive(Debug, Default)]
pub(super) struct TurnEvidence {
    /// The class of the last error that the program reported in an answer.
    pub(super) error: Option<String>,
    pub(super) is_limited: bool,
    pub(super) is_interrupted: bool,
}

pub(super) fn evaluate(
    result: &Value,
    evidence: &TurnEvidence,
) -> Result<BackendEnd, BackendError> {
    let is_error = result["is_error"].as_bool();
    let subtype = text(result, "subtype").unwrap_or_default();
    let reason = text(result, "terminal_reason").unwrap_or_default();
    if reason.starts_with("aborted")
        || evidence.is_interrupted && subtype == "error_during_execution"
    {
        return Ok(BackendEnd::Interrupted);
    }
    if is_error == Some(false) && subtype == "success" {
        return Ok(BackendEnd::Completed);
    }
    let kind = kind(result, subtype, evidence);
    Err(BackendError::new(kind, message(result)))
}

fn kind(result: &Value, subtype: &str, evidence: &TurnEvidence) -> BackendErrorKind {
    let status = status(result, "api_error_status");
    match (subtype, status, evidence.error.as_deref()) {
        ("error_max_turns", _, _) => BackendErrorKind::TurnLimit,
        ("error_max_budget_usd", _, _) => BackendErrorKind::Budget,
        (_, Some(429), _) => BackendErrorKind::RateLimit,
        (_, None, _) if evidence.is_limited => BackendErrorKind::RateLimit,
        (_, Some(401 | 403), _) => BackendErrorKind::Auth,
        (_, Some(500..), _) => BackendErrorKind::Server,
        (_, None, Some("authentication_failed")) => BackendErrorKind::Auth,
        (_, None, Some("rate_limit")) => BackendErrorKind::RateLimit,
        (_, None, Some("server_error")) => BackendErrorKind::Server,
        (_, None, Some(_)) if message(result).to_lowercase().contains("connect") => {
            BackendErrorKind::Network
        }
        _ => BackendErrorKind::Failed,
    }
}

pub(super) fn message(result: &Value) -> String {
    let errors = result["errors"].as_array();
    let first = errors.and_then(|errors| errors.first()?.as_str());
    let message_text = text(result, "result").or(first);
    cut_text(message_text.unwrap_or("no reason given"), 1024)
}

pub(super) fn tokens(result: &Value) -> Option<BackendUsage> {
    let usage = result.get("usage").filter(|usage| usage.is_object())?;
    let details = &usage["output_tokens_details"];
    Some(BackendUsage {
        input_tokens: count(usage, "input_tokens"),
        cached_tokens: count(usage, "cache_read_input_tokens"),
        cache_write_tokens: count(usage, "cache_creation_input_tokens"),
        output_tokens: count(usage, "output_tokens"),
        reasoning_tokens: count(details, "thinking_tokens"),
        cost_usd: None,
    })
}
