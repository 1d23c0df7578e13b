//! Tokens: who a connection is.

use std::collections::HashMap;

/// A secret that clients show. `Debug` does not print it, and comparing takes the same time for any difference.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// Keeps the digest of a secret; the secret itself is not kept.
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(blake3::hash(secret.as_ref()))
    }

    /// Tells whether a secret is the one. Digests are compared, in constant time.
    #[must_use]
    pub fn is(&self, secret: &str) -> bool {
        self.0 == blake3::hash(secret.as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Asks whether a secret is a token of the server.
type Check = dyn Fn(&str) -> bool + Send + Sync;

/// What is needed to come in.
#[derive(Default)]
pub struct Credentials {
    /// Knows the server's tokens; `None`: nobody is asked for one.
    pub server: Option<Box<Check>>,
    /// The token of who may read everything.
    pub host: Option<Token>,
    /// The tokens of agents.
    pub agents: HashMap<String, Token>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("server", &self.server.is_some())
            .field("host", &self.host.is_some())
            .field("agents", &self.agents.len())
            .finish()
    }
}

impl Credentials {
    /// Tells whether anybody is asked for a token.
    #[must_use]
    pub fn are_needed(&self) -> bool {
        self.server.is_some()
    }
}
