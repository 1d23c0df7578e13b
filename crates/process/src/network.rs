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
}
