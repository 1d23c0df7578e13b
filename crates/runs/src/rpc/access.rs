//! Tokens and the access that they grant.

/// The role that a token grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRole {
    /// The host: it may read every run if it requests the role.
    Host,
    /// A regular client.
    Client,
    /// The agent with this ID.
    Agent(String),
}

/// A valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidToken {
    /// The role that it grants.
    pub role: TokenRole,
    /// ID of the token; `None` for one that cannot be revoked.
    pub token_id: Option<String>,
}

/// Validates tokens for the run RPC; implemented by the host.
pub trait Gate: Send + Sync {
    /// Returns whether connections must present a token.
    fn requires_token(&self) -> bool;

    /// Looks up a token; `None` if it is invalid.
    fn validate(&self, token: &str) -> Option<ValidToken>;

    /// Looks up the session of a browser by the cookie of its connection and the key that it sent; `None` if either is invalid.
    fn validate_session(&self, cookie: &str, key: &str) -> Option<ValidToken> {
        let _ = (cookie, key);
        None
    }

    /// Returns whether a previously accepted token is still valid.
    fn is_still_valid(&self, token_id: &str) -> bool;
}
