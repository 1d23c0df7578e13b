//! MCP servers that a record brings along.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::llm_models::masked;

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
            .finish()
    }
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
