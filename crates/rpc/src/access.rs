//! Tokens: what a connection shows, and what that makes of it.

/// What a token makes of who shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRole {
    /// The host: it may read everything when it says so.
    Host,
    /// A client like any other.
    Client,
    /// An agent.
    Agent(String),
}

/// A token that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What it makes of who shows it.
    pub standing: TokenRole,
    /// Names it; `None` for one that cannot be revoked.
    pub token_id: Option<String>,
}

/// Knows the tokens.
pub trait Gate: Send + Sync {
    /// Tells whether anybody is asked for a token.
    fn is_needed(&self) -> bool;

    /// Looks a token up; `None` for one that is not known.
    fn judge(&self, token: &str) -> Option<Known>;

    /// Tells whether a token that was known before still counts.
    fn still_counts(&self, token_id: &str) -> bool;
}

/// Asks nobody.
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
