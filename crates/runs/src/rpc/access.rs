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
pub struct Known {
    /// The role that it grants.
    pub standing: TokenRole,
    /// ID of the token; `None` for one that cannot be revoked.
    pub token_id: Option<String>,
}

/// Validates tokens.
pub trait Gate: Send + Sync {
    /// Returns whether connections must present a token.
    fn is_needed(&self) -> bool;

    /// Looks up a token; `None` if it is invalid.
    fn judge(&self, token: &str) -> Option<Known>;

    /// Returns whether a previously accepted token is still valid.
    fn still_counts(&self, token_id: &str) -> bool;
}

/// Requires no token.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn is_needed(&self) -> bool {
        false
    }

    fn judge(&self, _: &str) -> Option<Known> {
        None
    }

    fn still_counts(&self, _: &str) -> bool {
        true
    }
}
