//! Errors as clients see them.

use serde_json::{Value, json};
use windlass_runs::{Reason, RunError};

/// An error of the protocol: a code, a text, and a reason that programs can rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The number.
    pub code: i64,
    /// What happened, and what to do.
    pub message: String,
    /// The stable word.
    pub reason: &'static str,
    /// The field that it is about, where it is about one.
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
    /// It is not JSON.
    parse = -32700 "parse";
    /// It is not a request.
    invalid_request = -32600 "invalid_request";
    /// A parameter is wrong.
    invalid_params = -32602 "invalid_params";
    /// The connection has not shown a token.
    auth_required = -32001 "auth_required";
    /// The token is wrong.
    auth_failed = -32001 "auth_failed";
    /// There is no such thing for this caller.
    not_found = -32002 "not_found";
    /// The caller may not do that.
    not_authorized = -32002 "not_authorized";
    /// An approval was refused.
    approval_denied = -32003 "approval_denied";
    /// Nobody decided in time.
    approval_timeout = -32003 "approval_timeout";
    /// It took too long.
    deadline = -32004 "deadline";
    /// No common version of the protocol.
    protocol = -32006 "protocol";
    /// A capability is missing.
    capability = -32008 "capability";
    /// The run has its end.
    run_terminal = -32010 "run_terminal";
    /// It does not go together with what is there.
    conflict = -32010 "conflict";
    /// Too much.
    limit = -32009 "limit";
    /// Something else.
    internal = -32603 "internal";
}

impl RpcError {
    /// Nobody knows the method.
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

    pub(crate) fn to_json(&self) -> Value {
        let mut data = json!({"reason": self.reason});
        if let Some(field) = &self.field {
            data["field"] = json!(field);
        }
        json!({"code": self.code, "message": self.message, "data": data})
    }
}

impl From<RunError> for RpcError {
    fn from(error: RunError) -> Self {
        let (code, reason) = match error.reason() {
            Reason::InvalidParams => (-32602, "invalid_params"),
            Reason::NoAgent => (-32602, "no_agent"),
            Reason::AgentMismatch => (-32010, "agent_mismatch"),
            Reason::NotAuthorized => (-32002, "not_authorized"),
            Reason::NotFound => (-32002, "not_found"),
            Reason::RunTerminal => (-32010, "run_terminal"),
            Reason::Conflict => (-32010, "conflict"),
            Reason::Limit => (-32009, "limit"),
            Reason::Corrupt => (-32011, "corrupt"),
            Reason::Storage => (-32603, "storage"),
        };
        if matches!(error.reason(), Reason::Corrupt | Reason::Storage) {
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
