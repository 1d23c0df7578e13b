//! Classification of errors of OpenAI's APIs and compatible servers.

use serde_json::Value;
use windlass_core::error::{ErrorKind, ProviderError};

use crate::error::{code_text, provider_error};

/// Parses `{"error": {"message", "type", "code"}}`, and the shorter forms of other servers.
pub(crate) fn classify(status: Option<u16>, body: &Value) -> ProviderError {
    let error = body.get("error").unwrap_or(body);
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    let message = text("message")
        .or_else(|| error.as_str())
        .or_else(|| body.get("detail")?.as_str())
        .unwrap_or_default();
    let code = code_text(error.get("code")).or_else(|| code_text(error.get("type")));
    let kind = code.as_deref().and_then(kind_of);
    let too_long = matches!(status, Some(400 | 422) | None) && is_too_long(message);
    let kind = kind.or(too_long.then_some(ErrorKind::TooLarge));
    provider_error(status, code.as_deref(), message, kind)
}

fn kind_of(code: &str) -> Option<ErrorKind> {
    Some(match code {
        "context_length_exceeded" | "string_above_max_length" | "request_too_large" => {
            ErrorKind::TooLarge
        }
        "invalid_api_key" | "account_deactivated" | "authentication_error" => ErrorKind::Auth,
        // A retry does not restore the credit.
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => {
            ErrorKind::Auth
        }
        "rate_limit_exceeded" | "rate_limit_error" | "tokens" | "requests" => {
            ErrorKind::RateLimited
        }
        "model_not_found" | "DeploymentNotFound" => ErrorKind::ModelMissing,
        "content_filter" | "content_policy_violation" | "invalid_prompt" | "cyber_policy" => {
            ErrorKind::Refused
        }
        "server_is_overloaded" | "overloaded" | "overloaded_error" | "slow_down" => {
            ErrorKind::Overloaded
        }
        "server_error" | "internal_error" | "vector_store_timeout" => ErrorKind::Server,
        _ => return None,
    })
}

/// Servers without a code for it use the text of OpenAI's oldest API.
fn is_too_long(message: &str) -> bool {
    message.contains("maximum context length")
        || message.contains("exceeds the available context size")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(status: u16, body: &Value) -> ErrorKind {
        classify(Some(status), body).kind
    }

    #[test]
    fn error_code_overrides_the_status() {
        let of = |code: &str| json!({ "error": { "message": "m", "code": code } });
        assert_eq!(
            kind(400, &of("context_length_exceeded")),
            ErrorKind::TooLarge
        );
        assert_eq!(kind(400, &of("content_filter")), ErrorKind::Refused);
        assert_eq!(kind(429, &of("insufficient_quota")), ErrorKind::Auth);
        assert_eq!(kind(400, &of("something")), ErrorKind::BadRequest);
        assert_eq!(kind(503, &of("")), ErrorKind::Overloaded);
    }

    #[test]
    fn compatible_servers_use_other_error_forms() {
        let vllm = json!({ "object": "error", "message": "This model's maximum context length is 8 tokens", "code": 400 });
        let error = classify(Some(400), &vllm);
        assert_eq!(
            (error.kind, error.code.as_deref()),
            (ErrorKind::TooLarge, Some("400"))
        );
        let ollama = json!({ "error": "model 'x' not found" });
        let error = classify(Some(404), &ollama);
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::ModelMissing, "model 'x' not found")
        );
        assert_eq!(classify(Some(502), &json!("<html>")).message, "<html>");
    }
}
