//! Network access of programs.

use serde::{Deserialize, Serialize};

/// A program's network access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The same access as the host.
    Inherit,
    /// No access; the default.
    #[default]
    None,
    /// Access through a proxy of the host, set by [`Proxied`](crate::Proxied); no access if the program has none.
    Filtered,
}
