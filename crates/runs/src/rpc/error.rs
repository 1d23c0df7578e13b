//! Errors as clients see them.

use serde_json::json;
use windlass_core::json_rpc::ErrorObject;

use crate::RunError;

/// A protocol error: a code, a message, and a stable reason for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// JSON-RPC error code.
    pub code: i64,
    /// What happened, and how to fix it.
    pub message: String,
    /// Stable reason for programs.
    pub reason: &'static str,
    /// The offending field, if there is one.
    pub field: Option<String>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal $reason:literal;)*) => {
        impl RpcError {
            $($(#[$doc])*
            #[must_use]
            pub fn $name(message: impl Into<String>) -> Self {
                Self { code: $code, message: message.into(), reason: $reason, field: None }
            })*
        }
    };
}

kinds! {
    /// The frame is not JSON.
    parse = -32700 "parse";
    /// The frame is not a request.
    invalid_request = -32600 "invalid_request";
    /// A parameter is invalid.
    invalid_params = -32602 "invalid_params";
    /// The connection has not presented a token.
    auth_required = -32001 "auth_required";
    /// The token is invalid.
    auth_failed = -32001 "auth_failed";
    /// The object does not exist for this caller.
    not_found = -32002 "not_found";
    /// The caller lacks permission.
    not_authorized = -32002 "not_authorized";
    /// An approval was refused.
    approval_denied = -32003 "approval_denied";
    /// The approval timed out.
    approval_timeout = -32003 "approval_timeout";
    /// The call exceeded its deadline.
    deadline = -32004 "deadline";
    /// No common version of the protocol.
    protocol = -32006 "protocol";
    /// A capability is missing.
    capability = -32008 "capability";
    /// The run has already ended.
    run_terminal = -32010 "run_terminal";
    /// The request conflicts with the current state.
    conflict = -32010 "conflict";
    /// A limit is exceeded.
    limit = -32009 "limit";
    /// Any other failure.
    internal = -32603 "internal";
}

impl RpcError {
    /// The method is unknown.
    #[must_use]
    pub fn unknown_method(method: &str) -> Self {
        let method: String = method.chars().take(200).collect();
        Self {
            code: -32601,
            message: format!("unknown method: {method}"),
            reason: "unknown_method",
            field: None,
        }
    }

    /// A field that the method does not read.
    pub(crate) fn unknown_field(message: String, field: String) -> Self {
        Self {
            code: -32602,
            message,
            reason: "unknown_field",
            field: Some(field),
        }
    }
}

impl From<RpcError> for ErrorObject {
    fn from(error: RpcError) -> Self {
        let mut data = json!({"reason": error.reason});
        if let Some(field) = error.field {
            data["field"] = json!(field);
        }
        Self::new(error.code, error.message).with_data(data)
    }
}

impl From<RunError> for RpcError {
    fn from(error: RunError) -> Self {
        let (code, reason) = error.code_and_reason();
        if matches!(error, RunError::Corrupt(_) | RunError::Storage(_)) {
            tracing::error!(%error, "a run could not be recorded or read");
        }
        Self {
            code,
            message: error.to_string(),
            reason,
            field: None,
        }
    }
}
