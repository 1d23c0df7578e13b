//! Tokens: what a connection shows, and what that makes of it.

/// What a token makes of who shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The host: it may read everything when it says so.
    Host,
    /// A client like any other.
    Client,
    /// An agent.
    Agent(String),
}

/// Knows the tokens.
pub trait Gate: Send + Sync {
    /// Tells whether anybody is asked for a token.
    fn is_needed(&self) -> bool;

    /// Tells what a token makes of who shows it; `None` for one that is not known.
    fn judge(&self, token: &str) -> Option<Standing>;
}

/// Asks nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

impl Gate for OpenGate {
    fn is_needed(&self) -> bool {
        false
    }

    fn judge(&self, _: &str) -> Option<Standing> {
        None
    }
}
