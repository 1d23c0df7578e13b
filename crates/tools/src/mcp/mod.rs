//! Tools of MCP servers.
//!
//! [`McpClient`] starts or connects to the servers of a turn, lists their tools before the turn begins, and calls them. Servers are not trusted:
//! their messages are limited and escaped, and their hints are ignored. A tool is called only while the server's current definition matches the
//! recorded one.

mod answer;
mod connection;
mod definition;
mod handler;
mod http;
mod keys;
mod names;
mod pool;
mod rate_limit;
mod servers;
mod settings;
mod stdio;
mod tool;
mod tool_cache;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinSet;
use windlass_core::egress::EgressService;
use windlass_core::mcp::{
    DiscoveredTool, DiscoveredTools, McpConnector, McpFailure, McpReach, McpScope, OwnMcpServer,
    ScopedMcpServer, ScopedMcpServers,
};
use windlass_core::tools::Tool;

use self::connection::ToolList;
use self::definition::OfferedTool;
use self::pool::Pool;
use self::tool::McpTool;
use self::tool_cache::{AnswersKey, ToolCache};
pub use names::may_be_tool_of;
pub use servers::{McpServersError, servers_from_json};
pub use settings::McpSettings;
use windlass_macros::OpaqueDebug;

use crate::environments::Environments;
use crate::shell::ShellSettings;

/// The answer of each server, by name.
type Answers = BTreeMap<String, (ScopedMcpServer, Result<Arc<ToolList>, String>)>;

/// Maximum size of all definitions of a turn in bytes.
const MAX_DEFINITIONS: usize = 1024 * 1024;
/// Maximum number of tools of all servers of a turn.
const MAX_TOOLS: usize = 512;

/// Client of MCP servers: those that the operator configures for all sessions, and those of records.
#[derive(OpaqueDebug)]
pub struct McpClient {
    own: ScopedMcpServers,
    pool: Arc<Pool>,
    cache: ToolCache,
}

impl McpClient {
    /// Creates a client. Servers that are programs start in these environments, in the sandbox of commands. Servers over HTTP are reached through
    /// `egress`.
    #[must_use]
    pub fn new(
        environments: Environments,
        shell: ShellSettings,
        egress: Arc<dyn EgressService>,
        settings: McpSettings,
    ) -> Self {
        Self {
            own: ScopedMcpServers::new(),
            pool: Arc::new(Pool::new(environments, shell, egress, settings)),
            cache: ToolCache::default(),
        }
    }

    /// Sets the servers of all sessions. A server of a record replaces one with the same name.
    #[must_use]
    pub fn with_servers(mut self, servers: ScopedMcpServers) -> Self {
        self.own = servers;
        self
    }

    fn merged(&self, servers: &ScopedMcpServers) -> ScopedMcpServers {
        let mut merged = self.own.clone();
        merged.extend(servers.clone());
        merged
    }

    async fn tools_of(&self, servers: ScopedMcpServers, scope: &McpScope) -> Arc<DiscoveredTools> {
        let mut requests = JoinSet::new();
        let mut failures = Vec::new();
        let mut prefixes = BTreeMap::new();
        for (name, server) in servers {
            let prefix = names::server_part(&name);
            if let Some(other) = prefixes.get(&prefix) {
                let reason = format!(
                    "its tools would have the same names as those of server `{other}`; rename one of the two"
                );
                failures.push(McpFailure {
                    server: name,
                    reason,
                });
                continue;
            }
            prefixes.insert(prefix, name.clone());
            let (pool, scope) = (Arc::clone(&self.pool), scope.clone());
            requests.spawn(async move {
                let offered = pool.offered(&name, &server, &scope).await;
                (name, server, offered)
            });
        }
        let mut answers = BTreeMap::new();
        while let Some(joined) = requests.join_next().await {
            if let Ok((name, server, offered)) = joined {
                answers.insert(name, (server, offered));
            }
        }
        let is_complete = failures.is_empty();
        let key = AnswersKey::new(&answers).filter(|_| is_complete);
        if let Some(cached) = key.as_ref().and_then(|key| self.cache.get(key)) {
            return cached;
        }
        let tools = Arc::new(self.collect_tools(answers, failures));
        if let Some(key) = key {
            self.cache.insert(key, &tools);
        }
        tools
    }

