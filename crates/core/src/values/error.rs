//! The error that applications see, and its kinds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::questions::InvalidOption;
use crate::typed_id::{AgentId, HarnessId, SessionId, TurnId};

/// The result of everything that can fail in the embedding API.
pub type Result<T> = std::result::Result<T, AgentLoopError>;

/// An error, as one of the cases that an application can handle.
#[derive(Debug, thiserror::Error)]
pub enum AgentLoopError {
    /// The model call failed; only the text is known.
    #[error("LLM error: {0}")]
    Llm(String),
    /// The provider answered with an error whose kind is known.
    #[error("LLM error: {0}")]
    Provider(Box<ProviderError>),
    /// The request does not fit the model.
    #[error("Request too large: {0}")]
    RequestTooLarge(String),
    /// The model is not known to the provider or to the provider store.
    #[error("Model not available: {0}")]
    ModelNotAvailable(String),
    /// A tool, or a file operation on behalf of one, failed.
    #[error("Tool execution error: {0}")]
    ToolExecution(String),
    /// A store of the application failed.
    #[error("Message store error: {0}")]
    MessageStore(String),
    /// An event could not be emitted.
    #[error("Event emission error: {0}")]
    EventEmission(String),
    /// The configuration is wrong; the text names the part.
    #[error("Configuration error: {0}")]
    Configuration(String),
    /// The turn used up its model calls.
    #[error("Max iterations reached: {0}")]
    MaxIterationsReached(usize),
    /// The turn was cancelled.
    #[error("Cancelled")]
    Cancelled,
    /// The conversation contains no message to answer.
    #[error("No messages")]
    NoMessages,
    /// No such agent.
    #[error("Agent not found: {0}")]
    AgentNotFound(AgentId),
    /// No such harness.
    #[error("Harness not found: {0}")]
    HarnessNotFound(HarnessId),
    /// No such session.
    #[error("Session not found: {0}")]
    SessionNotFound(SessionId),
    /// A turn is running, and the caller does not want to wait.
    #[error(
        "Session {session_id} is busy with turn {turn_id}; wait for it, steer it or interrupt it"
    )]
    TurnBusy {
        /// The requested session.
        session_id: SessionId,
        /// The turn that runs.
        turn_id: TurnId,
    },
    /// The session's turn is parked; answer or interrupt it first.
    #[error("Turn {turn_id} waits for {waiting_for}; answer it or cancel the turn first")]
    TurnWaiting {
        /// The parked turn.
        turn_id: TurnId,
        /// The calls it waits for, and what each needs.
        waiting_for: WaitingFor,
    },
    /// The runtime accepts no more input.
    #[error(
        "The runtime is shutting down; acknowledged input is recorded; open the runtime again to continue"
    )]
    ShuttingDown,
    /// The turn's environment no longer exists.
    #[error(
        "Environment not found: {0}; register it again, or name another environment for the turn"
    )]
    EnvironmentNotFound(String),
    /// The session has no turn to steer, cancel or answer.
    #[error("Session {0} has no active turn")]
    NoActiveTurn(SessionId),
    /// The session has had no such turn, or its conversation no longer contains it.
    #[error("Session {session_id} has no turn {turn_id}")]
    TurnNotFound {
        /// The requested session.
        session_id: SessionId,
        /// The turn as named.
        turn_id: TurnId,
    },
    /// The turn is not queued: it has begun or ended, or the session has no such turn.
    #[error("Session {session_id} has no queued turn {turn_id}")]
    TurnNotQueued {
        /// The requested session.
        session_id: SessionId,
        /// The turn as named.
        turn_id: TurnId,
    },
    /// The model or external agent does not accept such input; nothing was recorded.
    #[error("Unsupported input: {model} does not accept {input}")]
    UnsupportedInput {
        /// The model, or the external agent.
        model: String,
        /// The kind of input, such as `images`.
        input: &'static str,
    },
    /// A fork cannot start at that position; nothing was changed.
    #[error("Session {session_id} cannot be forked there: {reason}")]
    NotForkable {
        /// The requested session.
        session_id: SessionId,
        reason: String,
    },
    /// The records of a session cannot be replayed.
    #[error("Session {session_id} cannot be replayed: {reason}")]
    NotReplayable {
        /// The requested session.
        session_id: SessionId,
        reason: String,
    },
    /// An answer names a call that does not wait for one.
    #[error("No pending call `{call_id}`: {reason}")]
    NoPendingCall {
        /// The call as the caller named it.
        call_id: String,
        /// Unknown, ambiguous, or answered otherwise before.
        reason: String,
    },
    /// An answer is not an option of its question; the question stays open.
    #[error("Answer not taken: {0}")]
    InvalidAnswer(InvalidOption),
    /// A limit that the operator set is reached; nothing was changed.
    #[error("Quota exceeded: {0}")]
    QuotaExceeded(QuotaExceeded),
    /// A shared budget is used up; the text contains the limit and the remedy.
    #[error("Budget used up: {0}")]
    BudgetExceeded(String),
    /// The journal cannot be written or read now; nothing was acknowledged.
    #[error("Store unavailable: {0}")]
    StoreUnavailable(String),
    /// An unexpected error; the source chain contains the cause.
    #[error("Internal error: {0}")]
    Internal(#[from] anyhow::Error),
    /// No driver is registered for the provider of the model.
    #[error("Driver not registered for provider: {0}")]
    DriverNotRegistered(String),
}

