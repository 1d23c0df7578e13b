//! Errors of requests. The HTTP status follows from the code, never from the message.

use serde_json::{Value, json};
use windlass_core::error::AgentLoopError;
use windlass_protocol::api::CallError;
use windlass_protocol::{ErrorBody, ErrorCode};
use windlass_runs::rpc::RpcError;
use windlass_store::JournalError;
use windlass_store::queries::QueryError;

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// An error with its stable code.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    details: Option<Value>,
    retry_after: Option<u64>,
}

impl ApiError {
    /// Creates an error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            retry_after: None,
        }
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Returns the message for the client.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the number of seconds after which a client may retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// Sets the details: named values for programs.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Returns whether the store cannot be read or written now.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.code() == ErrorCode::StoreUnavailable
    }

    /// Refuses a field of the body, named by its JSON pointer.
    pub fn field(pointer: &str, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidField, message).with(json!({ "field": pointer }))
    }

    /// Refuses a parameter of the query string.
    pub fn query(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidQuery, message)
    }

    pub(crate) fn thread_not_found(id: &str) -> Self {
        Self::new(ErrorCode::ThreadNotFound, format!("Thread not found: {id}"))
    }

    pub(crate) fn turn_not_found() -> Self {
        Self::new(ErrorCode::TurnNotFound, "Turn not found")
    }

    /// Returns the JSON pointer of the field that caused it.
    pub(crate) fn pointer(&self) -> Option<&str> {
        self.details.as_ref()?.get("field")?.as_str()
    }

    /// Changes the field that caused it.
    pub(crate) fn at(mut self, pointer: &str) -> Self {
        let details = self.details.as_mut();
        if let Some(field) = details.and_then(|details| details.get_mut("field")) {
            *field = pointer.into();
        }
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    pub(crate) fn turn_active(turn_id: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::TurnActive, "Thread already has an active turn")
            .with(json!({ "turn_id": turn_id.to_string() }))
    }

    /// Refuses a request over a limit; the client may repeat it later.
    pub fn limit(what: &str, limit: usize) -> Self {
        let text = format!("the limit of {limit} {what} is reached; try again later");
        Self {
            retry_after: Some(1),
            ..Self::new(ErrorCode::LimitReached, text).with(json!({"limit": limit, "of": what}))
        }
    }

    /// Logs the error; the client learns only that an internal error occurred.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "internal error");
        Self::new(
            ErrorCode::Internal,
            "internal error; the log has details under the request id",
        )
    }

    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::new(
            ErrorCode::NotImplemented,
            format!("{what} is not built yet"),
        )
    }
}

impl From<AgentLoopError> for ApiError {
    fn from(error: AgentLoopError) -> Self {
        match &error {
            AgentLoopError::SessionNotFound(_) => {
                Self::new(ErrorCode::ThreadNotFound, "Thread not found")
            }
            AgentLoopError::TurnNotFound { .. } => {
                Self::new(ErrorCode::TurnNotFound, "Turn not found")
            }
            AgentLoopError::UnsupportedInput { model, .. } => {
                Self::new(ErrorCode::UnsupportedInput, error.to_string())
                    .with(json!({ "model": model }))
            }
            AgentLoopError::NotForkable { reason, .. } => Self::new(
                ErrorCode::NotForkable,
                format!("the thread cannot be forked there: {reason}; fork it at a later turn"),
            ),
            AgentLoopError::NotReplayable { reason, .. } => Self::new(
                ErrorCode::NotReplayable,
                format!("the thread cannot be replayed: {reason}"),
            ),
            AgentLoopError::TurnBusy { turn_id, .. }
            | AgentLoopError::TurnWaiting { turn_id, .. } => Self::turn_active(turn_id),
            AgentLoopError::ShuttingDown => Self::new(
                ErrorCode::ShuttingDown,
                "the daemon is shutting down and accepts no more input",
            ),
            AgentLoopError::EnvironmentNotFound(_) => {
                Self::new(ErrorCode::EnvironmentNotFound, "Environment not found")
            }
            AgentLoopError::NoActiveTurn(_) => {
                Self::new(ErrorCode::NoActiveTurn, "No active turn on the thread")
            }
            AgentLoopError::InvalidAnswer(mismatch) => mismatch.clone().into(),
            AgentLoopError::QuotaExceeded(quota) => {
                let limit = usize::try_from(quota.limit).unwrap_or(usize::MAX);
                Self::limit(quota.what, limit)
            }
            AgentLoopError::BudgetExceeded(_) => {
                Self::new(ErrorCode::BudgetExceeded, error.to_string())
            }
            AgentLoopError::StoreUnavailable(_) => {
                tracing::error!(%error, "the store is unavailable");
                Self::new(
                    ErrorCode::StoreUnavailable,
                    "the records cannot be read or written now; acknowledged input is safe, and the log has details",
                )
            }
            AgentLoopError::Configuration(_)
            | AgentLoopError::ModelNotAvailable(_)
            | AgentLoopError::DriverNotRegistered(_)
            | AgentLoopError::HarnessNotFound(_)
            | AgentLoopError::AgentNotFound(_) => {
                tracing::warn!(%error, "a part of the configuration is missing");
                Self::new(ErrorCode::NotConfigured, error.to_string())
            }
            _ => Self::internal(error),
        }
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        AgentLoopError::StoreUnavailable(error.to_string()).into()
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        match &error {
            QueryError::Cursor(_) => Self::query(error.to_string()),
            _ => AgentLoopError::StoreUnavailable(error.to_string()).into(),
        }
    }
}

impl From<ApiError> for ErrorBody {
    fn from(error: ApiError) -> Self {
        Self::new(error.code, error.message, error.details)
    }
}

impl From<ApiError> for CallError {
    fn from(error: ApiError) -> Self {
        Self::Refused(Box::new(error.into()))
    }
}

/// Maps HTTP statuses to JSON-RPC codes.
impl From<ApiError> for RpcError {
    fn from(error: ApiError) -> Self {
        let text = error.message();
        match error.code().status() {
            404 => Self::not_found(text),
            401 | 403 => Self::not_authorized(text),
            409 => Self::conflict(text),
            413 | 429 => Self::limit(text),
            400..=499 => Self::invalid_params(text),
            _ => Self::internal(text),
        }
    }
}