    fn collect_tools(&self, answers: Answers, failures: Vec<McpFailure>) -> DiscoveredTools {
        // Ordered by name, so that the same servers give the same list.
        let mut found = ToolCollector {
            failures,
            ..ToolCollector::default()
        };
        for (name, (server, offered)) in answers {
            match offered {
                Err(reason) => found.missing(&name, reason),
                Ok(listed) => {
                    for remark in &listed.remarks {
                        found.missing(&name, remark.clone());
                    }
                    for tool in &listed.tools {
                        let timeout = self.pool.settings.longest_call(&server, &tool.tool);
                        found.add(&name, tool, tool.to_discovered(&name, &server, timeout));
                    }
                }
            }
        }
        DiscoveredTools::new(found.tools, found.failures)
    }
}

/// Masks the servers' keys in their definitions. Unlike the journal, other receivers do not mask them.
fn with_masked_keys(found: &DiscoveredTools, servers: &ScopedMcpServers) -> DiscoveredTools {
    let mut text = serde_json::to_string(found).unwrap_or_default();
    for server in servers.values() {
        keys::mask(server, &mut text);
    }
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns scheme, host and port of an address; the rest may contain a key.
fn origin(url: &str) -> String {
    let origin = url::Url::parse(url).map(|url| url.origin());
    let known = origin.ok().filter(url::Origin::is_tuple);
    known.map_or_else(String::new, |origin| origin.ascii_serialization())
}

#[async_trait]
impl McpConnector for McpClient {
    async fn discover(&self, servers: &ScopedMcpServers, scope: &McpScope) -> Arc<DiscoveredTools> {
        self.tools_of(self.merged(servers), scope).await
    }

    fn own_servers(&self) -> Vec<OwnMcpServer> {
        let connected = self.pool.connected();
        let servers = self.own.iter().map(|(name, server)| OwnMcpServer {
            is_connected: connected.contains(name),
            name: name.clone(),
            command: server.command.clone(),
            origin: server.url.as_deref().map(origin),
        });
        servers.collect()
    }

    async fn own_tools(
        &self,
        only: Option<&str>,
        scope: &McpScope,
        reach: McpReach,
    ) -> DiscoveredTools {
        let mut servers = self.own.clone();
        servers.retain(|name, server| {
            only.is_none_or(|only| only == name)
                && (reach == McpReach::All || self.pool.is_connected(name, server, scope))
        });
        let found = self.tools_of(servers.clone(), scope).await;
        with_masked_keys(&found, &servers)
    }

    fn tool(
        &self,
        recorded: &DiscoveredTool,
        servers: &ScopedMcpServers,
        scope: &McpScope,
    ) -> Arc<dyn Tool> {
        let server = servers
            .get(&recorded.server)
            .or_else(|| self.own.get(&recorded.server));
        Arc::new(McpTool {
            recorded: recorded.clone(),
            server: server.cloned(),
            scope: scope.clone(),
            pool: Arc::clone(&self.pool),
        })
    }

    fn secrets(&self, servers: &ScopedMcpServers) -> Vec<(String, String)> {
        let merged = self.merged(servers);
        let secrets = merged.iter().flat_map(|(name, server)| {
            let secrets = keys::keys_of(server).into_iter();
            secrets.map(move |(place, value)| (format!("{name}_{place}"), value))
        });
        secrets.collect()
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Collects tools within the limits of a turn.
#[derive(Default)]
struct ToolCollector {
    tools: Vec<DiscoveredTool>,
    failures: Vec<McpFailure>,
    bytes: usize,
}

impl ToolCollector {
    fn missing(&mut self, server: &str, reason: String) {
        self.failures.push(McpFailure {
            server: server.to_owned(),
            reason,
        });
    }

    fn add(&mut self, server: &str, offered: &OfferedTool, tool: DiscoveredTool) {
        let name = tool.definition.name();
        let mut earlier = self.tools.iter();
        if let Some(other) = earlier.find(|other| other.definition.name() == name) {
            let (mine, other) = (&offered.tool, other.tool.clone());
            let reason = format!(
                "tool `{mine}` is left out: its name `{name}` is the same as that of `{other}`"
            );
            return self.missing(server, reason);
        }
        if self.tools.len() >= MAX_TOOLS || self.bytes + offered.bytes > MAX_DEFINITIONS {
            let reason = format!(
                "tool `{}` is left out: a turn takes at most {MAX_TOOLS} tools of servers, and {MAX_DEFINITIONS} bytes of definitions",
                offered.tool
            );
            return self.missing(server, reason);
        }
        self.bytes += offered.bytes;
        self.tools.push(tool);
    }
}