text_enum! {
    /// The class of an error, readable without its text.
    ErrorKind {
        /// Too many requests; waiting helps.
        RateLimited = "rate_limited",
        /// The key is missing, wrong or not allowed to do this.
        Auth = "auth",
        /// The provider failed or is overloaded; a retry may help.
        Server = "server",
        /// No response in time, or no connection.
        Timeout = "timeout",
        /// The request does not fit the model.
        TooLarge = "too_large",
        /// The model does not exist here.
        ModelMissing = "model_missing",
        /// The provider has no capacity for the request now; waiting or another model helps.
        Overloaded = "overloaded",
        /// A filter of the provider refused the prompt or the answer.
        Refused = "refused",
        /// The provider does not understand the request; it must be changed.
        BadRequest = "bad_request",
        /// The connection failed or was lost.
        Network = "network",
        /// The provider accepted the request and then stopped responding.
        Stalled = "stalled",
        /// The response is truncated or violates the provider's API.
        BrokenStream = "broken_stream",
        /// The request was cancelled.
        Cancelled = "cancelled",
        /// Any other cause.
        Other = "other",
    }
}

impl ErrorKind {
    /// Returns advice for the operator who configured the model.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::RateLimited => "wait before you try again, or use another model",
            Self::Auth => "check the key of this provider and its permissions",
            Self::Server | Self::Overloaded => "try again later, or use another model",
            Self::Timeout | Self::Stalled | Self::BrokenStream => {
                "try again; if it keeps failing, check the connection or use another model"
            }
            Self::TooLarge => "make the conversation shorter, or use a model with a larger window",
            Self::ModelMissing => "check the name of the model, and that the key may use it",
            Self::Refused => "rephrase the request, or use another model",
            Self::BadRequest => "check that the model supports the request",
            Self::Network => {
                "check that the address is correct and that the server is reachable from this host"
            }
            Self::Cancelled | Self::Other => return None,
        })
    }

    /// Tells whether the same request may succeed later.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Server
                | Self::Timeout
                | Self::Overloaded
                | Self::Network
                | Self::Stalled
                | Self::BrokenStream
        )
    }
}

/// An error of a model provider with its typed fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// The class, from status and code, never from the text.
    pub kind: ErrorKind,
    /// The HTTP status, if any.
    pub status: Option<u16>,
    /// The provider's own code.
    pub code: Option<String>,
    /// The provider's text.
    pub message: String,
    /// The wait that the provider asks for.
    pub retry_after: Option<Duration>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
    /// The model that was called, if known.
    pub asked: Option<Box<AskedModel>>,
}

/// The model that was called. Contains no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedModel {
    /// The provider's display name.
    pub provider: String,
    /// The provider's name of the model; `None` if the request names no model.
    pub model: Option<String>,
    /// The host and port, if they are not the provider's own.
    pub host: Option<String>,
}

impl fmt::Display for AskedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if let Some(model) = &self.model {
            write!(f, "/{model}")?;
        }
        match &self.host {
            Some(host) => write!(f, " at {host}"),
            None => Ok(()),
        }
    }
}

