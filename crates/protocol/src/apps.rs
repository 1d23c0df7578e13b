//! Skills and MCP servers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A skill of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillEntry {
    /// Its name.
    pub name: String,
    /// What it is for, in the words of who wrote it.
    pub description: String,
    /// Its file.
    pub path: Option<String>,
    /// `native`: it is a folder of the workspace.
    pub source: String,
    /// Whether models are told of it.
    pub enabled: bool,
    /// Whether it comes with the daemon.
    pub is_bundled: bool,
}

/// The answer of `GET /v1/skills`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillList {
    /// Where they are looked for first.
    pub directory: String,
    /// All places.
    pub directories: Vec<String>,
    /// What could not be read.
    pub warnings: Vec<String>,
    /// The skills.
    pub skills: Vec<SkillEntry>,
}

/// The body of `POST /v1/skills/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SwitchSkill {
    /// Whether models are told of it.
    pub enabled: bool,
}

/// The answer of `POST /v1/skills/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SwitchedSkill {
    /// The skill.
    pub name: String,
    /// Whether models are told of it.
    pub enabled: bool,
}

/// An MCP server of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerEntry {
    /// Its name.
    pub name: String,
    /// Whether threads have it: always, here.
    pub enabled: bool,
    /// Whether turns fail without it: never, here.
    pub required: bool,
    /// Its program; arguments and variables are not shown.
    pub command: Option<String>,
    /// Where it is, without a login and a query; headers are not shown.
    pub url: Option<String>,
    /// Whether somebody is connected to it now.
    pub connected: bool,
    /// The tools that are taken of it; empty is all.
    pub enabled_tools: Vec<String>,
    /// The tools that are not.
    pub disabled_tools: Vec<String>,
}

/// The answer of `GET /v1/apps/mcp/servers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerList {
    /// The servers.
    pub servers: Vec<McpServerEntry>,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolEntry {
    /// The server.
    pub server: String,
    /// What the server calls it.
    pub name: String,
    /// What models call it.
    pub prefixed_name: String,
    /// What the server says of it.
    pub description: Option<String>,
    /// What it takes.
    pub input_schema: Value,
}

/// Why something of a server is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpServerFailure {
    /// The server.
    pub server: String,
    /// What went wrong.
    pub reason: String,
}

/// The answer of `GET /v1/apps/mcp/tools`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct McpToolList {
    /// The tools.
    pub tools: Vec<McpToolEntry>,
    /// What is missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<McpServerFailure>,
}
