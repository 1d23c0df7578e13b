//! Who asks.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// Names a connection: 12 hex digits, made by the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// Makes a new one.
    #[must_use]
    pub fn mint() -> Self {
        let uuid = Uuid::new_v4().simple().to_string();
        Self(uuid[..12].into())
    }

    /// Takes one that is kept.
    #[must_use]
    pub fn kept(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a connection has shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// At most the server's token.
    #[default]
    Unbound,
    /// The token of an agent.
    Bound(String),
    /// The host's token: it may read everything.
    Host,
}

/// A connection, as the rules see it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its name.
    pub client_id: ClientId,
    /// What it has shown.
    pub role: Role,
    /// Whether its runs wait for it longer when it is lost, so that it can take them up again.
    pub wants_lease: bool,
    /// Whether it may read all runs, though it writes as one that is not bound: it has shown the operator's token.
    pub reads_all: bool,
}

impl Caller {
    /// Makes a connection that has shown nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            client_id: ClientId::mint(),
            role: Role::Unbound,
            wants_lease: false,
            reads_all: false,
        }
    }

    /// Tells who it is, for receipts.
    #[must_use]
    pub fn principal(&self) -> String {
        match &self.role {
            Role::Bound(agent) => format!("agent:{agent}"),
            Role::Host => "host".to_owned(),
            Role::Unbound => format!("client:{}", self.client_id),
        }
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::new()
    }
}