impl ProviderError {
    /// Makes an error of a known kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: None,
            message: message.into(),
            retry_after: None,
            request_id: None,
            asked: None,
        }
    }

    /// Makes an error from an HTTP status.
    #[must_use]
    pub fn from_status(status: u16, message: impl Into<String>) -> Self {
        let kind = match status {
            401 | 403 => ErrorKind::Auth,
            404 => ErrorKind::ModelMissing,
            408 => ErrorKind::Timeout,
            413 => ErrorKind::TooLarge,
            429 => ErrorKind::RateLimited,
            409 | 500..=599 => ErrorKind::Server,
            _ => ErrorKind::Other,
        };
        Self {
            status: Some(status),
            ..Self::new(kind, message)
        }
    }

    /// Adds the time that the provider asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(asked) = &self.asked {
            write!(f, "{asked}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(status) = self.status {
            write!(f, " (status {status})")?;
        }
        // Advice is useful only if the error names the provider to contact.
        match self.kind.advice().filter(|_| self.asked.is_some()) {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// The open waits of a parked turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaitingFor {
    /// Calls that wait for a result from an external client.
    pub tool_results: Vec<String>,
    /// Calls that wait for an approval.
    pub approvals: Vec<String>,
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.tool_results.is_empty() {
            parts.push(format!("results of {}", self.tool_results.join(", ")));
        }
        if !self.approvals.is_empty() {
            parts.push(format!("approval of {}", self.approvals.join(", ")));
        }
        f.write_str(&parts.join(" and "))
    }
}

/// The limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject} allows at most {limit} {what}")]
pub struct QuotaExceeded {
    /// The limited quantity: files, bytes per file, total bytes, messages, events.
    pub what: &'static str,
    /// The limit that was set.
    pub limit: u64,
    /// The changed object: a path, or the session.
    pub subject: String,
}

impl AgentLoopError {
    /// Makes a configuration error.
    pub fn config(message: impl Into<String>) -> Self {
        Self::Configuration(message.into())
    }
    /// Makes a tool error.
    pub fn tool(message: impl Into<String>) -> Self {
        Self::ToolExecution(message.into())
    }
    /// Makes a store error.
    pub fn store(message: impl Into<String>) -> Self {
        Self::MessageStore(message.into())
    }
    /// Makes a model error of unknown kind.
    pub fn llm(message: impl Into<String>) -> Self {
        Self::Llm(message.into())
    }
    /// Makes a model error of a known kind.
    #[must_use]
    pub fn provider(error: ProviderError) -> Self {
        Self::Provider(Box::new(error))
    }
    /// Adds the called model to a provider error that does not contain it yet.
    #[must_use]
    pub fn of_model(mut self, asked: impl FnOnce() -> AskedModel) -> Self {
        if let Self::Provider(error) = &mut self
            && error.asked.is_none()
        {
            error.asked = Some(Box::new(asked()));
        }
        self
    }
    /// Makes an event error.
    pub fn event(message: impl Into<String>) -> Self {
        Self::EventEmission(message.into())
    }
    /// Makes the error of a request that exceeds the model's limit.
    pub fn request_too_large(message: impl Into<String>) -> Self {
        Self::RequestTooLarge(message.into())
    }
    /// Makes the error of a missing model.
    pub fn model_not_available(id: impl Into<String>) -> Self {
        Self::ModelNotAvailable(id.into())
    }
    /// Makes the error of a provider without driver.
    pub fn driver_not_registered(provider: impl Into<String>) -> Self {
        Self::DriverNotRegistered(provider.into())
    }
    /// Makes the error of a missing agent.
    #[must_use]
    pub const fn agent_not_found(id: AgentId) -> Self {
        Self::AgentNotFound(id)
    }
    /// Makes the error of a missing harness.
    #[must_use]
    pub const fn harness_not_found(id: HarnessId) -> Self {
        Self::HarnessNotFound(id)
    }
    /// Makes the error of a missing session.
    #[must_use]
    pub const fn session_not_found(id: SessionId) -> Self {
        Self::SessionNotFound(id)
    }

