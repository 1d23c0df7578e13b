//! Scopes of tokens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Scope of a token. Each route declares its required scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TokenScope {
    /// Full access to the API.
    Admin,
    /// All threads, but not settings that widen access to the machine.
    Client,
    /// The threads of one agent, which cannot approve its own calls.
    Agent(String),
}

/// The text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a scope; write admin, client or agent:<id>, with 1 to 64 letters, digits, `_` or `-` in the id"
)]
pub struct InvalidScope(String);

impl FromStr for TokenScope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let is_id = |id: &str| {
            let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
            (1..=64).contains(&id.len()) && id.bytes().all(legal)
        };
        match (text, text.strip_prefix("agent:")) {
            ("admin", _) => Ok(Self::Admin),
            ("client", _) => Ok(Self::Client),
            (_, Some(id)) if is_id(id) => Ok(Self::Agent(id.to_owned())),
            _ => Err(InvalidScope(text.to_owned())),
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Client => f.write_str("client"),
            Self::Agent(id) => write!(f, "agent:{id}"),
        }
    }
}

impl TryFrom<String> for TokenScope {
    type Error = InvalidScope;

    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

impl From<TokenScope> for String {
    fn from(scope: TokenScope) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_survives_a_round_trip() {
        for text in ["admin", "client", "agent:writer-2"] {
            assert_eq!(text.parse::<TokenScope>().unwrap().to_string(), text);
        }
        for text in ["", "Admin", "agent", "agent:", "agent:a b", "root"] {
            assert!(text.parse::<TokenScope>().is_err(), "{text}");
        }
    }
}
