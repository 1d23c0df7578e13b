//! MCP servers that a record brings along, and the seam to who speaks with them.
//!
//! Tools are discovered before a turn begins and recorded with it, so that a turn that is resumed sees what it began with. So are the words of its
//! environment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::digest::Digest128;
use crate::llm_models::masked;
use crate::network_access::NetworkAccessList;
use crate::tools::{Tool, ToolDefinition};
use crate::turn_environment::TurnEnvironment;
use crate::typed_id::SessionId;

/// MCP servers by name.
pub type ScopedMcpServers = BTreeMap<String, ScopedMcpServer>;

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTransportType {
    /// Over HTTP.
    #[default]
    Http,
    /// As a child process.
    Stdio,
}

/// How the caller proves itself to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpAuthMode {
    /// Not at all, or by a header.
    #[default]
    None,
    /// By a connection of the user.
    UserConnection,
    /// By OAuth.
    Oauth,
}

/// When the tools of an MCP server are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpToolDiscovery {
    /// At the start of each turn.
    #[default]
    Eager,
    /// When the model looks for them.
    Lazy,
}

/// Whether somebody is asked before a tool of a server is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpApproval {
    /// Each call waits until somebody allows it, unless its turn approves everything.
    #[default]
    Ask,
    /// Nobody is asked.
    Never,
}

impl McpApproval {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_ask(&self) -> bool {
        *self == Self::Ask
    }
}

/// One MCP server. `Debug` shows neither headers nor environment.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScopedMcpServer {
    /// How it is reached.
    #[serde(default)]
    pub transport_type: McpTransportType,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The program to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How the caller proves itself.
    #[serde(default)]
    pub auth_mode: McpAuthMode,
    /// When its tools are asked for.
    #[serde(default)]
    pub tool_discovery: McpToolDiscovery,
    /// Whether somebody is asked before its tools are called.
    #[serde(default, skip_serializing_if = "McpApproval::is_ask")]
    pub approval: McpApproval,
    /// Whether its word counts that a tool only reads; otherwise any call of a program may change files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_read_only: bool,
    /// How long it may take to start and to list its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_timeout_ms: Option<u64>,
    /// How long a call may stay silent; what it tells of its progress counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The same for some of its tools, by the server's own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_timeouts_ms: BTreeMap<String, u64>,
}

impl fmt::Debug for ScopedMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(name, value)| (name.clone(), masked(Some(value))))
                .collect::<BTreeMap<_, _>>()
        };
        f.debug_struct("ScopedMcpServer")
            .field("transport_type", &self.transport_type)
            .field("url", &self.url)
            .field("headers", &names(&self.headers))
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names(&self.env))
            .field("auth_mode", &self.auth_mode)
            .field("tool_discovery", &self.tool_discovery)
            .field("approval", &self.approval)
            .finish_non_exhaustive()
    }
}

/// A tool as a server offered it when a turn began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredTool {
    /// The server, as it is configured.
    pub server: String,
    /// What the server calls the tool.
    pub tool: String,
    /// The digest of what the server said of it.
    pub digest: String,
    /// What model and runtime know of it.
    pub definition: ToolDefinition,
}

/// Why something of a server is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpFailure {
    /// The server, as it is configured.
    pub server: String,
    /// What went wrong.
    pub reason: String,
}

impl fmt::Display for McpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, reason } = self;
        write!(f, "MCP server `{server}` is not fully available: {reason}")
    }
}

/// What was found when a turn began: what servers offered, and what its environment had to say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiscoveredTools {
    /// Names the tools, the servers of which something is missing, and the instructions; empty if there is nothing.
    pub digest: String,
    /// The tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<DiscoveredTool>,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<McpFailure>,
    /// What the environment has to say to the model, such as the `AGENTS.md` of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl DiscoveredTools {
    /// Names what was found. Why something is missing makes no difference: the words may change each time.
    #[must_use]
    pub fn new(tools: Vec<DiscoveredTool>, failures: Vec<McpFailure>) -> Self {
        let failed: Vec<_> = failures.iter().map(|failure| &failure.server).collect();
        let digest = match tools.is_empty() && failed.is_empty() {
            true => String::new(),
            false => Digest128::of_json(&(&tools, failed)).to_string(),
        };
        Self {
            digest,
            tools,
            failures,
            instructions: None,
        }
    }

    /// Adds what the environment has to say.
    #[must_use]
    pub fn with_instructions(self, instructions: Option<String>) -> Self {
        let digest = match &instructions {
            Some(text) => Digest128::of_json(&(&self.digest, text)).to_string(),
            None => self.digest,
        };
        Self {
            digest,
            instructions,
            ..self
        }
    }
}

/// For whom servers are asked.
#[derive(Debug, Clone, PartialEq)]
pub struct McpScope {
    /// The session.
    pub session_id: SessionId,
    /// Whose work it is, where it is not the operator's.
    pub owner: Option<String>,
    /// Where the turn touches the world, and programs of servers with it.
    pub environment: Option<TurnEnvironment>,
    /// Where the turn may connect to.
    pub network_access: Option<NetworkAccessList>,
}

/// A server that all sessions have, as others may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMcpServer {
    /// Its name.
    pub name: String,
    /// Its program, without arguments and variables.
    pub command: Option<String>,
    /// Scheme, host and port of its address.
    pub origin: Option<String>,
    /// Whether somebody is connected to it now.
    pub is_connected: bool,
}

/// Which servers are asked for their tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpReach {
    /// Those that somebody is connected to already.
    Connected,
    /// All; they are started or reached first.
    All,
}

/// Speaks with MCP servers.
#[async_trait]
pub trait McpConnector: Send + Sync {
    /// Asks servers for their tools: those of the records, and those that the connector knows by itself. What cannot be had is told, and
    /// keeps nobody from the rest.
    ///
    /// Who returns the very same value again says by that that nothing has changed: neither what was found, nor what [`tool`](Self::tool)
    /// makes of it for the same servers and scope. Then what an earlier turn made of it is used again.
    async fn discover(&self, servers: &ScopedMcpServers, scope: &McpScope) -> Arc<DiscoveredTools>;

    /// Lists the servers that all sessions have, without what nobody else may know.
    fn own_servers(&self) -> Vec<OwnMcpServer> {
        Vec::new()
    }

    /// Asks servers that all sessions have for their tools: the one that is named, or all.
    async fn own_tools(
        &self,
        _named: Option<&str>,
        _scope: &McpScope,
        _reach: McpReach,
    ) -> DiscoveredTools {
        DiscoveredTools::default()
    }

    /// Makes a tool from its record. Nobody is asked before it is called. Where its policy wants an approval that the record does not, somebody
    /// is asked: the operator may have changed their mind since the turn began.
    fn tool(
        &self,
        recorded: &DiscoveredTool,
        servers: &ScopedMcpServers,
        scope: &McpScope,
    ) -> Arc<dyn Tool>;

    /// Returns what no record may show of the servers' configuration, by name.
    fn secrets(&self, _servers: &ScopedMcpServers) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Ends all connections and the programs behind them.
    async fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r70_debug_shows_no_header_and_no_environment() {
        let pair = |name: &str| BTreeMap::from([(name.to_owned(), "secret-7391".to_owned())]);
        let server = ScopedMcpServer {
            headers: pair("authorization"),
            env: pair("TOKEN"),
            ..ScopedMcpServer::default()
        };
        let servers = ScopedMcpServers::from([("s".to_owned(), server)]);
        let shown = format!("{servers:?} {servers:#?}");
        assert!(shown.contains("authorization") && shown.contains("TOKEN"));
        assert!(!shown.contains("7391"), "{shown}");
    }
}