    /// Returns the class of this error; it never depends on the text.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Provider(error) => error.kind,
            Self::RequestTooLarge(_) => ErrorKind::TooLarge,
            Self::ModelNotAvailable(_) => ErrorKind::ModelMissing,
            Self::Cancelled => ErrorKind::Cancelled,
            _ => ErrorKind::Other,
        }
    }

    /// Returns how long the provider asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Provider(error) => error.retry_after,
            _ => None,
        }
    }

    /// Tells whether the request did not fit the model.
    #[must_use]
    pub fn is_request_too_large(&self) -> bool {
        self.kind() == ErrorKind::TooLarge
    }
    /// Tells whether the model is missing.
    #[must_use]
    pub fn is_model_not_available(&self) -> bool {
        self.kind() == ErrorKind::ModelMissing
    }
    /// Tells whether the provider asked to slow down.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        self.kind() == ErrorKind::RateLimited
    }
    /// Tells whether the key was refused.
    #[must_use]
    pub fn is_auth_error(&self) -> bool {
        self.kind() == ErrorKind::Auth
    }
    /// Tells whether the provider itself failed.
    #[must_use]
    pub fn is_server_error(&self) -> bool {
        matches!(self.kind(), ErrorKind::Server | ErrorKind::Overloaded)
    }
    /// Tells whether a retry of the same request cannot succeed.
    #[must_use]
    pub fn is_non_retryable(&self) -> bool {
        !self.kind().is_transient()
    }

    /// Returns the ID of the missing model.
    #[must_use]
    pub fn model_not_available_id(&self) -> Option<&str> {
        match self {
            Self::ModelNotAvailable(id) => Some(id),
            _ => None,
        }
    }

    /// Returns a sentence for the end user, without details of the provider.
    #[must_use]
    pub fn user_facing_message(&self) -> String {
        match self.kind() {
            ErrorKind::RateLimited => {
                "The model is receiving too many requests. Please try again in a moment.".into()
            }
            ErrorKind::Auth => {
                "The model refused the credentials. Please check the provider's key.".into()
            }
            ErrorKind::Overloaded => {
                "The model's provider is overloaded. Please try again in a moment.".into()
            }
            ErrorKind::Refused => "The model's provider refused to answer this.".into(),
            ErrorKind::BadRequest => "The model's provider did not accept the request.".into(),
            ErrorKind::Network => {
                "The model's provider could not be reached. Please check the connection.".into()
            }
            ErrorKind::Server | ErrorKind::BrokenStream => {
                "The model's provider has a problem. Please try again in a moment.".into()
            }
            ErrorKind::Timeout | ErrorKind::Stalled => {
                "The model did not answer in time. Please try again.".into()
            }
            ErrorKind::TooLarge => "The conversation no longer fits the model.".into(),
            ErrorKind::ModelMissing => "The chosen model is not available.".into(),
            ErrorKind::Cancelled => "The turn was cancelled.".into(),
            ErrorKind::Other => "The turn could not be completed.".into(),
        }
    }
}

/// Turns any error of a store into [`AgentLoopError::MessageStore`].
pub trait StoreResultExt<T> {
    /// Converts an error to [`AgentLoopError::MessageStore`] with its text.
    fn store_err(self) -> Result<T>;
}

impl<T, E: fmt::Display> StoreResultExt<T> for std::result::Result<T, E> {
    fn store_err(self) -> Result<T> {
        self.map_err(|error| AgentLoopError::store(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r24_error_text_does_not_change_the_class() {
        for error in [
            AgentLoopError::llm("rate limit exceeded (500) unauthorized"),
            AgentLoopError::tool("429 Too Many Requests"),
            AgentLoopError::provider(ProviderError::new(ErrorKind::Other, "rate limit (500)")),
        ] {
            assert_eq!(error.kind(), ErrorKind::Other, "{error}");
            assert!(
                !error.is_rate_limited() && !error.is_server_error() && error.is_non_retryable()
            );
        }
    }

    #[test]
    fn error_names_the_model_once_and_the_remedy() {
        let asked = |model: &str, host: Option<&str>| AskedModel {
            provider: "anthropic".to_owned(),
            model: Some(model.to_owned()),
            host: host.map(str::to_owned),
        };
        let error = AgentLoopError::provider(ProviderError::from_status(429, "slow down"));
        assert_eq!(error.to_string(), "LLM error: slow down (status 429)");
        let error = error.of_model(|| asked("m", None));
        let error = error.of_model(|| asked("another", None));
        assert_eq!(
            error.to_string(),
            "LLM error: anthropic/m: slow down (status 429); wait before you try again, or use another model"
        );
        let error = AgentLoopError::provider(ProviderError::new(ErrorKind::Other, "odd"));
        let error = error.of_model(|| asked("m", Some("127.0.0.1:9")));
        assert_eq!(
            error.to_string(),
            "LLM error: anthropic/m at 127.0.0.1:9: odd"
        );
        let other = AgentLoopError::llm("x").of_model(|| asked("m", None));
        assert_eq!(other.to_string(), "LLM error: x");
    }

    #[test]
    fn r27_the_kind_comes_from_the_status() {
        let kind = |status| ProviderError::from_status(status, "x").kind;
        assert_eq!(kind(429), ErrorKind::RateLimited);
        assert_eq!(kind(401), ErrorKind::Auth);
        assert_eq!(kind(529), ErrorKind::Server);
        assert_eq!(kind(408), ErrorKind::Timeout);
        assert_eq!(kind(413), ErrorKind::TooLarge);
        assert_eq!(kind(404), ErrorKind::ModelMissing);
        assert_eq!(kind(400), ErrorKind::Other);
    }
}
