//! Settings of the host for MCP servers.

use std::time::Duration;

use windlass_core::mcp::ScopedMcpServer;
use windlass_macros::Defaults;

/// Extra time for the cleanup after a call's time limit.
const SLACK: Duration = Duration::from_secs(30);

/// Settings of the host for MCP servers. A server's own configuration can override its times.
#[derive(Debug, Clone, Defaults)]
pub struct McpSettings {
    /// Maximum time for a server to start and to list its tools.
    #[default(Duration::from_secs(30))]
    pub start_timeout: Duration,
    /// Maximum time without a message during a call; progress notifications reset it.
    #[default(Duration::from_secs(60))]
    pub call_timeout: Duration,
    /// Maximum total time of a call.
    #[default(Duration::from_secs(3600))]
    pub max_call: Duration,
    /// How long a list of tools is cached.
    #[default(Duration::from_secs(30))]
    pub list_cache_time: Duration,
    /// How long an unused server stays connected.
    #[default(Duration::from_secs(600))]
    pub idle: Duration,
    /// Maximum number of connected servers.
    #[default(64)]
    pub max_connections: usize,
    /// First pause before a failed server is started again. Each further pause is twice as long, up to a minute.
    #[default(Duration::from_millis(500))]
    pub back_off: Duration,
    /// Client name sent to servers.
    #[default("windlass".to_owned())]
    pub client_name: String,
}

impl McpSettings {
    pub(super) fn start_timeout_of(&self, server: &ScopedMcpServer) -> Duration {
        let own = server.start_timeout_ms.map(Duration::from_millis);
        own.unwrap_or(self.start_timeout)
    }

    /// Returns the maximum time without a message during a call of a tool.
    pub(super) fn timeout_of(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        let own = server.tool_timeouts_ms.get(tool).copied();
        let own = own.or(server.timeout_ms).map(Duration::from_millis);
        own.unwrap_or(self.call_timeout)
    }

    /// Returns the maximum total time of a call of a tool.
    pub(super) fn max_call_of(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        self.max_call.max(self.timeout_of(server, tool))
    }

    /// Returns the maximum time without an answer for any request to a server. Callers give up earlier.
    pub(super) fn longest_silence(&self, server: &ScopedMcpServer) -> Duration {
        let tools = server.tool_timeouts_ms.values().copied();
        let own = tools.chain(server.timeout_ms).map(Duration::from_millis);
        let usual = [self.call_timeout, self.start_timeout_of(server)];
        own.chain(usual).max().unwrap_or_default() + SLACK
    }

    /// Returns the maximum time of a call including start and cleanup.
    pub(super) fn longest_call(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        self.max_call_of(server, tool) + self.start_timeout_of(server) * 2 + SLACK
    }
}
