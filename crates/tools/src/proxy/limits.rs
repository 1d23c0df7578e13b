//! How much one call may use of the network.

use std::time::Duration;

/// How much one call may use of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections that are open at once; one more is answered with 503.
    pub open_connections: usize,
    /// Connections of the whole call; after them nobody listens any more.
    pub connections: usize,
    /// Bytes in both directions together.
    pub bytes: u64,
    /// How long a request may take to say where it wants to go, and how long it may take to get there.
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
