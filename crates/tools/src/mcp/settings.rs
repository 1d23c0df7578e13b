//! What a host can set for MCP servers.

use std::time::Duration;

use windlass_core::mcp::ScopedMcpServer;

/// How much longer than its time a call may take to be cleaned up after.
const SLACK: Duration = Duration::from_secs(30);

/// What a host can set for MCP servers. Times of a single server stand in its own configuration.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// How long a server may take to start and to list its tools.
    pub start_timeout: Duration,
    /// How long a call may stay silent; what it tells of its progress counts.
    pub call_timeout: Duration,
    /// How long a call may take whatever it tells.
    pub max_call: Duration,
    /// How long a list of tools is believed before the server is asked again.
    pub list_kept: Duration,
    /// How long a server is kept that nobody uses.
    pub idle: Duration,
    /// How many servers are connected at once.
    pub max_connections: usize,
    /// The first pause before a server that failed is started again. Each further one is twice as long, up to a minute.
    pub back_off: Duration,
    /// What servers are told of who speaks to them.
    pub client_name: String,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            max_call: Duration::from_secs(3600),
            list_kept: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            max_connections: 64,
            back_off: Duration::from_millis(500),
            client_name: "windlass".to_owned(),
        }
    }
}

impl McpSettings {
    pub(super) fn start_timeout_of(&self, server: &ScopedMcpServer) -> Duration {
        let own = server.start_timeout_ms.map(Duration::from_millis);
        own.unwrap_or(self.start_timeout)
    }

    /// Returns how long a call of a tool may stay silent.
    pub(super) fn timeout_of(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        let own = server.tool_timeouts_ms.get(tool).copied();
        let own = own.or(server.timeout_ms).map(Duration::from_millis);
        own.unwrap_or(self.call_timeout)
    }

    /// Returns how long a call may take whatever it tells.
    pub(super) fn max_call_of(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        self.max_call.max(self.timeout_of(server, tool))
    }

    /// Returns how long any request to a server may stay without an answer. Who waits for one gives up before.
    pub(super) fn longest_silence(&self, server: &ScopedMcpServer) -> Duration {
        let tools = server.tool_timeouts_ms.values().copied();
        let own = tools.chain(server.timeout_ms).map(Duration::from_millis);
        let usual = [self.call_timeout, self.start_timeout_of(server)];
        own.chain(usual).max().unwrap_or_default() + SLACK
    }

    /// Returns how long a call may take with everything around it.
    pub(super) fn longest_call(&self, server: &ScopedMcpServer, tool: &str) -> Duration {
        self.max_call_of(server, tool) + self.start_timeout_of(server) * 2 + SLACK
    }
}
