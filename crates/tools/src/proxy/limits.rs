//! Network limits of one call.

use std::time::Duration;

use windlass_macros::Defaults;

/// Network limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct ProxyLimits {
    /// Maximum number of open connections; further ones get a 503.
    #[default(64)]
    pub open_connections: usize,
    /// Maximum number of connections of the whole call; after that the proxy stops listening.
    #[default(10_000)]
    pub connections: usize,
    /// Maximum number of bytes in both directions together.
    #[default(2 * 1024 * 1024 * 1024)]
    pub bytes: u64,
    /// Maximum time for a client to send its request head, and for the connection to its target.
    #[default(Duration::from_secs(30))]
    pub start: Duration,
}
