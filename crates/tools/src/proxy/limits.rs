//! Network limits of one call.

use std::time::Duration;

/// Network limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Maximum number of open connections; further ones get a 503.
    pub open_connections: usize,
    /// Maximum number of connections of the whole call; after that the proxy stops listening.
    pub connections: usize,
    /// Maximum number of bytes in both directions together.
    pub bytes: u64,
    /// Maximum time for a client to send its request head, and for the connection to its target.
    pub start: Duration,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            open_connections: 64,
            connections: 10_000,
            bytes: 2 * 1024 * 1024 * 1024,
            start: Duration::from_secs(30),
        }
    }
}
