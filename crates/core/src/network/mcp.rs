//! MCP servers of a record, and the trait for connecting to them.
//!
//! Tools are discovered before a turn begins and recorded with it, so that a resumed turn has the same tools. The same applies to the instructions of
//! its environment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

use crate::digest::Digest128;
use crate::llm_models::masked;
use crate::network_access::NetworkAccessList;
use crate::tools::{Tool, ToolDefinition};
use crate::turn_environment::TurnEnvironment;
use crate::typed_id::SessionId;

/// MCP servers by name.
pub type ScopedMcpServers = BTreeMap<String, ScopedMcpServer>;

/// The transport to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTransportType {
    #[default]
    Http,
    /// As a child process.
    Stdio,
}

/// How the client authenticates to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpAuthMode {
    /// No authentication, or a header.
    #[default]
    None,
    /// By a connection of the user.
    UserConnection,
    Oauth,
}

/// When the tools of an MCP server are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpToolDiscovery {
    /// At the start of each turn.
    #[default]
    Eager,
    /// When the model looks for them.
    Lazy,
}

/// Whether calls of a server's tools require approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpApproval {
    /// Each call waits for an approval, unless its turn approves everything.
    #[default]
    Ask,
    /// Calls run without approval.
    Never,
}

impl McpApproval {
    fn is_ask(&self) -> bool {
        *self == Self::Ask
    }
}

/// One MCP server. `Debug` shows neither headers nor environment.
#[omit_none]
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScopedMcpServer {
    #[serde(default)]
    pub transport_type: McpTransportType,
    pub url: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The program to start.
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How the client authenticates.
    #[serde(default)]
    pub auth_mode: McpAuthMode,
    /// When its tools are listed.
    #[serde(default)]
    pub tool_discovery: McpToolDiscovery,
    /// Whether calls of its tools require approval.
    #[serde(default, skip_serializing_if = "McpApproval::is_ask")]
    pub approval: McpApproval,
    /// Whether the server's read-only hints are trusted. Otherwise any call of a local server counts as a file change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_read_only: bool,
    /// Time limit for starting the server and listing its tools.
    pub start_timeout_ms: Option<u64>,
    /// The longest silence of a call; progress notifications reset it.
    pub timeout_ms: Option<u64>,
    /// The longest silence of a call by tool, under the server's own names.
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
    /// The server's name of the tool.
    pub tool: String,
    /// The digest of the server's definition.
    pub digest: String,
    /// The definition that the model and the runtime use.
    pub definition: ToolDefinition,
}

/// Why a server, or part of it, is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpFailure {
    /// The server, as it is configured.
    pub server: String,
    pub reason: String,
}

impl fmt::Display for McpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, reason } = self;
        write!(f, "MCP server `{server}` is not fully available: {reason}")
    }
}

/// The results of discovery at the start of a turn: the tools of servers, and the instructions of its environment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DiscoveredTools {
    /// Digest of the tools, the failed servers, the instructions and the description; empty if there are none.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<DiscoveredTool>,
    /// Servers that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<McpFailure>,
    /// Instructions of the environment for the model, such as the `AGENTS.md` of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Description of the environment, from the first turn of the conversation in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<EnvironmentDescription>,
}

/// What the model reads about an environment. Later turns reuse it, because a prompt that changes is not in the provider's cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentDescription {
    /// The environment of the turn that was described; `None` is the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<TurnEnvironment>,
    pub text: String,
}

impl DiscoveredTools {
    /// Computes the digest of the results. Failure reasons are left out, because their text may differ each time.
    #[must_use]
    pub fn new(tools: Vec<DiscoveredTool>, failures: Vec<McpFailure>) -> Self {
        let failed: Vec<_> = failures.iter().map(|failure| &failure.server).collect();
        let digest = if tools.is_empty() && failed.is_empty() {
            String::new()
        } else {
            Digest128::of_json(&(&tools, failed)).to_string()
        };
        Self {
            digest,
            tools,
            failures,
            instructions: None,
            description: None,
        }
    }

    /// Adds the environment's instructions.
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

    /// Adds the environment's description.
    #[must_use]
    pub fn with_description(self, description: Option<EnvironmentDescription>) -> Self {
        let digest = match &description {
            Some(described) => Digest128::of_json(&(&self.digest, described)).to_string(),
            None => self.digest,
        };
        Self {
            digest,
            description,
            ..self
        }
    }
}

/// The session and permissions for which servers are queried.
#[derive(Debug, Clone, PartialEq)]
pub struct McpScope {
    pub session_id: SessionId,
    /// The owner of the work, if it is not the operator.
    pub owner: Option<String>,
    /// The environment of the turn and of local servers.
    pub environment: Option<TurnEnvironment>,
    /// The hosts that the turn may connect to.
    pub network_access: Option<NetworkAccessList>,
}

/// A server that all sessions have, without confidential details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMcpServer {
    pub name: String,
    /// The program, without arguments and variables.
    pub command: Option<String>,
    /// Scheme, host and port of its address.
    pub origin: Option<String>,
    /// Whether a connection is open.
    pub is_connected: bool,
}

/// The servers to query for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpReach {
    /// Only servers with an open connection.
    Connected,
    /// All; they are started or reached first.
    All,
}

/// Connects to MCP servers.
#[async_trait]
pub trait McpConnector: Send + Sync {
    /// Lists the tools of servers: those in the records and the connector's own. Failures are part of the result and do not affect other servers.
    ///
    /// Returning the same value again means that nothing changed: neither the discovered tools, nor the result of [`tool`](Self::tool) for the same
    /// servers and scope. The runtime then reuses the tools of an earlier turn.
    async fn discover(&self, servers: &ScopedMcpServers, scope: &McpScope) -> Arc<DiscoveredTools>;

    /// Lists the servers that all sessions have, without confidential details.
    fn own_servers(&self) -> Vec<OwnMcpServer> {
        Vec::new()
    }

    /// Lists the tools of servers that all sessions have: those of one server by name, or of all.
    async fn own_tools(
        &self,
        _server: Option<&str>,
        _scope: &McpScope,
        _reach: McpReach,
    ) -> DiscoveredTools {
        DiscoveredTools::default()
    }

    /// Builds a tool from its record. Its calls need no approval from the tool itself, unless the current policy requires one that the record does
    /// not: the operator may have changed the policy since the turn began.
    fn tool(
        &self,
        recorded: &DiscoveredTool,
        servers: &ScopedMcpServers,
        scope: &McpScope,
    ) -> Arc<dyn Tool>;

    /// Returns the secrets in the servers' configuration, by name; records must not contain them.
    fn secrets(&self, _servers: &ScopedMcpServers) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Closes all connections and ends local servers.
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
