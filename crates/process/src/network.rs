//! What programs may reach over the network.

use serde::{Deserialize, Serialize};

/// What programs may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// What the host may.
    Inherit,
    /// Nothing.
    #[default]
    None,
    /// What a proxy of the host lets through, by [`Proxied`](crate::Proxied); nothing where the program is given none.
    Filtered,
}
