//! Authentication and scopes of the API.

mod file;
mod logins;
mod scope;

pub use file::{TokenFile, TokenRecord};
pub(crate) use logins::is_session;
pub use logins::{LoginSecret, Logins, NewSession, SessionLookup};
pub use scope::{InvalidScope, TokenScope};
use windlass_macros::OpaqueDebug;
use windlass_protocol::ErrorCode;

use crate::error::ApiError;
use crate::settings::Access;

/// Stored tokens. Lookups immediately reflect tokens created or revoked by any process.
pub trait Tokens: std::fmt::Debug + Send + Sync {
    /// Finds the token of a secret.
    fn find(&self, secret: &[u8]) -> TokenLookup;

    /// Finds a token by its id.
    fn by_id(&self, id: &str) -> TokenLookup;

    /// Finds a token of an agent.
    fn by_agent(&self, agent_id: &str) -> TokenLookup;
}

/// Result of a token lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenLookup {
    /// The token is valid.
    Present(TokenRecord),
    /// The token does not exist or was revoked.
    Absent,
    /// The tokens cannot be read now. Such a token authenticates no request; its owner's work is held and not refused.
    Unknown,
}

impl TokenLookup {
    /// Returns whether the token is known to be valid.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }
}

/// A client secret. `Debug` does not print it, and comparison takes constant time.
#[derive(OpaqueDebug, Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// Stores the digest of a secret; the secret itself is dropped.
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(blake3::hash(secret.as_ref()))
    }

    /// Compares a secret by digest, in constant time.
    #[must_use]
    pub fn is(&self, secret: &[u8]) -> bool {
        self.0 == blake3::hash(secret)
    }

    /// Returns a text that identifies the secret and does not reveal it.
    pub(crate) fn fingerprint(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex()[..32].to_owned()
    }
}

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCaller {
    /// ID of its token; `None` for the operator's own.
    pub token_id: Option<String>,
    /// Scope of its rights.
    pub scope: TokenScope,
    /// ID of its session, if it is a browser.
    pub session: Option<String>,
}

impl ApiCaller {
    /// Returns the ID of what the client authenticates with, if it can be revoked. Limits apply to each separately.
    #[must_use]
    pub fn credential(&self) -> Option<&str> {
        self.session.as_deref().or(self.token_id.as_deref())
    }

    /// A client without a token, for operations that require none. It owns no thread.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            token_id: None,
            scope: TokenScope::Agent(String::new()),
            session: None,
        }
    }

    /// The operator, who has all rights.
    #[must_use]
    pub fn operator() -> Self {
        Self {
            token_id: None,
            scope: TokenScope::Admin,
            session: None,
        }
    }
}

/// The error if tokens cannot be read, so that no token can be validated.
pub fn tokens_unavailable() -> ApiError {
    ApiError::new(
        ErrorCode::TokensUnavailable,
        "the stored tokens cannot be read now; the daemon's log names the reason",
    )
}

/// Returns the client that a token belongs to; `None` if it is invalid, or the daemon requires none.
pub fn authenticate(access: &Access, secret: &[u8]) -> Result<Option<ApiCaller>, ApiError> {
    let (operator, stored) = match access {
        Access::Open => return Ok(None),
        Access::Token(token) => (Some(token), None),
        Access::Tokens { operator, stored } => (operator.as_ref(), Some(stored)),
    };
    if operator.is_some_and(|token| token.is(secret)) {
        return Ok(Some(ApiCaller::operator()));
    }
    match stored.map(|stored| stored.find(secret)) {
        Some(TokenLookup::Present(record)) => Ok(Some(ApiCaller {
            token_id: Some(record.id),
            scope: record.scope,
            session: None,
        })),
        Some(TokenLookup::Unknown) => Err(tokens_unavailable()),
        Some(TokenLookup::Absent) | None => Ok(None),
    }
}
